import { findFewestChanges } from "./fewest-changes.js";

/** A part of a line: start index and exclusive end index. */
export type TextRange = readonly [start: number, end: number];

/** Maximum words of a line whose changed words are searched. */
const MAX_MARKED_WORDS = 400;

/** Ranges of the changed words of two lines. Undefined if a line is too long, or if marks would not help. */
export function findChangedWords(
  oldLine: string,
  newLine: string,
): { oldRanges: TextRange[]; newRanges: TextRange[] } | undefined {
  const [a, b] = [splitWords(oldLine), splitWords(newLine)];
  if (a.length > MAX_MARKED_WORDS || b.length > MAX_MARKED_WORDS) return undefined;
  const comparison = findFewestChanges(a, b);
  let step = comparison.next();
  while (!step.done) step = comparison.next();
  const pairs = step.value;
  const commonCharacters = pairs.reduce((sum, [i]) => sum + (a[i] ?? "").trim().length, 0);
  const longerLength = Math.max(oldLine.trim().length, newLine.trim().length);
  // Less than a third of the longer line is common.
  if (commonCharacters * 3 < longerLength) return undefined;
  return {
    oldRanges: toChangedRanges(a, new Set(pairs.map(([i]) => i))),
    newRanges: toChangedRanges(b, new Set(pairs.map(([, j]) => j))),
  };
}

function splitWords(line: string): string[] {
  return line.match(/[\p{L}\p{N}_]+|\s+|[^]/gu) ?? [];
}

/** Ranges of the words whose indexes are not in `commonIndexes`; adjacent ranges are merged. */
function toChangedRanges(words: readonly string[], commonIndexes: ReadonlySet<number>): TextRange[] {
  const ranges: [number, number][] = [];
  let position = 0;
  for (const [i, word] of words.entries()) {
    const lastRange = ranges.at(-1);
    if (!commonIndexes.has(i)) {
      if (lastRange?.[1] === position) lastRange[1] = position + word.length;
      else ranges.push([position, position + word.length]);
    }
    position += word.length;
  }
  return ranges;
}
