/**
 * A line of a comparison of two texts. `old` and `new` are its line numbers in the texts, from 1; 0 if it is not in
 * that text.
 */
export interface DiffRow {
  kind: "same" | "removed" | "added";
  text: string;
  old: number;
  new: number;
  /** Whether it is the last line of a text without a final line break. */
  open: boolean;
}

/** A part of a line: start index and exclusive end index. */
export type TextRange = readonly [start: number, end: number];

/** Maximum changes searched in a stretch without common unique lines. Beyond it, the whole stretch is replaced. */
const MAX_CHANGES = 600;
/** Lines processed between two yields. */
const STEPS = 4_000;
/** Maximum words of a line in which changes are marked. */
const MAX_MARKED_WORDS = 400;
/** Duration of a slice of work, in ms: half a frame. */
const SLICE_MS = 8;

/**
 * Compares two texts by lines, in slices between which the page can do other work. Rejects with the signal's reason.
 */
export async function compare(before: string, after: string, signal?: AbortSignal): Promise<DiffRow[]> {
  const work = compareInSteps(before, after);
  for (;;) {
    signal?.throwIfAborted();
    const until = performance.now() + SLICE_MS;
    let step = work.next();
    while (!step.done && performance.now() < until) step = work.next();
    if (step.done) return step.value;
    await new Promise((resolve) => setTimeout(resolve));
  }
}

/** The same comparison, as a generator that yields between steps. */
export function* compareInSteps(before: string, after: string): Generator<undefined, DiffRow[]> {
  const ids = new Map<string, number>();
  const old = yield* numbered(linesOf(before), ids);
  const fresh = yield* numbered(linesOf(after), ids);
  const pairs = yield* matches(old.ids, fresh.ids, ids.size);
  const rows: DiffRow[] = [];
  let [i, j] = [0, 0];
  const removed = () => rows.push(row("removed", old.lines[i] ?? "", ++i, 0));
  const added = () => rows.push(row("added", fresh.lines[j] ?? "", 0, ++j));
  for (const [a, b] of pairs) {
    while (i < a) removed();
    while (j < b) added();
    rows.push(row("same", old.lines[a] ?? "", ++i, ++j));
    if (rows.length % STEPS === 0) yield;
  }
  while (i < old.lines.length) removed();
  while (j < fresh.lines.length) added();
  return rows;
}

