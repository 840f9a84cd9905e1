import type { Diff } from "gantry/client";
import { compareInSteps, countsOf } from "../diff-lines.js";

/** Characters; of what is longer it is not worth the time. */
const LONGEST = 200_000;

export interface ChangedLines {
  added: number;
  removed: number;
}

const known = new WeakMap<Diff, ChangedLines>();

/** How many lines these changes add and remove; undefined where there are none, or too many to count. */
export function changedLines(diffs: readonly Diff[]): ChangedLines | undefined {
  const size = diffs.reduce((sum, { old_text, new_text }) => sum + (old_text?.length ?? 0) + new_text.length, 0);
  if (diffs.length === 0 || size > LONGEST) return undefined;
  return diffs.map(linesOf).reduce((sum, { added, removed }) => ({
    added: sum.added + added,
    removed: sum.removed + removed,
  }));
}

function linesOf(diff: Diff): ChangedLines {
  let counts = known.get(diff);
  if (!counts) {
    const steps = compareInSteps(diff.old_text ?? "", diff.new_text);
    let step = steps.next();
    while (!step.done) step = steps.next();
    counts = countsOf(step.value);
    known.set(diff, counts);
  }
  return counts;
}
