import { useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { readFiles, type AttachedFile } from "./attachments.js";
import { ComposerCommands, useCommands } from "./composer-commands.js";
import { ComposerHistory } from "./composer-history.js";
import { ComposerPaths, usePathSuggestions } from "./composer-paths.js";
import { addToPromptHistory, HistoryWalk } from "./prompt-history.js";
import { AttachButton, ComposerFiles } from "./composer-files.js";
import { getSendLabel, steerOrPrompt, toFailureText, waitUntilTrue } from "./composer-sending.js";
import "./composer.css";
import { listenForDroppedFiles } from "./file-drops.js";
import { createLazyView } from "./frame/lazy-view.js";
import { Icon } from "./parts/icon.js";
import { CommandHint } from "./person-commands/command-hint.js";
import { readTypedCommand, type TypedCommand } from "./person-commands/typed-command.js";
import { Pickers } from "./pickers.js";
import { ComposerOutbox } from "./composer-outbox.js";
import { ComposerProblems } from "./composer-problems.js";
import { EditBanner } from "./rewind/edit-banner.js";
import { endMessageEdit, getMessageEdit, returnMessageEdit, toRunRewind } from "./rewind/message-edit.js";
import { rewindTask } from "./rewind/rewind-task.js";
import { announce } from "./state/announce.js";
import { useConsole } from "./state/context.js";
import { expandPastes, foldPaste, forgetPastes, isLongPaste } from "./state/pasted-texts.js";
import type { WatchedSession } from "./state/watched-session.js";

const ComposerPastes = createLazyView(async () => (await import("./deferred.js")).ComposerPastes, "");

/** The prompt field of a session, or of a new session. */
export function Composer({ session }: { session: WatchedSession | undefined }) {
  return <Editor key={session?.id ?? ""} session={session} />;
}

function Editor({ session }: { session: WatchedSession | undefined }) {
  const store = useConsole();
  const sessionId = session?.id ?? "";
  const draft = store.drafts.getText(sessionId);
  const edit = getMessageEdit(sessionId);
  const text = useComputed(() => getMessageEdit(sessionId)?.text.value ?? draft.value);
  const setText = (value: string) => {
    if (edit) edit.text.value = value;
    else store.drafts.setText(sessionId, value);
  };
  const files = useSignal<readonly AttachedFile[]>([]);
  /** Number of unfinished reads of attached files. */
  const readCount = useSignal(0);
  const isSending = useSignal(false);
  const problem = useSignal("");
  const isDragOver = useSignal(false);
  /** During a run, a text is sent to the run (`steer`) or queued as the next prompt (`queue`). */
  const delivery = useSignal<"steer" | "queue">("steer");
  const sentCount = useSignal(0);
  const textArea = useRef<HTMLTextAreaElement>(null);
  const isBusy = session?.isBusy.value ?? false;
  const commands = useCommands(store.client, text, session, store.newSessionSettings.projectDir.value);
  const caret = useSignal(0);
  const isHistoryOpen = useSignal(false);
  const history = useRef(new HistoryWalk());
  const showText = (value: string, newCaret: number) => {
    setText(value);
    caret.value = newCaret;
    // The field has the new text only after it is drawn.
    requestAnimationFrame(() => {
      textArea.current?.focus();
      textArea.current?.setSelectionRange(newCaret, newCaret);
    });
  };
  const pathScope = { sessionId: session?.id, projectDir: store.newSessionSettings.projectDir.value };
  const paths = usePathSuggestions(store.client, { text, caret }, pathScope, showText);
  /** The text to send, with the pasted texts. */
  const fullText = expandPastes(sessionId, text.value);
  const typedCommand = !edit && files.value.length === 0 ? readTypedCommand(fullText) : undefined;
  const isSteer =
    isBusy &&
    !edit &&
    !typedCommand &&
    delivery.value === "steer" &&
    files.value.length === 0 &&
    !commands.isCommand(text.value);
  const isEmpty = text.value.trim() === "" && files.value.length === 0;

  const attachFiles = async (addedFiles: readonly File[]) => {
    if (addedFiles.length === 0) return;
    readCount.value++;
    try {
      const { newFiles, refusals } = await readFiles(addedFiles, files.value);
      files.value = [...files.value, ...newFiles];
      problem.value = refusals.join("; ");
      if (newFiles.length > 0) announce(`Attached ${newFiles.map(({ filename }) => filename).join(", ")}`);
    } finally {
      readCount.value--;
      textArea.current?.focus();
    }
  };
  const sendCommand = async (command: TypedCommand) => {
    const commandText = text.value;
    problem.value = session ? "" : "A command needs a session: send a prompt first.";
    if (!session) return;
    setText("");
    addToPromptHistory(commandText);
    try {
      await (await import("./deferred.js")).runCommand(store, session.id, command);
    } catch (error) {
      store.drafts.returnTexts(sessionId, [commandText]);
      problem.value = error instanceof Error ? error.message : String(error);
    }
  };
  const send = async () => {
    if (isEmpty || isSending.value || readCount.value > 0) return;
    const pageCommand = edit ? undefined : commands.findPageCommand(text.value);
    if (session && pageCommand) {
      rewindTask.value = { session, action: pageCommand };
      return setText("");
    }
    if (typedCommand) return sendCommand(typedCommand);
    isSending.value = true;
    problem.value = "";
    // A sent text is found again among the messages after the newest loaded message.
    if (session) await waitUntilTrue(session.isLoaded);
    const [draft, prompt] = [text.value, expandPastes(sessionId, text.value)];
    const sentFiles = files.value;
    const sendPrompt = () => {
      const newAttachments = sentFiles.map(({ filename, media_type, data }) => ({ filename, media_type, data }));
      const attachments = [...(edit?.attachments ?? []), ...newAttachments];
      return store.sendPrompt(prompt, {
        ...(attachments.length > 0 && { attachments }),
        ...(edit && { rewind: toRunRewind(edit) }),
      });
    };
    // The request stores the text, before the field is cleared.
    const request = isSteer && session ? steerOrPrompt(session, prompt, sendPrompt) : sendPrompt();
    if (edit) endMessageEdit();
    else setText("");
    addToPromptHistory(prompt);
    files.value = [];
    try {
      await request;
      forgetPastes(sessionId, draft);
      sentCount.value++;
      announce(isSteer ? "Instruction sent" : isBusy ? "Prompt queued" : "Sent");
    } catch (error) {
      // Keep the text that the user typed in the meantime, after the unsent prompt.
      if (draft !== "" && !edit) store.drafts.returnTexts(sessionId, [draft]);
      files.value = [...sentFiles, ...files.value];
      problem.value = edit ? returnMessageEdit(edit, error) : toFailureText(error);
    } finally {
      isSending.value = false;
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const isHandled = !event.isComposing && (paths.handleKey(event) || commands.handleKey(event, setText));
    if (isHandled) return event.preventDefault();
    if (edit && event.key === "Escape" && !event.isComposing) {
      // A default-prevented Escape does not stop the run.
      event.preventDefault();
      return endMessageEdit();
    }
    if (event.ctrlKey && event.key === "r") {
      event.preventDefault();
      isHistoryOpen.value = true;
      return;
    }
    const earlierPrompt = event.shiftKey || event.isComposing ? undefined : history.current.move(event.key, text.value);
    if (earlierPrompt !== undefined) {
      event.preventDefault();
      return showText(earlierPrompt, earlierPrompt.length);
    }
    if (event.key !== "Enter" || event.shiftKey || event.altKey || event.isComposing) return;
    // A phone's keyboard has no other key for a new line.
    if (matchMedia("(pointer: coarse)").matches && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    void send();
  };
  const onPaste = (event: ClipboardEvent) => {
    const pastedFiles = [...(event.clipboardData?.files ?? [])];
    const pastedText = event.clipboardData?.getData("text/plain").replaceAll("\r\n", "\n") ?? "";
    if (pastedFiles.length === 0 && !isLongPaste(pastedText)) return;
    event.preventDefault();
    if (pastedFiles.length > 0) void attachFiles(pastedFiles);
    // Deprecated, but the only insertion that the browser can undo.
    else document.execCommand("insertText", false, foldPaste(sessionId, pastedText));
  };

  useSignalEffect(() => {
    void text.value;
    const textField = textArea.current;
    if (!textField) return;
    textField.style.height = "auto";
    textField.style.height = `${textField.scrollHeight}px`;
  });
  // At once, so that keys reach the field also while the first prompt of a session replaces it.
  useLayoutEffect(() => {
    // On a phone, the focus would open the keyboard.
    if (matchMedia("(hover: hover)").matches) textArea.current?.focus({ preventScroll: true });
  }, []);
  useEffect(
    () =>
      listenForDroppedFiles(
        (isOver) => (isDragOver.value = isOver),
        (droppedFiles) => void attachFiles(droppedFiles),
      ),
    [],
  );

  const sendLabel = edit ? "Replace and send" : typedCommand ? "Run the command" : getSendLabel(isSteer, isBusy);
  return (
    <form
      class={`composer ${isDragOver.value ? "composer-over" : ""}`}
      aria-label="Prompt"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {edit && <EditBanner edit={edit} />}
      {session && <ComposerOutbox session={session} sentCount={sentCount} />}
      <ComposerProblems problem={problem} />
      <CommandHint typedCommand={typedCommand} />
      <ComposerCommands commands={commands} setPrompt={setText} />
      <ComposerPaths suggestions={paths} />
      <ComposerHistory
        isOpen={isHistoryOpen}
        onChosen={(prompt) => {
          // The typed text stays in the field.
          if (prompt !== undefined) setText(text.value === "" ? prompt : `${text.value}\n${prompt}`);
          textArea.current?.focus();
        }}
      />
      <div class="composer-card">
        <ComposerPastes
          sessionId={sessionId}
          draft={text.value}
          setDraft={setText}
          onChanged={() => textArea.current?.focus()}
        />
        <ComposerFiles files={files} isReading={readCount.value > 0} onRemoved={() => textArea.current?.focus()} />
        <textarea
          ref={textArea}
          id="prompt"
          class="composer-text"
          rows={1}
          aria-label="Message"
          aria-describedby="composer-hint"
          placeholder={isSteer ? "An instruction for the run…" : "Ask a question or describe a task…"}
          value={text.value}
          aria-controls={paths.paths.length > 0 ? "composer-paths" : undefined}
          aria-activedescendant={paths.paths.length > 0 ? `composer-path-${paths.selectedIndex}` : undefined}
          onInput={({ currentTarget }) => {
            setText(currentTarget.value);
            caret.value = currentTarget.selectionEnd;
          }}
          onKeyUp={({ currentTarget }) => (caret.value = currentTarget.selectionEnd)}
          onClick={({ currentTarget }) => (caret.value = currentTarget.selectionEnd)}
          onKeyDown={onKeyDown}
          onPaste={onPaste}
        />
        <div class="composer-foot">
          <AttachButton onChosen={(chosenFiles) => void attachFiles(chosenFiles)} />
          <Pickers session={session} />
          <span class="composer-actions">
            {isBusy && !typedCommand && (
              <select
                class="composer-delivery"
                aria-label="During the run"
                value={isSteer ? "steer" : "queue"}
                disabled={files.value.length > 0}
                onChange={(event) => (delivery.value = event.currentTarget.value === "queue" ? "queue" : "steer")}
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
              aria-label={sendLabel}
              title={`${sendLabel} (Enter)`}
              disabled={isEmpty || isSending.value || readCount.value > 0}
            >
              {isSending.value ? <span class="spinner" /> : <Icon name="send" />}
            </button>
          </span>
        </div>
      </div>
      <p id="composer-hint" class="visually-hidden">
        Enter sends, Shift and Enter begin a new line. Files can be pasted or dropped.
      </p>
    </form>
  );
}
