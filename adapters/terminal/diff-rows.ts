import type { ApiDiff } from "gantry/client";
import { escapeInvisible, escapeLine } from "./text.js";
import { span, wrap, type Line } from "./spans.js";

/** Number of unchanged lines shown before and after a change. */
const CONTEXT_LINES = 2;
/** Maximum size of the comparison table, in pairs of lines. Larger texts are shown as removed and added. */
const MAX_LINE_PAIRS = 4_000_000;

export interface DiffLine {
  readonly sign: " " | "+" | "-";
  readonly text: string;
}

/** Renders the changes in a file, in at most `maxRows` rows. */
export function renderDiff(
  { path, old_text: oldText, new_text: newText }: ApiDiff,
  columns: number,
  maxRows: number,
): Line[] {
  const diffLines = compareTexts(oldText, newText);
  const addedCount = diffLines.filter(({ sign }) => sign === "+").length;
  const removedCount = diffLines.filter(({ sign }) => sign === "-").length;
  const header: Line = [
    span(oldText === null ? "new file " : "", "dim"),
    span(escapeLine(path), "bold"),
    span(` +${addedCount}`, "good"),
    span(` -${removedCount}`, "bad"),
  ];
  const rows = wrap(header, columns);
  const visibleIndexes = new Set<number>();
  diffLines.forEach(({ sign }, i) => {
    if (sign !== " ") for (let k = i - CONTEXT_LINES; k <= i + CONTEXT_LINES; k += 1) visibleIndexes.add(k);
  });
  let isFolded = false;
  for (const [i, { sign, text }] of diffLines.entries()) {
    if (!visibleIndexes.has(i)) {
      if (!isFolded) rows.push([span("  ⋯", "dim")]);
      isFolded = true;
      continue;
    }
    isFolded = false;
    const style = sign === "+" ? "good" : sign === "-" ? "bad" : "dim";
    rows.push(...wrap([span(escapeInvisible(text).replaceAll("\n", " "), style)], columns, [span(`${sign} `, style)]));
  }
  if (rows.length <= maxRows) return rows;
  return [...rows.slice(0, Math.max(1, maxRows - 1)), [span(`  … ${rows.length - maxRows + 1} more lines`, "dim")]];
}

/** Compares two texts by line. Null: there is no file. */
export function compareTexts(oldText: string | null, newText: string | null): DiffLine[] {
  return compareLines(splitLines(oldText ?? ""), splitLines(newText ?? ""));
}

function splitLines(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** Compares two texts by their longest common subsequence of lines. */
function compareLines(oldLines: readonly string[], newLines: readonly string[]): DiffLine[] {
  // Number of equal lines at the start, and at the end.
  let commonStart = 0;
  while (
    commonStart < oldLines.length &&
    commonStart < newLines.length &&
    oldLines[commonStart] === newLines[commonStart]
  )
    commonStart += 1;
  let commonEnd = 0;
  while (
    commonEnd < oldLines.length - commonStart &&
    commonEnd < newLines.length - commonStart &&
    oldLines[oldLines.length - 1 - commonEnd] === newLines[newLines.length - 1 - commonEnd]
  )
    commonEnd += 1;
  const toUnchanged = (lines: readonly string[]): DiffLine[] => lines.map((text) => ({ sign: " ", text }));
  const changedLines = compareChangedLines(
    oldLines.slice(commonStart, oldLines.length - commonEnd),
    newLines.slice(commonStart, newLines.length - commonEnd),
  );
  return [
    ...toUnchanged(oldLines.slice(0, commonStart)),
    ...changedLines,
    ...toUnchanged(oldLines.slice(oldLines.length - commonEnd)),
  ];
}

/** Compares the lines between the common start and the common end. */
function compareChangedLines(oldLines: readonly string[], newLines: readonly string[]): DiffLine[] {
  const diffLines: DiffLine[] = [];
  const addRemoved = (text: string) => diffLines.push({ sign: "-", text });
  const addAdded = (text: string) => diffLines.push({ sign: "+", text });
  if (oldLines.length * newLines.length > MAX_LINE_PAIRS || oldLines.length === 0 || newLines.length === 0) {
    oldLines.forEach(addRemoved);
    newLines.forEach(addAdded);
    return diffLines;
  }
  const columns = newLines.length + 1;
  /** Length of the longest common subsequence of the lines from each pair of indexes on. */
  const lengths = new Uint32Array((oldLines.length + 1) * columns);
  const lengthAt = (i: number, j: number) => lengths[i * columns + j] ?? 0;
  for (let i = oldLines.length - 1; i >= 0; i -= 1)
    for (let j = newLines.length - 1; j >= 0; j -= 1)
      lengths[i * columns + j] =
        oldLines[i] === newLines[j] ? lengthAt(i + 1, j + 1) + 1 : Math.max(lengthAt(i + 1, j), lengthAt(i, j + 1));
  let i = 0;
  let j = 0;
  while (i < oldLines.length || j < newLines.length) {
    const [oldLine = "", newLine = ""] = [oldLines[i], newLines[j]];
    if (i < oldLines.length && j < newLines.length && oldLine === newLine) {
      diffLines.push({ sign: " ", text: oldLine });
      i += 1;
      j += 1;
    } else if (i < oldLines.length && (j === newLines.length || lengthAt(i + 1, j) >= lengthAt(i, j + 1))) {
      addRemoved(oldLine);
      i += 1;
    } else {
      addAdded(newLine);
      j += 1;
    }
  }
  return diffLines;
}
