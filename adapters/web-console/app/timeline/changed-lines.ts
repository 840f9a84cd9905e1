import type { ApiDiff } from "gantry/client";
import { compareInSteps } from "../diff-lines.js";
import { countChanges } from "../diff-rows.js";

/** Maximum characters of changes whose lines are counted. Counting longer texts would delay a frame. */
const MAX_COMPARED_CHARACTERS = 200_000;

export interface LineCounts {
  added: number;
  removed: number;
}

const countsByDiff = new WeakMap<ApiDiff, LineCounts>();

/**
 * Number of lines that the changes add and remove. Undefined if there are no changes, or if they are too long to count.
 */
export function countChangedLines(diffs: readonly ApiDiff[]): LineCounts | undefined {
  const characterCount = diffs.reduce(
    (sum, { old_text, new_text }) => sum + (old_text?.length ?? 0) + new_text.length,
    0,
  );
  if (diffs.length === 0 || characterCount > MAX_COMPARED_CHARACTERS) return undefined;
  return diffs.map(countLines).reduce((sum, { added, removed }) => ({
    added: sum.added + added,
    removed: sum.removed + removed,
  }));
}

function countLines(diff: ApiDiff): LineCounts {
  let counts = countsByDiff.get(diff);
  if (!counts) {
    const steps = compareInSteps(diff.old_text ?? "", diff.new_text);
    let step = steps.next();
    while (!step.done) step = steps.next();
    counts = countChanges(step.value);
    countsByDiff.set(diff, counts);
  }
  return counts;
}
