import { useSignal } from "@preact/signals";
import type { ApiChangedFile, ApiHunk, ApiRun, ChangedFileList } from "gantry/client";
import { useEffect } from "preact/hooks";
import { copyToClipboard } from "../parts/clipboard.js";
import { Icon } from "../parts/icon.js";
import { readConflicts } from "../rewind/outcomes.js";
import { canRedo, lastUndo, rewindTask } from "../rewind/rewind-task.js";
import { announce } from "../state/announce.js";
import { useConsole } from "../state/context.js";
import { toErrorMessage } from "../state/error-message.js";
import { toFragment } from "../state/router.js";
import type { WatchedSession } from "../state/watched-session.js";
import { WorktreeBar } from "../worktrees/worktree-bar.js";
import { FileChanges } from "./file-changes.js";
import { createPatch, toRelativePath } from "./patch.js";

const PAGE_SIZE = 50;
const MAX_RUNS = 100;

/** An undo that failed. */
interface UndoProblem {
  file: ApiChangedFile;
  hunk: ApiHunk | undefined;
  message: string;
  /** Files that changed outside of the session. Empty for other errors. */
  conflicts: readonly string[];
}

/** The files that the tools of a session or of one run changed. Files that are not undone stay changed. */
export function Changes({ session }: { session: WatchedSession }) {
  const store = useConsole();
  const runId = useSignal("");
  const list = useSignal<ChangedFileList | undefined>(undefined);
  const size = useSignal(PAGE_SIZE);
  const problem = useSignal<UndoProblem | undefined>(undefined);
  const isUndoing = useSignal(false);
  const runs = useRuns(session);
  const reloads = useSignal(0);
  const projectDir = session.info.value?.project_dir ?? "";
  const isIdle = session.isIdle.value;
  useEffect(() => {
    const controller = new AbortController();
    const scope = runId.value === "" ? {} : { runId: runId.value };
    store.client.sessions.changes(session.id, { ...scope, size: size.value }, { signal: controller.signal }).then(
      (changes) => (list.value = changes),
      (error: unknown) => !controller.signal.aborted && store.reportError(error),
    );
    return () => controller.abort();
    // An open dialog may redo changes.
  }, [runId.value, size.value, reloads.value, isIdle, rewindTask.value]);
  const undo = async (file: ApiChangedFile, hunk?: ApiHunk, force?: boolean) => {
    isUndoing.value = true;
    problem.value = undefined;
    try {
      // A version is a protection of its own: with `force`, the file is overwritten as it is now.
      const version = force && !hunk ? undefined : file.version;
      const scope = runId.value === "" ? {} : { runId: runId.value };
      const outcome = await store.client.sessions.undoChange(session.id, {
        path: file.path,
        ...scope,
        version,
        hunk,
        force,
      });
      lastUndo.value = { sessionId: session.id, runId: session.run.peek()?.id ?? "" };
      announce(`Undone: ${outcome.path}`);
    } catch (error) {
      problem.value = { file, hunk, message: toErrorMessage(error), conflicts: readConflicts(error) };
    } finally {
      isUndoing.value = false;
      reloads.value++;
    }
  };
  const copy = async (files: readonly ApiChangedFile[]) => {
    const { text, omittedCount } = await createPatch(files, projectDir);
    const isCopied = text !== "" && (await copyToClipboard(text));
    const omission =
      omittedCount > 0 ? ` It lacks ${omittedCount} files without a text, or outside of the folder.` : "";
    if (isCopied) store.notify(`The patch was copied.${omission}`);
    else store.notify(text === "" ? "These changes have no patch." : "The browser does not permit copying.", "error");
  };
  const files = list.value?.files ?? [];
  return (
    <div class="changes">
      <div class="changes-column">
        <div class="changes-bar">
          <a class="button" href={toFragment({ name: "session", id: session.id })}>
            Back to the session
          </a>
          <label class="changes-scope">
            Changes of{" "}
            <select class="field" value={runId.value} onChange={(event) => (runId.value = event.currentTarget.value)}>
              <option value="">the session, compared with now</option>
              {runs.map((run, index) => (
                <option key={run.id} value={run.id}>
                  run {runs.length - index}, {new Date(run.started_at).toLocaleString()}
                </option>
              ))}
            </select>
          </label>
          {files.length > 0 && (
            <button type="button" class="button" onClick={() => void copy(files)}>
              <Icon name="copy" /> Copy as patch
            </button>
          )}
          {canRedo(session) && isIdle && (
            <button type="button" class="button" onClick={() => (rewindTask.value = { session, action: "redo" })}>
              <Icon name="redo" /> Redo
            </button>
          )}
        </div>
        <WorktreeBar session={session} />
        <p role="status">{describeTotal(list.value)}</p>
        {problem.value && (
          <UndoProblemView
            problem={problem.value}
            onForce={({ file, hunk }) => void undo(file, hunk, true)}
            onClose={() => (problem.value = undefined)}
          />
        )}
        {files.map((file) => (
          <FileChanges
            key={`${runId.value} ${file.path}`}
            file={file}
            path={toRelativePath(file.path, projectDir)}
            undo={list.value?.can_undo ? (changedFile, hunk) => void undo(changedFile, hunk) : undefined}
            isDisabled={!isIdle || isUndoing.value}
            copyPatch={() => void copy([file])}
          />
        ))}
        {list.value && list.value.total > files.length && (
          <button type="button" class="button" onClick={() => (size.value += PAGE_SIZE)}>
            More files
          </button>
        )}
      </div>
    </div>
  );
}

interface UndoProblemProps {
  problem: UndoProblem;
  onForce: (problem: UndoProblem) => void;
  onClose: () => void;
}

function UndoProblemView({ problem, onForce, onClose }: UndoProblemProps) {
  return (
    <div class="changes-problem" role="alert">
      <p>{problem.message}</p>
      {problem.conflicts.map((line) => (
        <p key={line}>{line}</p>
      ))}
      <div class="rewind-buttons">
        {problem.conflicts.length > 0 && (
          <button type="button" class="button danger" onClick={() => onForce(problem)}>
            Overwrite
          </button>
        )}
        <button type="button" class="button" onClick={onClose}>
          Keep
        </button>
      </div>
    </div>
  );
}

function describeTotal(list: ChangedFileList | undefined): string {
  if (!list) return "Loading…";
  const count = list.total === 1 ? "1 changed file." : `${list.total} changed files.`;
  if (list.can_undo || list.total === 0) return list.total === 0 ? "No changed files." : count;
  return `${count} This server does not permit an undo: session.rewind is false in its config.`;
}

/** The ended runs of the session, newest first. */
function useRuns(session: WatchedSession): readonly ApiRun[] {
  const store = useConsole();
  const runs = useSignal<readonly ApiRun[]>([]);
  useEffect(() => {
    const controller = new AbortController();
    store.client.runs.list({ sessionId: session.id, size: MAX_RUNS }, { signal: controller.signal }).then(
      (loadedRuns) => (runs.value = loadedRuns.filter(({ state }) => state !== "queued")),
      (error: unknown) => !controller.signal.aborted && store.reportError(error),
    );
    return () => controller.abort();
  }, [session.run.value?.id]);
  return runs.value;
}
