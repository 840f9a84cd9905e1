import { dirname } from "node:path";
import type { ChangeLine, StoredFileState, PathChange, JournalContents } from "./journal.js";
import { isSame } from "./session-files.js";

/** The planned restore of one path. */
export interface PlannedPath {
  path: string;
  /** The state to restore: the state at the undo point. */
  targetState: StoredFileState;
  /** The states in which this session may have left the path. More than one if the last change was not confirmed. */
  expectedStates: StoredFileState[];
  /** Whether another program changed the path between two changes of the session. */
  isMixed: boolean;
  /** Whether a run outside the undone runs changed the path after them. */
  hasLaterRun?: boolean;
  /** Whether the path was missing between two changes. The current file may then have another mode. */
  isRemade: boolean;
  /** Whether the path is a folder that was created as the parent of another path. It is removed only if empty. */
  isParentFolder: boolean;
  /** Whether the result is reported to users. */
  isReported: boolean;
}

const MISSING: StoredFileState = { kind: "none" };
const CREATED_FOLDER: StoredFileState = { kind: "folder", mode: 0 };

/**
 * Plans the undo of all changes from the first change for which `isAfterTarget` returns true. Returns one entry per
 * path, sorted by path.
 */
export function planRestore(
  journal: JournalContents,
  isAfterTarget: (line: ChangeLine, index: number) => boolean,
): PlannedPath[] {
  const plannedByPath = new Map<string, PlannedPath>();
  const firstIndex = journal.changes.findIndex(isAfterTarget);
  if (firstIndex === -1) return [];
  for (const line of journal.changes.slice(firstIndex))
    for (const step of line.steps) {
      const isDone = journal.confirmedChangeIds.has(line.change);
      addCreatedFolders(plannedByPath, step, isDone);
      addChange(plannedByPath, step, line, isDone);
    }
  return [...plannedByPath.values()].sort(comparePaths);
}

/** Compares two items for a sort by path. */
export function comparePaths(left: { readonly path: string }, right: { readonly path: string }): number {
  return left.path < right.path ? -1 : 1;
}

/** Adds the folders that were created as parents of a path. */
function addCreatedFolders(plannedByPath: Map<string, PlannedPath>, { path, made }: PathChange, isDone: boolean): void {
  for (
    let folderPath = dirname(path), remainingLevels = made;
    remainingLevels > 0;
    remainingLevels--, folderPath = dirname(folderPath)
  ) {
    const plannedPath = plannedByPath.get(folderPath);
    if (plannedPath) {
      plannedPath.expectedStates = isDone ? [CREATED_FOLDER] : [CREATED_FOLDER, ...plannedPath.expectedStates];
      plannedPath.isParentFolder = plannedPath.targetState.kind === "none";
    } else
      plannedByPath.set(folderPath, {
        ...{
          path: folderPath,
          targetState: MISSING,
          expectedStates: isDone ? [CREATED_FOLDER] : [CREATED_FOLDER, MISSING],
        },
        ...{ isMixed: false, isRemade: false, isParentFolder: true, isReported: false },
      });
  }
}

function addChange(plannedByPath: Map<string, PlannedPath>, step: PathChange, line: ChangeLine, isDone: boolean): void {
  const { path, before, after } = step;
  const plannedPath = plannedByPath.get(path);
  const expectedStates = listPossibleStates(line, before, after, isDone);
  if (!plannedPath) {
    plannedByPath.set(path, {
      path,
      targetState: before,
      expectedStates,
      isMixed: false,
      isRemade: false,
      isParentFolder: false,
      isReported: step.isWay !== true,
    });
    return;
  }
  // A forced undo stores the foreign content that it overwrites, so that this is no conflict.
  if (line.undo === "" && !plannedPath.expectedStates.some((state) => isSame(state, before)))
    plannedPath.isMixed = true;
  if (before.kind !== "file") plannedPath.isRemade = true;
  plannedPath.expectedStates = expectedStates;
  if (!step.isWay) plannedPath.isReported = true;
  if (after.kind !== "none")
    plannedPath.isParentFolder = after.kind === "folder" && plannedPath.targetState.kind === "none";
}

/** Returns the states that a change may have left at a path. An unconfirmed change may have stopped at any point. */
function listPossibleStates(
  { undo }: ChangeLine,
  before: StoredFileState,
  after: StoredFileState,
  isDone: boolean,
): StoredFileState[] {
  if (isDone) return [after];
  // An undo replaces a file by a file in one step. In all other cases it first removes the old entry.
  const wasRemovedFirst = undo !== "" && !(before.kind === "file" && after.kind === "file");
  return [after, before, ...(wasRemovedFirst ? [MISSING] : [])];
}
