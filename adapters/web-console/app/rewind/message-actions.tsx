import type { ApiMessage } from "gantry/client";
import { IconButton } from "../parts/button.js";
import { useConsole } from "../state/context.js";
import type { Console } from "../state/console.js";
import type { WatchedSession } from "../state/watched-session.js";
import { splitContent } from "../timeline/split-content.js";
import { startMessageEdit } from "./message-edit.js";
import { rewindTask } from "./rewind-task.js";

/** Buttons below a message of the user. The messages of a subagent have none. */
export function MessageActions({ message, session }: { message: ApiMessage; session: WatchedSession }) {
  const store = useConsole();
  if (session.info.value?.spawned_by) return null;
  const isDisabled = !session.isIdle.value;
  const { text } = splitContent(message.content);
  return (
    <div class="message-actions" role="group" aria-label="Actions of the message">
      <IconButton
        icon="pencil"
        label="Edit and resend"
        disabled={isDisabled}
        onClick={() => startMessageEdit(session.id, message)}
      />
      <IconButton
        icon="rewind"
        label="Rewind to here"
        disabled={isDisabled}
        onClick={() => (rewindTask.value = { session, action: "rewind", messageId: message.id, text })}
      />
      <IconButton
        icon="fork"
        label="Fork from here"
        disabled={isDisabled}
        onClick={() => void forkBefore(store, session, message)}
      />
    </div>
  );
}

/** Opens a copy of all earlier messages, with the message in its prompt field. An error becomes a notice. */
async function forkBefore(store: Console, session: WatchedSession, { seq, content }: ApiMessage): Promise<void> {
  const { text } = splitContent(content);
  try {
    const [previousMessage] = await store.client.sessions.messages(session.id, { before: seq, limit: 1 });
    if (!previousMessage) {
      // A copy without messages is a new session.
      store.newSessionSettings.projectDir.value = session.info.peek()?.project_dir ?? "";
      store.drafts.returnTexts("", [text]);
      return store.navigate({ name: "new" });
    }
    const copy = await store.client.sessions.fork(session.id, { messageId: previousMessage.id });
    store.drafts.setText(copy.id, text);
    store.navigate({ name: "session", id: copy.id });
    store.notify("This session is a copy. The original is unchanged.");
    void store.sessionBrowser.refresh();
  } catch (error) {
    store.reportError(error);
  }
}
