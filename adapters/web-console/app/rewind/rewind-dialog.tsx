import { useSignal } from "@preact/signals";
import type { ApiUndoneFile, ApiUndoResult } from "gantry/client";
import { useEffect, useRef } from "preact/hooks";
import { IconButton } from "../parts/button.js";
import { announce } from "../state/announce.js";
import type { Console } from "../state/console.js";
import { useConsole } from "../state/context.js";
import { toErrorMessage } from "../state/error-message.js";
import { describeOutcome, isBlocked, readConflictFiles } from "./outcomes.js";
import { lastUndo, rewindTask, type RewindTask } from "./rewind-task.js";

const TEXTS = {
  undo: {
    title: "Undo the last run",
    intro: "Hides the messages of the last run, and restores the files that it changed.",
    button: "Undo",
    done: "The run was undone",
  },
  redo: {
    title: "Redo",
    intro: "Reverts the last undo or rewind, with its files.",
    button: "Redo",
    done: "The undo was reverted",
  },
  rewind: {
    title: "Rewind to here",
    intro: "Hides this message and all later ones. The text of the message returns to the prompt field.",
    button: "Rewind",
    done: "The session was rewound",
  },
} as const;

/** Dialog that shows which files an undo changes, performs it and reports the outcome. */
export function RewindDialog({ task }: { task: RewindTask }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const doneFiles = useSignal<readonly ApiUndoneFile[] | undefined>(undefined);
  useEffect(() => {
    dialog.current?.showModal();
    doneFiles.value = undefined;
  }, [task]);
  const close = () => {
    if (rewindTask.peek() === task) rewindTask.value = undefined;
  };
  const { title, done } = TEXTS[task.action];
  return (
    <dialog
      ref={dialog}
      class="help rewind"
      aria-labelledby="rewind-title"
      onClose={close}
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
      onKeyDown={(event) => {
        // Escape closes the dialog only, and does not stop a run.
        if (event.key === "Escape") event.stopPropagation();
      }}
    >
      <div class="help-sheet">
        <header class="help-head">
          <h2 id="rewind-title">{doneFiles.value ? done : title}</h2>
          <IconButton icon="x" label="Close" onClick={() => dialog.current?.close()} />
        </header>
        {doneFiles.value ? (
          <Outcome task={task} files={doneFiles.value} onClose={() => dialog.current?.close()} />
        ) : (
          <Plan task={task} onDone={(files) => (doneFiles.value = files)} onCancel={() => dialog.current?.close()} />
        )}
      </div>
    </dialog>
  );
}

interface PlanProps {
  task: RewindTask;
  onDone: (files: readonly ApiUndoneFile[]) => void;
  onCancel: () => void;
}

