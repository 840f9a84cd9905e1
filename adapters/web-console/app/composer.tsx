import { useSignal, useSignalEffect } from "@preact/signals";
import { ApiError } from "gantry/client";
import { useEffect, useRef } from "preact/hooks";
import { readFiles, type AttachedFile } from "./attachments.js";
import { ComposerCommands, useCommands } from "./composer-commands.js";
import { ComposerFiles } from "./composer-files.js";
import "./composer.css";
import { escapeInvisible } from "./content/seen.js";
import { draftOf, keepDraft } from "./drafts.js";
import { IconButton } from "./parts/button.js";
import { Icon } from "./parts/icon.js";
import { Pickers } from "./pickers.js";
import { QueuedRuns } from "./queued-runs.js";
import { announce } from "./state/announce.js";
import { useConsole } from "./state/context.js";
import type { WatchedSession } from "./state/open-session.js";

/** The prompt field of a session, or of a new session. */
export function Composer({ session }: { session: WatchedSession | undefined }) {
  return <Editor key={session?.id ?? ""} session={session} />;
}

function Editor({ session }: { session: WatchedSession | undefined }) {
  const app = useConsole();
  const id = session?.id ?? "";
  const text = useSignal(draftOf(id));
  const files = useSignal<readonly AttachedFile[]>([]);
  const reading = useSignal(0);
  const sending = useSignal(false);
  const problem = useSignal("");
  const dragged = useSignal(false);
  /** During a run: whether a text is sent to the run (`steer`) or queued as the next prompt. */
  const how = useSignal<"steer" | "queue">("steer");
  const sent = useSignal(0);
  const area = useRef<HTMLTextAreaElement>(null);
  const chooser = useRef<HTMLInputElement>(null);
  const isBusy = session?.busy.value ?? false;
  const commands = useCommands(app.client, text, session?.id, app.draft.projectDir.value);
  const isSteer = isBusy && how.value === "steer" && files.value.length === 0 && !commands.isCommand(text.value);
  const isEmpty = text.value.trim() === "" && files.value.length === 0;

  const write = (value: string) => {
    text.value = value;
    keepDraft(id, value);
  };
  const take = async (chosenFiles: readonly File[]) => {
    if (chosenFiles.length === 0) return;
    reading.value++;
    try {
      const { attached, refused } = await readFiles(chosenFiles, files.value);
      files.value = [...files.value, ...attached];
      problem.value = refused.join("; ");
      if (attached.length > 0) announce(`Attached ${attached.map(({ filename }) => filename).join(", ")}`);
    } finally {
      reading.value--;
      area.current?.focus();
    }
  };
  const send = async () => {
    if (isEmpty || sending.value || reading.value > 0) return;
    const prompt = text.value;
    const attached = files.value;
    sending.value = true;
    problem.value = "";
    write("");
    files.value = [];
    try {
      if (isSteer && session) await steerOr(session, prompt, () => app.prompt(prompt));
      else {
        const attachments = attached.map(({ filename, media_type, data }) => ({ filename, media_type, data }));
        await app.prompt(prompt, attachments.length > 0 ? { attachments } : undefined);
      }
      sent.value++;
      announce(isSteer ? "Instruction sent" : isBusy ? "Prompt queued" : "Sent");
    } catch (error) {
      // Text that the user typed in the meantime stays after the unsent prompt.
      write(text.value === "" ? prompt : `${prompt}\n${text.value}`);
      files.value = [...attached, ...files.value];
      problem.value = why(error);
    } finally {
      sending.value = false;
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!event.isComposing && commands.press(event, write)) return event.preventDefault();
    if (event.key !== "Enter" || event.shiftKey || event.altKey || event.isComposing) return;
    // A phone's keyboard has no other key for a new line.
    if (matchMedia("(pointer: coarse)").matches && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    void send();
  };
  const onPaste = (event: ClipboardEvent) => {
    const pastedFiles = [...(event.clipboardData?.files ?? [])];
    if (pastedFiles.length === 0) return;
    event.preventDefault();
    void take(pastedFiles);
  };

  useSignalEffect(() => {
    if (!session || session.returned.value.length === 0) return;
    // Text that the user has typed since stays after the returned messages.
    write([...session.takeReturned(), ...(text.peek() === "" ? [] : [text.peek()])].join("\n"));
    announce("The run did not read your last message. It is back in the field.");
  });
  useSignalEffect(() => {
    void text.value;
    const field = area.current;
    if (!field) return;
    field.style.height = "auto";
    field.style.height = `${field.scrollHeight}px`;
  });
  useEffect(() => {
    // On a phone, the focus would open the keyboard.
    if (matchMedia("(hover: hover)").matches) area.current?.focus({ preventScroll: true });
    return onDroppedFiles(
      (over) => (dragged.value = over),
      (droppedFiles) => void take(droppedFiles),
    );
  }, []);

  const label = isSteer ? "Instruct the run" : isBusy ? "Add to queue" : "Send";
  return (
    <form
      class={`composer ${dragged.value ? "composer-over" : ""}`}
      aria-label="Prompt"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {session && <QueuedRuns session={session} sent={sent} />}
      {session?.pending.value.map(({ text: unread, runId, after }) => (
        <p key={`${runId} ${after} ${unread}`} class="composer-queued">
          <span class="dot" /> <span class="clipped">Not read yet: {escapeInvisible(unread)}</span>
        </p>
      ))}
      {problem.value && (
        <p class="composer-problem" role="alert">
          <Icon name="warning" />
          <span>{problem.value}</span>
          <IconButton icon="x" label="Dismiss" onClick={() => (problem.value = "")} />
        </p>
      )}
      <ComposerCommands commands={commands} take={write} />
      <div class="composer-card">
        <ComposerFiles files={files} isReading={reading.value > 0} onRemoved={() => area.current?.focus()} />
        <textarea
          ref={area}
          id="prompt"
          class="composer-text"
          rows={1}
          aria-label="Message"
          aria-describedby="composer-hint"
          placeholder={isSteer ? "An instruction for the run…" : "Ask, or say what to do…"}
          value={text.value}
          onInput={(event) => write(event.currentTarget.value)}
          onKeyDown={onKeyDown}
          onPaste={onPaste}
        />
        <div class="composer-foot">
          <IconButton icon="paperclip" label="Attach files" onClick={() => chooser.current?.click()} />
          <input
            ref={chooser}
            type="file"
            multiple
            hidden
            onChange={({ currentTarget }) => {
              void take([...(currentTarget.files ?? [])]);
              // Cleared, so that choosing the same file again triggers a change event.
              currentTarget.value = "";
            }}
          />
          <Pickers session={session} />
          <span class="composer-actions">
            {isBusy && (
              <select
                class="composer-how"
                aria-label="During the run"
                value={isSteer ? "steer" : "queue"}
                disabled={files.value.length > 0}
                onChange={(event) => (how.value = event.currentTarget.value === "queue" ? "queue" : "steer")}
              >
                <option value="steer">Instruct the run</option>
                <option value="queue">Add to queue</option>
              </select>
            )}
            {isBusy && session && (
              <button type="button" class="button danger" onClick={() => void session.stop()}>
                <Icon name="stop" /> Stop
              </button>
            )}
            <button
              type="submit"
              class="composer-send"
              aria-label={label}
              title={`${label} (Enter)`}
              disabled={isEmpty || sending.value || reading.value > 0}
            >
              {sending.value ? <span class="spinner" /> : <Icon name="send" />}
            </button>
          </span>
        </div>
      </div>
      <p id="composer-hint" class="unseen">
        Enter sends, Shift and Enter begin a new line. Files can be pasted or dropped.
      </p>
    </form>
  );
}

/** Sends the text to the run. If the run has ended in the meantime, sends it as the next prompt. */
async function steerOr(session: WatchedSession, text: string, prompt: () => Promise<void>): Promise<void> {
  try {
    await session.steer(text);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "no_run") throw error;
    await prompt();
  }
}

/** The error as a message for the user. */
function why(error: unknown): string {
  if (error instanceof ApiError && error.status === 413)
    return "The files are more than the server takes at once (server.max_body_bytes). Nothing was sent.";
  return `Not sent: ${error instanceof Error ? error.message : String(error)}`;
}

/**
 * Accepts files that are dropped anywhere on the page. By default, a browser would navigate to the file. Returns a
 * function that removes the listeners.
 */
function onDroppedFiles(over: (isOver: boolean) => void, take: (files: File[]) => void): () => void {
  const listeners = new AbortController();
  const { signal } = listeners;
  const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
  document.addEventListener(
    "dragover",
    (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      over(true);
    },
    { signal },
  );
  document.addEventListener("dragleave", (event) => event.relatedTarget === null && over(false), { signal });
  document.addEventListener(
    "drop",
    (event) => {
      over(false);
      if (!hasFiles(event)) return;
      event.preventDefault();
      take([...(event.dataTransfer?.files ?? [])]);
    },
    { signal },
  );
  return () => listeners.abort();
}
