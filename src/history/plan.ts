import type { ChangeLine, Known, Story } from "./journal.js";
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
  /** Folders that were made for it. */
  made: number;
}

/** What taking back the changes behind a point comes to, by path. */
export function planOf(story: Story, isBehind: (line: ChangeLine, index: number) => boolean): Wanted[] {
  const byPath = new Map<string, Wanted>();
  let from = story.changes.findIndex(isBehind);
  if (from === -1) return [];
  for (; from < story.changes.length; from++) {
    const line = story.changes[from];
    if (!line) continue;
    const isDone = story.done.has(line.change);
    for (const { path, before, after, made } of line.steps) {
      const known = byPath.get(path);
      if (!known) {
        byPath.set(path, { path, want: before, left: isDone ? [after] : [after, before], isMixed: false, made });
        continue;
      }
      if (!known.left.some((one) => isSame(one, before))) known.isMixed = true;
      known.left = isDone ? [after] : [after, before];
      known.made = Math.max(known.made, made);
    }
  }
  return [...byPath.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}
