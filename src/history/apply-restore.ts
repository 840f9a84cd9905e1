import { dirname } from "node:path";
import type { PathGuard } from "../files/path-guard.js";
import { hasCode, UndoConflictError } from "../ports/errors.js";
import type { RestoreRequest, UndoneFile } from "../ports/file-history.js";
import { findUnfinishedUndos, type JournalContents, type PathChange } from "./journal.js";
import { comparePaths } from "./plan.js";
import {
  discardTemporary,
  forEachConcurrently,
  restoreFiles,
  type RestoreOptions,
  type RestoreProgress,
} from "./restore-files.js";
import { NOT_STORED_REASON, readCurrentState, reasonOf, type RestoreCheck } from "./restore.js";
import { isSame, toStoredState, type SessionFiles } from "./session-files.js";

const PARTIAL_UNDO_NOTE = "; partly done: another undo continues it, a redo reverts it";

/** A restore whose paths were checked. */
export interface CheckedRestore {
  request: RestoreRequest;
  /** Results of the checks of all paths. */
  files: readonly UndoneFile[];
  /** Checks of the paths to restore, sorted by path. */
  checks: readonly RestoreCheck[];
  sessionFiles: SessionFiles;
  guard: PathGuard;
  folders: readonly string[];
  journal: JournalContents;
  /** Content to restore that is not stored yet. */
  newContent?: Buffer | undefined;
}

/**
 * Applies a checked restore completely, or rolls it back and throws `UndoConflictError`. If the rollback fails, the
 * error says that a part is done.
 */
export async function applyRestore(restore: CheckedRestore): Promise<void> {
  const { request, files, checks, sessionFiles, guard, journal } = restore;
  const { mark } = request;
  // If there is nothing to restore, no undo is recorded.
  if (checks.length === 0 && mark.snapshotId === "") return;
  const previousMark = journal.undos.get(mark.id);
  await discardTemporaries(journal, guard);
  const steps = await createSteps(checks, guard);
  const change = await recordUndo(restore, steps);
  const updatedJournal = await sessionFiles.readJournal();
  const restoreOptions: RestoreOptions = {
    guard,
    change,
    contentOf: async (hash) => {
      const content = await sessionFiles.readContent(hash, updatedJournal);
      if (!content) throw new Error(NOT_STORED_REASON);
      return content;
    },
  };
  const progress: RestoreProgress = { completedSteps: [], failedSteps: [] };
  try {
    const marks = new Map(checks.map(({ file, mark }) => [file.path, mark]));
    await restoreFiles(steps, { ...restoreOptions, marks }, progress);
    if (steps.length > 0) sessionFiles.confirmChange(change);
  } catch (error) {
    const isRolledBack = await rollBack(progress, restoreOptions);
    // An undo that was still open before stays open, and a later undo resumes it.
    if (isRolledBack && previousMark?.isOpen === false) await sessionFiles.recordMark(previousMark);
    else if (isRolledBack && !previousMark) await sessionFiles.recordMark({ redone: mark.id });
    const note = isRolledBack ? "" : PARTIAL_UNDO_NOTE;
    throw createConflict(files, progress.failedSteps[0]?.path ?? "", `${reasonOf(error)}${note}`);
  }
}

async function discardTemporaries(journal: JournalContents, guard: PathGuard): Promise<void> {
  for (const { change, steps } of findUnfinishedUndos(journal))
    await forEachConcurrently(steps, ({ path }) => discardTemporary(guard, path, change));
}

function createSteps(checks: readonly RestoreCheck[], guard: PathGuard): Promise<PathChange[]> {
  const paths = new Set(checks.map(({ file }) => file.path));
  return Promise.all(
    checks.map(async ({ plannedPath: { path, targetState, isReported }, current }): Promise<PathChange> => {
      const made = current.kind === "none" ? await countMissingFolders(guard, path, paths) : 0;
      return { path, before: current, after: targetState, made, ...(!isReported && { isWay: true }) };
    }),
  );
}

/**
 * Records the undo with copies of the current files, before it is applied. Resolves with the id of the change. Rejects
 * with `UndoConflictError` if a file changed since the check, or cannot be copied.
 */
async function recordUndo(
  { request: { mark, undo, seq }, files, sessionFiles, guard, folders, newContent }: CheckedRestore,
  steps: PathChange[],
): Promise<string> {
  let copiedPath = "";
  try {
    return await sessionFiles.recordUndo(
      { mark, undo, seq, folders, steps, newContent },
      async ({ path, before: recordedState }) => {
        copiedPath = path;
        const { state: currentState } = await readCurrentState(guard, path);
        if (currentState.kind === "file" && currentState.content && isSame(toStoredState(currentState), recordedState))
          return currentState.content;
        throw createConflict(files, path, "another program changed it just now");
      },
    );
  } catch (error) {
    if (hasCode(error, "undo_conflict") || copiedPath === "") throw error;
    throw createConflict(files, copiedPath, `the current content could not be saved: ${reasonOf(error)}`);
  }
}

function createConflict(files: readonly UndoneFile[], path: string, reason: string): UndoConflictError {
  const failedFile = { path, outcome: "failed", reason } as const;
  return new UndoConflictError([...files.filter((file) => file.path !== path), failedFile].sort(comparePaths));
}

/** Reverts a failed undo. Returns whether every file is as it was before the undo. */
async function rollBack(
  { completedSteps, failedSteps }: RestoreProgress,
  restoreOptions: RestoreOptions,
): Promise<boolean> {
  const reverseChange = ({ path, before, after, made }: PathChange): PathChange => {
    return { path, before: after, after: before, made };
  };
  try {
    // A failed step may have removed the old file without writing the new one.
    const failedReplacements = failedSteps.filter(({ before }) => before.kind !== "none");
    const removals: PathChange[] = [];
    for (const step of failedReplacements)
      if ((await readCurrentState(restoreOptions.guard, step.path)).state.kind === "none")
        removals.push({ ...step, before: { kind: "none" }, after: step.before });
    const steps = [...completedSteps.map(reverseChange), ...removals].sort(comparePaths);
    await restoreFiles(steps, restoreOptions, { completedSteps: [], failedSteps: [] });
    return true;
  } catch {
    return false;
  }
}

/** Counts the missing parent folders of a path that the plan does not restore separately. */
async function countMissingFolders(guard: PathGuard, path: string, paths: ReadonlySet<string>): Promise<number> {
  let missingCount = 0;
  for (
    let folderPath = dirname(path);
    !paths.has(folderPath) && dirname(folderPath) !== folderPath;
    folderPath = dirname(folderPath), missingCount++
  ) {
    const folder = await guard.openFolder(folderPath).catch(() => undefined);
    await folder?.close();
    if (folder) break;
  }
  return missingCount;
}