/** Lines include their line breaks, so that a missing final one is a difference. */
function linesOf(text: string): string[] {
  const lines = text.split("\n").map((line, at, all) => (at < all.length - 1 ? `${line}\n` : line));
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function row(kind: DiffRow["kind"], line: string, old: number, fresh: number): DiffRow {
  const open = !line.endsWith("\n");
  return { kind, text: open ? line : line.slice(0, -1), old, new: fresh, open };
}

/** Maps lines to numbers; equal lines get the same number. */
function* numbered(
  lines: string[],
  idByLine: Map<string, number>,
): Generator<undefined, { lines: string[]; ids: Int32Array }> {
  const ids = new Int32Array(lines.length);
  for (const [at, line] of lines.entries()) {
    const id = idByLine.get(line) ?? idByLine.size;
    idByLine.set(line, id);
    ids[at] = id;
    if (at % STEPS === STEPS - 1) yield;
  }
  return { lines, ids };
}

type Pair = readonly [old: number, fresh: number];

/** Index pairs of equal lines, in order. */
function* matches(a: Int32Array, b: Int32Array, kinds: number): Generator<undefined, Pair[]> {
  const pairs: Pair[] = [];
  const stretches = [{ from: [0, 0] as Pair, to: [a.length, b.length] as Pair }];
  for (let stretch = stretches.pop(); stretch; stretch = stretches.pop()) {
    let [aFrom, bFrom] = stretch.from;
    let [aTo, bTo] = stretch.to;
    while (aFrom < aTo && bFrom < bTo && a[aFrom] === b[bFrom]) pairs.push([aFrom++, bFrom++]);
    while (aFrom < aTo && bFrom < bTo && a[aTo - 1] === b[bTo - 1]) pairs.push([--aTo, --bTo]);
    if (aFrom === aTo || bFrom === bTo) continue;
    const anchors = yield* uniqueInBoth(a, b, [aFrom, bFrom], [aTo, bTo], kinds);
    if (anchors.length === 0) {
      const inner = yield* fewestChanges(a.subarray(aFrom, aTo), b.subarray(bFrom, bTo));
      for (const [i, j] of inner) pairs.push([aFrom + i, bFrom + j]);
      continue;
    }
    let from: Pair = [aFrom, bFrom];
    for (const anchor of anchors) {
      stretches.push({ from, to: anchor });
      pairs.push(anchor);
      from = [anchor[0] + 1, anchor[1] + 1];
    }
    stretches.push({ from, to: [aTo, bTo] });
  }
  return pairs.sort((first, second) => first[0] - second[0]);
}

/**
 * The longest sequence, in the same order, of lines that occur once in each text. These are the natural anchors of a
 * comparison.
 */
function* uniqueInBoth(
  a: Int32Array,
  b: Int32Array,
  [aFrom, bFrom]: Pair,
  [aTo, bTo]: Pair,
  kinds: number,
): Generator<undefined, Pair[]> {
  // For a short stretch, a table of all lines would be more work than the stretch itself.
  const isLarge = aTo - aFrom + bTo - bFrom > kinds / 8;
  const inB = isLarge ? new UniqueLines(kinds) : new SparseUniqueLines();
  const inA = isLarge ? new UniqueLines(kinds) : new SparseUniqueLines();
  for (let i = aFrom; i < aTo; i++) inA.add(a[i] ?? 0, i);
  yield;
  for (let j = bFrom; j < bTo; j++) inB.add(b[j] ?? 0, j);
  yield;
  const best: { pair: Pair; before: number }[] = [];
  /** Index in `best` of the end of the best sequence of each length. */
  const ends: number[] = [];
  for (let i = aFrom; i < aTo; i++) {
    const line = a[i] ?? 0;
    if (i % STEPS === 0) yield;
    const j = inB.only(line);
    if (j < 0 || inA.only(line) < 0) continue;
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((best[ends[middle] ?? 0]?.pair[1] ?? 0) < j) low = middle + 1;
      else high = middle;
    }
    best.push({ pair: [i, j], before: low > 0 ? (ends[low - 1] ?? -1) : -1 });
    ends[low] = best.length - 1;
  }
  const row: Pair[] = [];
  for (let at = ends.at(-1) ?? -1; at >= 0; at = best[at]?.before ?? -1) row.push(best[at]?.pair ?? [0, 0]);
  return row.reverse();
}

/** Position of each line: -1 if it is absent, -2 if it occurs more than once. */
class UniqueLines {
  readonly #places: Int32Array;
  constructor(kinds: number) {
    this.#places = new Int32Array(kinds).fill(-1);
  }
  add(line: number, place: number): void {
    this.#places[line] = this.#places[line] === -1 ? place : -2;
  }
  only(line: number): number {
    return this.#places[line] ?? -1;
  }
}

class SparseUniqueLines {
  readonly #places = new Map<number, number>();
  add(line: number, place: number): void {
    this.#places.set(line, this.#places.has(line) ? -2 : place);
  }
  only(line: number): number {
    return this.#places.get(line) ?? -1;
  }
}

