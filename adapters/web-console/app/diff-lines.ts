/** A line of a comparison of two texts. The line numbers count from 1; 0 if the text does not contain the line. */
export interface DiffRow {
  kind: "same" | "removed" | "added";
  text: string;
  oldLineNumber: number;
  newLineNumber: number;
  /** Whether the row is the last line of a text without a final line break. */
  lacksLineBreak: boolean;
}

/** A part of a line: start index and exclusive end index. */
export type TextRange = readonly [start: number, end: number];

/** Maximum changes searched in a stretch without common unique lines. With more, the whole stretch is replaced. */
const MAX_CHANGES = 600;
/** Number of lines that the generators process between two yields. */
const LINES_PER_STEP = 4_000;
/** Maximum words of a line whose changed words are searched. */
const MAX_MARKED_WORDS = 400;
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
  const pairs = yield* matchLines(oldVersion.ids, newVersion.ids, ids.size);
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

type IndexPair = readonly [oldIndex: number, newIndex: number];

/** Index pairs of equal lines, in order. */
function* matchLines(a: Int32Array, b: Int32Array, idCount: number): Generator<undefined, IndexPair[]> {
  const pairs: IndexPair[] = [];
  const stretches = [{ from: [0, 0] as IndexPair, to: [a.length, b.length] as IndexPair }];
  for (let stretch = stretches.pop(); stretch; stretch = stretches.pop()) {
    let [aFrom, bFrom] = stretch.from;
    let [aTo, bTo] = stretch.to;
    while (aFrom < aTo && bFrom < bTo && a[aFrom] === b[bFrom]) pairs.push([aFrom++, bFrom++]);
    while (aFrom < aTo && bFrom < bTo && a[aTo - 1] === b[bTo - 1]) pairs.push([--aTo, --bTo]);
    if (aFrom === aTo || bFrom === bTo) continue;
    const anchors = yield* findAnchors(a, b, [aFrom, bFrom], [aTo, bTo], idCount);
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
  idCount: number,
): Generator<undefined, IndexPair[]> {
  // For a short stretch, a table of all lines would be more work than the stretch itself.
  const isLarge = aTo - aFrom + bTo - bFrom > idCount / 8;
  const inB = isLarge ? new UniqueLines(idCount) : new SparseUniqueLines();
  const inA = isLarge ? new UniqueLines(idCount) : new SparseUniqueLines();
  for (let i = aFrom; i < aTo; i++) inA.add(a[i] ?? 0, i);
  yield;
  for (let j = bFrom; j < bTo; j++) inB.add(b[j] ?? 0, j);
  yield;
  const candidates: { pair: IndexPair; previousIndex: number }[] = [];
  /** Index in `candidates` of the end of the best sequence of each length. */
  const bestEnds: number[] = [];
  for (let i = aFrom; i < aTo; i++) {
    const line = a[i] ?? 0;
    if (i % LINES_PER_STEP === 0) yield;
    const j = inB.indexOf(line);
    if (j < 0 || inA.indexOf(line) < 0) continue;
    let [low, high] = [0, bestEnds.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((candidates[bestEnds[middle] ?? 0]?.pair[1] ?? 0) < j) low = middle + 1;
      else high = middle;
    }
    candidates.push({ pair: [i, j], previousIndex: low > 0 ? (bestEnds[low - 1] ?? -1) : -1 });
    bestEnds[low] = candidates.length - 1;
  }
  const sequence: IndexPair[] = [];
  for (let index = bestEnds.at(-1) ?? -1; index >= 0; index = candidates[index]?.previousIndex ?? -1)
    sequence.push(candidates[index]?.pair ?? [0, 0]);
  return sequence.reverse();
}

/** Index of each line in a stretch: -1 if the line is absent, -2 if it occurs more than once. */
class UniqueLines {
  readonly #indexes: Int32Array;
  constructor(idCount: number) {
    this.#indexes = new Int32Array(idCount).fill(-1);
  }
  add(line: number, index: number): void {
    this.#indexes[line] = this.#indexes[line] === -1 ? index : -2;
  }
  indexOf(line: number): number {
    return this.#indexes[line] ?? -1;
  }
}

/** Like `UniqueLines`, with memory only for the lines of the stretch. */
class SparseUniqueLines {
  readonly #indexes = new Map<number, number>();
  add(line: number, index: number): void {
    this.#indexes.set(line, this.#indexes.has(line) ? -2 : index);
  }
  indexOf(line: number): number {
    return this.#indexes.get(line) ?? -1;
  }
}

/**
 * Myers' greedy algorithm: index pairs of the common elements with the fewest changes. Returns no pairs if there are
 * more than `MAX_CHANGES`. `k` is a diagonal, `x` an index in `a`, and `x - k` an index in `b`.
 */
function* findFewestChanges(a: ArrayLike<unknown>, b: ArrayLike<unknown>): Generator<undefined, IndexPair[]> {
  const maxChanges = Math.min(a.length + b.length, MAX_CHANGES);
  const ends = new Int32Array(2 * maxChanges + 3);
  const trace: Int32Array[] = [];
  const middle = maxChanges + 1;
  for (let changes = 0; changes <= maxChanges; changes++) {
    trace.push(ends.slice(middle - changes - 1, middle + changes + 2));
    for (let k = -changes; k <= changes; k += 2) {
      const isDown = k === -changes || (k !== changes && (ends[middle + k - 1] ?? 0) < (ends[middle + k + 1] ?? 0));
      let x = isDown ? (ends[middle + k + 1] ?? 0) : (ends[middle + k - 1] ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      ends[middle + k] = x;
      if (x >= a.length && x - k >= b.length) return tracePath(trace, a.length, b.length);
    }
    // A step with many changes takes longer: yield after every 16 steps.
    if (changes % 16 === 15) yield;
  }
  return [];
}

function tracePath(trace: Int32Array[], aLength: number, bLength: number): IndexPair[] {
  const pairs: IndexPair[] = [];
  let [x, y] = [aLength, bLength];
  for (let changes = trace.length - 1; changes >= 0; changes--) {
    const ends = trace[changes] ?? new Int32Array();
    const endAt = (k: number) => ends[k + changes + 1] ?? 0;
    const k = x - y;
    const isDown = k === -changes || (k !== changes && endAt(k - 1) < endAt(k + 1));
    const beforeK = isDown ? k + 1 : k - 1;
    const beforeX = changes === 0 ? 0 : endAt(beforeK);
    const beforeY = changes === 0 ? 0 : beforeX - beforeK;
    while (x > beforeX && y > beforeY) pairs.push([--x, --y]);
    [x, y] = [beforeX, beforeY];
  }
  return pairs.reverse();
}

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

/** Rows that are shown, or unchanged rows that are folded at first. */
export interface DiffBlock {
  kind: "shown" | "folded";
  rows: readonly DiffRow[];
}

/**
 * Groups rows into blocks. `context`: number of unchanged lines that are shown before and after a change. Longer
 * unchanged stretches are folded.
 */
export function groupRows(rows: readonly DiffRow[], context = 3): DiffBlock[] {
  const isNearChange = new Uint8Array(rows.length);
  for (const [index, { kind }] of rows.entries())
    if (kind !== "same") isNearChange.fill(1, Math.max(0, index - context), Math.min(rows.length, index + context + 1));
  const blocks: DiffBlock[] = [];
  for (let from = 0; from < rows.length;) {
    let to = from;
    while (to < rows.length && isNearChange[to] === isNearChange[from]) to++;
    const blockRows = rows.slice(from, to);
    const lastBlock = blocks.at(-1);
    // A fold line for one or two lines would save no space.
    if (isNearChange[from] === 1 || blockRows.length <= 2) {
      if (lastBlock?.kind === "shown") lastBlock.rows = [...lastBlock.rows, ...blockRows];
      else blocks.push({ kind: "shown", rows: blockRows });
    } else blocks.push({ kind: "folded", rows: blockRows });
    from = to;
  }
  return blocks;
}

/** A removed row and its replacement, or an unchanged row twice. Undefined: the other side has no such row. */
export type RowPair = readonly [left: DiffRow | undefined, right: DiffRow | undefined];

export function pairRows(rows: readonly DiffRow[]): RowPair[] {
  const pairs: RowPair[] = [];
  for (let index = 0; index < rows.length;) {
    const row = rows[index];
    if (row?.kind === "same") {
      pairs.push([row, row]);
      index++;
      continue;
    }
    const [removed, added]: [DiffRow[], DiffRow[]] = [[], []];
    for (let changedRow = rows[index]; changedRow && changedRow.kind !== "same"; changedRow = rows[++index])
      (changedRow.kind === "removed" ? removed : added).push(changedRow);
    for (let i = 0; i < Math.max(removed.length, added.length); i++) pairs.push([removed[i], added[i]]);
  }
  return pairs;
}

export function countChanges(rows: readonly DiffRow[]): { added: number; removed: number } {
  let [added, removed] = [0, 0];
  for (const { kind } of rows)
    if (kind === "added") added++;
    else if (kind === "removed") removed++;
  return { added, removed };
}
