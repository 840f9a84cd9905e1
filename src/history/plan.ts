import { dirname } from "node:path";
import type { ChangeLine, StoredFileState, PathChange, JournalContents } from "./journal.js";
import { isSame } from "./session-files.js";

/** The planned restore of one path. */
export interface PlannedPath {
  path: string;
  /** The state to restore: the state at the undo point. */
  want: StoredFileState;
  /** The states in which this session may have left the path. More than one if the last change was not confirmed. */
  left: StoredFileState[];
  /** Whether another program changed the path between two changes of the session. */
  isMixed: boolean;
  /** Whether the path was missing in between. The current file may then have another mode. */
  isRemade: boolean;
  /** Whether the path is a folder that was created as the parent of another path. It is removed only if empty. */
  isWay: boolean;
  /** Whether the result is reported to users. */
  isTold: boolean;
}

const NONE: StoredFileState = { kind: "none" };
const FOLDER: StoredFileState = { kind: "folder", mode: 0 };

/**
 * Plans the undo of all changes from the first one that matches `isBehind`. Returns one entry per path, sorted by path.
 */
export function planOf(story: JournalContents, isBehind: (line: ChangeLine, index: number) => boolean): PlannedPath[] {
  const byPath = new Map<string, PlannedPath>();
  const from = story.changes.findIndex(isBehind);
  if (from === -1) return [];
  for (const line of story.changes.slice(from))
    for (const step of line.steps) {
      const isDone = story.done.has(line.change);
      takeWays(byPath, step, isDone);
      take(byPath, step, line, isDone);
    }
  return [...byPath.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Adds the folders that were created as parents of a path. */
function takeWays(byPath: Map<string, PlannedPath>, { path, made }: PathChange, isDone: boolean): void {
  for (let at = dirname(path), left = made; left > 0; left--, at = dirname(at)) {
    const known = byPath.get(at);
    if (known) {
      known.left = isDone ? [FOLDER] : [FOLDER, ...known.left];
      known.isWay = known.want.kind === "none";
    } else
      byPath.set(at, {
        ...{ path: at, want: NONE, left: isDone ? [FOLDER] : [FOLDER, NONE] },
        ...{ isMixed: false, isRemade: false, isWay: true, isTold: false },
      });
  }
}

function take(byPath: Map<string, PlannedPath>, step: PathChange, line: ChangeLine, isDone: boolean): void {
  const { path, before, after } = step;
  const known = byPath.get(path);
  const left = leftBy(line, before, after, isDone);
  if (!known) {
    byPath.set(path, {
      path,
      want: before,
      left,
      isMixed: false,
      isRemade: false,
      isWay: false,
      isTold: step.isWay !== true,
    });
    return;
  }
  // A forced undo stores the foreign content that it overwrites, so that this is no conflict.
  if (line.undo === "" && !known.left.some((one) => isSame(one, before))) known.isMixed = true;
  if (before.kind !== "file") known.isRemade = true;
  known.left = left;
  if (!step.isWay) known.isTold = true;
  if (after.kind !== "none") known.isWay = after.kind === "folder" && known.want.kind === "none";
}

/** The states that a change may have left at a path. An unconfirmed change may have stopped at any point. */
function leftBy(
  { undo }: ChangeLine,
  before: StoredFileState,
  after: StoredFileState,
  isDone: boolean,
): StoredFileState[] {
  if (isDone) return [after];
  // An undo replaces a file by a file in one step. In all other cases it first removes the old entry.
  const isAway = undo !== "" && !(before.kind === "file" && after.kind === "file");
  return [after, before, ...(isAway ? [NONE] : [])];
}