/** Myers' greedy algorithm: the fewest removed and added lines. Returns no pairs if there are too many changes. */
function* fewestChanges(a: ArrayLike<unknown>, b: ArrayLike<unknown>): Generator<undefined, Pair[]> {
  const most = Math.min(a.length + b.length, MAX_CHANGES);
  const ends = new Int32Array(2 * most + 3);
  const trace: Int32Array[] = [];
  const middle = most + 1;
  for (let changes = 0; changes <= most; changes++) {
    trace.push(ends.slice(middle - changes - 1, middle + changes + 2));
    for (let k = -changes; k <= changes; k += 2) {
      const isDown = k === -changes || (k !== changes && (ends[middle + k - 1] ?? 0) < (ends[middle + k + 1] ?? 0));
      let x = isDown ? (ends[middle + k + 1] ?? 0) : (ends[middle + k - 1] ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      ends[middle + k] = x;
      if (x >= a.length && x - k >= b.length) return tracePath(trace, a.length, b.length);
    }
    if (changes % 16 === 15) yield;
  }
  return [];
}

function tracePath(trace: Int32Array[], aLength: number, bLength: number): Pair[] {
  const pairs: Pair[] = [];
  let [x, y] = [aLength, bLength];
  for (let changes = trace.length - 1; changes >= 0; changes--) {
    const ends = trace[changes] ?? new Int32Array();
    const at = (k: number) => ends[k + changes + 1] ?? 0;
    const k = x - y;
    const isDown = k === -changes || (k !== changes && at(k - 1) < at(k + 1));
    const beforeK = isDown ? k + 1 : k - 1;
    const beforeX = changes === 0 ? 0 : at(beforeK);
    const beforeY = changes === 0 ? 0 : beforeX - beforeK;
    while (x > beforeX && y > beforeY) pairs.push([--x, --y]);
    [x, y] = [beforeX, beforeY];
  }
  return pairs.reverse();
}

/** Changed words of two lines. Undefined if most of the text differs, because marks would not help. */
export function wordMarks(before: string, after: string): { before: TextRange[]; after: TextRange[] } | undefined {
  const [a, b] = [wordsOf(before), wordsOf(after)];
  if (a.length > MAX_MARKED_WORDS || b.length > MAX_MARKED_WORDS) return undefined;
  const work = fewestChanges(a, b);
  let step = work.next();
  while (!step.done) step = work.next();
  const pairs = step.value;
  const commonCharacters = pairs.reduce((sum, [i]) => sum + (a[i] ?? "").trim().length, 0);
  const most = Math.max(before.trim().length, after.trim().length);
  if (commonCharacters * 3 < most) return undefined;
  return { before: spans(a, new Set(pairs.map(([i]) => i))), after: spans(b, new Set(pairs.map(([, j]) => j))) };
}

function wordsOf(line: string): string[] {
  return line.match(/[\p{L}\p{N}_]+|\s+|[^]/gu) ?? [];
}

/** Spans of the words whose indexes are not in the set; neighbours are merged. */
function spans(words: readonly string[], commonIndexes: ReadonlySet<number>): TextRange[] {
  const changedSpans: [number, number][] = [];
  let at = 0;
  for (const [i, word] of words.entries()) {
    const last = changedSpans.at(-1);
    if (!commonIndexes.has(i)) {
      if (last?.[1] === at) last[1] = at + word.length;
      else changedSpans.push([at, at + word.length]);
    }
    at += word.length;
  }
  return changedSpans;
}

/** Rows that are shown, or unchanged rows that are folded at first. */
export interface DiffBlock {
  kind: "shown" | "folded";
  rows: readonly DiffRow[];
}

/**
 * Groups rows into blocks. `context` unchanged lines around a change are shown; longer unchanged stretches are folded.
 */
export function blocksOf(rows: readonly DiffRow[], context = 3): DiffBlock[] {
  const near = new Uint8Array(rows.length);
  for (const [at, { kind }] of rows.entries())
    if (kind !== "same") near.fill(1, Math.max(0, at - context), Math.min(rows.length, at + context + 1));
  const blocks: DiffBlock[] = [];
  for (let from = 0; from < rows.length;) {
    let to = from;
    while (to < rows.length && near[to] === near[from]) to++;
    const part = rows.slice(from, to);
    const last = blocks.at(-1);
    // A fold line for one or two lines would save no space.
    if (near[from] === 1 || part.length <= 2) {
      if (last?.kind === "shown") last.rows = [...last.rows, ...part];
      else blocks.push({ kind: "shown", rows: part });
    } else blocks.push({ kind: "folded", rows: part });
    from = to;
  }
  return blocks;
}

/** A removed row and the row added in its place, side by side. */
export type SideBySide = readonly [left: DiffRow | undefined, right: DiffRow | undefined];

export function sideBySide(rows: readonly DiffRow[]): SideBySide[] {
  const lines: SideBySide[] = [];
  for (let at = 0; at < rows.length;) {
    const row = rows[at];
    if (row?.kind === "same") {
      lines.push([row, row]);
      at++;
      continue;
    }
    const [removed, added]: [DiffRow[], DiffRow[]] = [[], []];
    for (let changedRow = rows[at]; changedRow && changedRow.kind !== "same"; changedRow = rows[++at])
      (changedRow.kind === "removed" ? removed : added).push(changedRow);
    for (let i = 0; i < Math.max(removed.length, added.length); i++) lines.push([removed[i], added[i]]);
  }
  return lines;
}

export function countsOf(rows: readonly DiffRow[]): { added: number; removed: number } {
  let [added, removed] = [0, 0];
  for (const { kind } of rows)
    if (kind === "added") added++;
    else if (kind === "removed") removed++;
  return { added, removed };
}