/** The files that would change, and the choices. */
function Plan({ task, onDone, onCancel }: PlanProps) {
  const store = useConsole();
  const withFiles = useSignal(task.action !== "rewind");
  const force = useSignal(false);
  const files = useSignal<readonly ApiUndoneFile[] | undefined>(undefined);
  const problem = useSignal("");
  const isRunning = useSignal(false);
  const cancelButton = useRef<HTMLButtonElement>(null);
  useEffect(() => cancelButton.current?.focus(), [task]);
  useEffect(() => {
    files.value = withFiles.value ? undefined : [];
    problem.value = "";
    force.value = false;
    if (!withFiles.value) return undefined;
    const controller = new AbortController();
    perform(store, task, { withFiles: true, dryRun: true }, controller.signal).then(
      (result) => (files.value = result.files),
      (error: unknown) => !controller.signal.aborted && (problem.value = toErrorMessage(error)),
    );
    return () => controller.abort();
  }, [task, withFiles.value]);
  const isConflict = files.value?.some(isBlocked) ?? false;
  const run = async () => {
    isRunning.value = true;
    problem.value = "";
    try {
      const result = await perform(store, task, { withFiles: withFiles.value, force: force.value });
      completeTask(store, task);
      onDone(result.files);
    } catch (error) {
      const conflictFiles = readConflictFiles(error);
      if (conflictFiles) files.value = conflictFiles;
      problem.value = toErrorMessage(error);
    } finally {
      isRunning.value = false;
    }
  };
  return (
    <>
      <p>{TEXTS[task.action].intro}</p>
      {task.action === "rewind" && (
        <fieldset class="rewind-choices">
          <legend class="visually-hidden">Extent of the rewind</legend>
          {([false, true] as const).map((value) => (
            <label key={String(value)}>
              <input
                type="radio"
                name="rewind-files"
                checked={withFiles.value === value}
                onChange={() => (withFiles.value = value)}
              />
              {value ? "Messages and files" : "Only the messages; files stay as they are"}
            </label>
          ))}
        </fieldset>
      )}
      {withFiles.value && problem.value === "" && files.value === undefined && <p role="status">Comparing files…</p>}
      {withFiles.value && files.value && <FileList files={files.value} emptyText="No file changes." />}
      {isConflict && (
        <label class="rewind-force">
          <input type="checkbox" checked={force.value} onChange={() => (force.value = !force.value)} />
          Overwrite files that changed outside of the session, and skip files that cannot be restored
        </label>
      )}
      {problem.value !== "" && <p role="alert">{problem.value}</p>}
      <div class="rewind-buttons">
        <button ref={cancelButton} type="button" class="button" onClick={onCancel}>
          Cancel
        </button>
        <button
          type="button"
          class="button primary"
          disabled={isRunning.value || files.value === undefined || (isConflict && !force.value)}
          onClick={() => void run()}
        >
          {TEXTS[task.action].button}
        </button>
      </div>
    </>
  );
}

function Outcome({ task, files, onClose }: { task: RewindTask; files: readonly ApiUndoneFile[]; onClose: () => void }) {
  const { session, action } = task;
  const doneButton = useRef<HTMLButtonElement>(null);
  // The focused button of the plan is gone. Without a focus in the dialog, Escape would not close it.
  useEffect(() => doneButton.current?.focus(), []);
  return (
    <>
      <div role="status">
        <FileList files={files} emptyText="No file was changed." />
      </div>
      <div class="rewind-buttons">
        {action !== "redo" && (
          <button type="button" class="button" onClick={() => (rewindTask.value = { session, action: "redo" })}>
            Redo
          </button>
        )}
        <button ref={doneButton} type="button" class="button primary" onClick={onClose}>
          Done
        </button>
      </div>
    </>
  );
}

function FileList({ files, emptyText }: { files: readonly ApiUndoneFile[]; emptyText: string }) {
  if (files.length === 0) return <p>{emptyText}</p>;
  return (
    // A long list scrolls, also by keyboard.
    <ul class="rewind-files" aria-label="Files" tabIndex={0}>
      {files.map((file) => (
        <li key={file.path} class={isBlocked(file) ? "rewind-blocked" : ""}>
          {describeOutcome(file)}
        </li>
      ))}
    </ul>
  );
}

function perform(
  { client }: Console,
  task: RewindTask,
  { withFiles, dryRun, force }: { withFiles: boolean; dryRun?: boolean; force?: boolean },
  signal?: AbortSignal,
): Promise<ApiUndoResult> {
  const { id } = task.session;
  const options = signal && { signal };
  if (task.action !== "rewind") return client.sessions[task.action](id, { dryRun, force }, options);
  const input = { beforeMessageId: task.messageId, files: withFiles, dryRun, force };
  return client.sessions.rewind(id, input, options);
}

function completeTask(store: Console, task: RewindTask): void {
  const { session, action } = task;
  lastUndo.value = action === "redo" ? undefined : { sessionId: session.id, runId: session.run.peek()?.id ?? "" };
  if (action === "rewind") store.drafts.returnTexts(session.id, [task.text]);
  announce(TEXTS[action].done);
}
