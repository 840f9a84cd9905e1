import { useSignal, type ReadonlySignal } from "@preact/signals";
import { escapeInvisible } from "./content/escape.js";
import { IconButton } from "./parts/button.js";
import { QueuedRuns } from "./queued-runs.js";
import { useConsole } from "./state/context.js";
import type { OutboxEntry } from "./state/console-outbox.js";
import type { WatchedSession } from "./state/watched-session.js";

/** The texts of a session that are in no message yet, above the prompt field. */
export function ComposerOutbox({ session, sentCount }: { session: WatchedSession; sentCount: ReadonlySignal<number> }) {
  const steers = session.outbox.unreadSteers.value;
  return (
    <>
      <QueuedRuns session={session} sentCount={sentCount} />
      {steers.length > 0 && (
        <ul class="composer-pending" aria-label="Unread instructions">
          {steers.map(({ id, text }) => (
            <li key={id} class="composer-queued">
              <span class="dot" /> <span class="clipped">Not read yet: {escapeInvisible(text)}</span>
            </li>
          ))}
        </ul>
      )}
      <HeldPrompts session={session} />
    </>
  );
}

/** Prompts whose run ended before it read them, and the choice what to do with them. */
function HeldPrompts({ session }: { session: WatchedSession }) {
  const store = useConsole();
  const isSending = useSignal(false);
  const prompts = session.outbox.heldPrompts.value;
  if (prompts.length === 0) return null;
  const edit = (entries: readonly OutboxEntry[]) => {
    session.outbox.edit(entries);
    document.getElementById("prompt")?.focus();
  };
  const sendAll = async () => {
    isSending.value = true;
    try {
      for (const { id, text } of prompts)
        if (store.outbox.take(id))
          await store.sendPrompt(text).catch((error: unknown) => {
            store.outbox.addHeld(session.id, text);
            throw error;
          });
    } catch (error) {
      store.reportError(error);
    } finally {
      isSending.value = false;
    }
  };
  return (
    <section class="composer-held" aria-label="Prompts that were not sent">
      <p>{prompts.length === 1 ? "1 prompt was not sent:" : `${prompts.length} prompts were not sent:`}</p>
      <ul class="composer-pending">
        {prompts.map((prompt) => {
          const text = escapeInvisible(prompt.text);
          return (
            <li key={prompt.id} class="composer-queued">
              <span class="dot warn" />
              <span class="clipped" title={text}>
                {text}
              </span>
              <IconButton icon="pencil" label={`Edit: ${text.slice(0, 60)}`} onClick={() => edit([prompt])} />
            </li>
          );
        })}
      </ul>
      <div class="composer-held-actions">
        <button type="button" class="button primary" disabled={isSending.value} onClick={() => void sendAll()}>
          {prompts.length === 1 ? "Send it" : "Send the queue"}
        </button>
        <button type="button" class="button" disabled={isSending.value} onClick={() => edit(prompts)}>
          Edit
        </button>
      </div>
    </section>
  );
}
