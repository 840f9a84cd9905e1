import { dirname } from "node:path";
import type { ChangeLine, Known, Step, Story } from "./journal.js";
import { isSame } from "./session-files.js";

/** What is to become of a path. */
export interface Wanted {
  path: string;
  /** As it was behind the point that is gone back to. */
  want: Known;
  /** How this session left it; more than one where it was not seen to be so. */
  left: Known[];
  /** Whether somebody else changed it between two changes of the session. */
  isMixed: boolean;
  /** Whether it was away in between, so that what is there now has another mode perhaps. */
  isRemade: boolean;
  /** Whether it was made as a folder on the way to something else: it goes when nothing is in it. */
  isWay: boolean;
  /** Whether people are told of it. */
  isTold: boolean;
}

const NONE: Known = { kind: "none" };
const FOLDER: Known = { kind: "folder", mode: 0 };

/** What taking back the changes behind a point comes to, by path. */
export function planOf(story: Story, isBehind: (line: ChangeLine, index: number) => boolean): Wanted[] {
  const byPath = new Map<string, Wanted>();
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

/** The folders that were made on the way to a path. */
function takeWays(byPath: Map<string, Wanted>, { path, made }: Step, isDone: boolean): void {
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

function take(byPath: Map<string, Wanted>, step: Step, line: ChangeLine, isDone: boolean): void {
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
  // What an undo was forced to overwrite is kept by it.
  if (line.undo === "" && !known.left.some((one) => isSame(one, before))) known.isMixed = true;
  if (before.kind !== "file") known.isRemade = true;
  known.left = left;
  if (!step.isWay) known.isTold = true;
  if (after.kind !== "none") known.isWay = after.kind === "folder" && known.want.kind === "none";
}

/** What a change may have left at a path; where it was not seen to be made, it may have ended anywhere. */
function leftBy({ undo }: ChangeLine, before: Known, after: Known, isDone: boolean): Known[] {
  if (isDone) return [after];
  // An undo replaces files alone in one step: all else is taken away first.
  const isAway = undo !== "" && !(before.kind === "file" && after.kind === "file");
  return [after, before, ...(isAway ? [NONE] : [])];
}
