import type { ApiDiff } from "gantry/client";
import { compareInSteps, countsOf } from "../diff-lines.js";

/** Maximum characters of changes whose lines are counted; counting longer ones takes too long. */
const MAX_COMPARED_CHARACTERS = 200_000;

export interface ChangedLines {
  added: number;
  removed: number;
}

const countsByDiff = new WeakMap<ApiDiff, ChangedLines>();

/** Number of lines that the changes add and remove. Undefined if there are none, or too many to count. */
export function changedLines(diffs: readonly ApiDiff[]): ChangedLines | undefined {
  const size = diffs.reduce((sum, { old_text, new_text }) => sum + (old_text?.length ?? 0) + new_text.length, 0);
  if (diffs.length === 0 || size > MAX_COMPARED_CHARACTERS) return undefined;
  return diffs.map(linesOf).reduce((sum, { added, removed }) => ({
    added: sum.added + added,
    removed: sum.removed + removed,
  }));
}

function linesOf(diff: ApiDiff): ChangedLines {
  let counts = countsByDiff.get(diff);
  if (!counts) {
    const steps = compareInSteps(diff.old_text ?? "", diff.new_text);
    let step = steps.next();
    while (!step.done) step = steps.next();
    counts = countsOf(step.value);
    countsByDiff.set(diff, counts);
  }
  return counts;
}
