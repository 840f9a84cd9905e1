import type { DiffRow } from "./diff-rows.js";
import { findFewestChanges, type IndexPair } from "./fewest-changes.js";

/** Number of lines that the generators process between two yields. */
const LINES_PER_STEP = 4_000;
/** Duration of a slice of work, in ms: half a frame. */
const SLICE_MS = 8;

/** Compares two texts by lines, in slices between which the page can do other work. Rejects with the signal's reason. */
export async function compareTexts(oldText: string, newText: string, signal?: AbortSignal): Promise<DiffRow[]> {
  const comparison = compareInSteps(oldText, newText);
  for (;;) {
    signal?.throwIfAborted();
    const sliceEndMs = performance.now() + SLICE_MS;
    let step = comparison.next();
    while (!step.done && performance.now() < sliceEndMs) step = comparison.next();
    if (step.done) return step.value;
    await new Promise((resolve) => setTimeout(resolve));
  }
}

/** Like `compareTexts`, as a generator that yields between steps. */
export function* compareInSteps(oldText: string, newText: string): Generator<undefined, DiffRow[]> {
  const ids = new Map<string, number>();
  const oldVersion = yield* numberLines(splitLines(oldText), ids);
  const newVersion = yield* numberLines(splitLines(newText), ids);
  const pairs = yield* matchLines(oldVersion.ids, newVersion.ids);
  const rows: DiffRow[] = [];
  let [i, j] = [0, 0];
  const pushRemoved = () => rows.push(toRow("removed", oldVersion.lines[i] ?? "", ++i, 0));
  const pushAdded = () => rows.push(toRow("added", newVersion.lines[j] ?? "", 0, ++j));
  for (const [a, b] of pairs) {
    while (i < a) pushRemoved();
    while (j < b) pushAdded();
    rows.push(toRow("same", oldVersion.lines[a] ?? "", ++i, ++j));
    if (rows.length % LINES_PER_STEP === 0) yield;
  }
  while (i < oldVersion.lines.length) pushRemoved();
  while (j < newVersion.lines.length) pushAdded();
  return rows;
}

/** Splits a text into lines with their line breaks, so that a missing final line break is a difference. */
function splitLines(text: string): string[] {
  const lines = text.split("\n").map((line, index, allLines) => (index < allLines.length - 1 ? `${line}\n` : line));
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function toRow(kind: DiffRow["kind"], line: string, oldLineNumber: number, newLineNumber: number): DiffRow {
  const lacksLineBreak = !line.endsWith("\n");
  return { kind, text: lacksLineBreak ? line : line.slice(0, -1), oldLineNumber, newLineNumber, lacksLineBreak };
}

/** Maps lines to numbers; equal lines get the same number. */
function* numberLines(
  lines: string[],
  idByLine: Map<string, number>,
): Generator<undefined, { lines: string[]; ids: Int32Array }> {
  const ids = new Int32Array(lines.length);
  for (const [index, line] of lines.entries()) {
    const id = idByLine.get(line) ?? idByLine.size;
    idByLine.set(line, id);
    ids[index] = id;
    if (index % LINES_PER_STEP === LINES_PER_STEP - 1) yield;
  }
  return { lines, ids };
}

/** Index pairs of equal lines, in order. */
function* matchLines(a: Int32Array, b: Int32Array): Generator<undefined, IndexPair[]> {
  const pairs: IndexPair[] = [];
  const stretches = [{ from: [0, 0] as IndexPair, to: [a.length, b.length] as IndexPair }];
  for (let stretch = stretches.pop(); stretch; stretch = stretches.pop()) {
    let [aFrom, bFrom] = stretch.from;
    let [aTo, bTo] = stretch.to;
    while (aFrom < aTo && bFrom < bTo && a[aFrom] === b[bFrom]) pairs.push([aFrom++, bFrom++]);
    while (aFrom < aTo && bFrom < bTo && a[aTo - 1] === b[bTo - 1]) pairs.push([--aTo, --bTo]);
    if (aFrom === aTo || bFrom === bTo) continue;
    const anchors = yield* findAnchors(a, b, [aFrom, bFrom], [aTo, bTo]);
    if (anchors.length === 0) {
      const innerPairs = yield* findFewestChanges(a.subarray(aFrom, aTo), b.subarray(bFrom, bTo));
      for (const [i, j] of innerPairs) pairs.push([aFrom + i, bFrom + j]);
      continue;
    }
    let from: IndexPair = [aFrom, bFrom];
    for (const anchor of anchors) {
      stretches.push({ from, to: anchor });
      pairs.push(anchor);
      from = [anchor[0] + 1, anchor[1] + 1];
    }
    stretches.push({ from, to: [aTo, bTo] });
  }
  return pairs.sort((first, second) => first[0] - second[0]);
}

/** The longest sequence, in the same order in both texts, of lines that occur once in each text. */
function* findAnchors(
  a: Int32Array,
  b: Int32Array,
  [aFrom, bFrom]: IndexPair,
  [aTo, bTo]: IndexPair,
): Generator<undefined, IndexPair[]> {
  const indexesInA = yield* findUniqueLines(a, aFrom, aTo);
  const indexesInB = yield* findUniqueLines(b, bFrom, bTo);
  const candidates: { pair: IndexPair; previousIndex: number }[] = [];
  /** Index in `candidates` of the end of the best sequence of each length. */
  const bestEnds: number[] = [];
  for (const [line, i] of indexesInA) {
    const j = indexesInB.get(line);
    if (j === undefined) continue;
    let [low, high] = [0, bestEnds.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((candidates[bestEnds[middle] ?? 0]?.pair[1] ?? 0) < j) low = middle + 1;
      else high = middle;
    }
    candidates.push({ pair: [i, j], previousIndex: low > 0 ? (bestEnds[low - 1] ?? -1) : -1 });
    bestEnds[low] = candidates.length - 1;
    if (candidates.length % LINES_PER_STEP === 0) yield;
  }
  const sequence: IndexPair[] = [];
  for (let index = bestEnds.at(-1) ?? -1; index >= 0; index = candidates[index]?.previousIndex ?? -1)
    sequence.push(candidates[index]?.pair ?? [0, 0]);
  return sequence.reverse();
}

/** Indexes of the lines that occur once in a stretch, in the order of the stretch. */
function* findUniqueLines(ids: Int32Array, from: number, to: number): Generator<undefined, Map<number, number>> {
  const indexes = new Map<number, number>();
  const repeatedIds = new Set<number>();
  for (let index = from; index < to; index++) {
    const id = ids[index] ?? 0;
    if (index % LINES_PER_STEP === 0) yield;
    if (repeatedIds.has(id)) continue;
    if (indexes.delete(id)) repeatedIds.add(id);
    else indexes.set(id, index);
  }
  return indexes;
}
