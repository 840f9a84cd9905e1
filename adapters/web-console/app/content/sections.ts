/** Shorter texts are read at once. */
const SHORT = 16_000;
/** Characters of a section of longer ones, where a line ends there. */
const SECTION = 8_000;
/** The same of one block that is longer, like a list. What is longer still is cut. */
const LONGEST = 64_000;
/** Characters of lines in a row that only go on with an item. Reading them takes a time that grows with their square. */
const RUNNING = 2_000;
/** Lines that begin an item, or end what runs. */
const BEGINS = /^[ \t]*(?:$|[-*+>]|\d{1,9}[.)])/;
const FENCE = /^[ \t]*(?:(?:[-*+>]|\d{1,9}[.)])[ \t]+)*(`{3,}|~{3,})/;

/** A block as it stands in a text. */
interface RawBlock {
  readonly type: string;
  readonly raw: string;
}

/**
 * A long text in sections that can be read one after the other. They end where a block does: `blocksOf` gives those of a
 * text, one behind the other. One block that is longer than a section is a section of its own; only where that is too
 * long, or would be too much work, is it cut, between two lines.
 */
export function sectionsOf(text: string, blocksOf: (text: string) => readonly RawBlock[]): string[] {
  if (text.length <= SHORT) return [text];
  const sections: string[] = [];
  for (let from = 0, size = SECTION; from < text.length;) {
    const to = lineEnd(text, from + size);
    const piece = text.slice(from, to);
    const blocks = to < text.length ? blocksOf(piece) : [];
    // The last one may go on.
    const end = to < text.length ? startOfLast(blocks, piece) : piece.length;
    if (end === 0 && mayGrow(blocks, piece)) {
      size *= 2;
      continue;
    }
    const length = end === 0 ? placeToCut(piece) : end;
    sections.push(text.slice(from, from + length));
    from += length;
    size = SECTION;
  }
  return sections;
}

function lineEnd(text: string, at: number): number {
  const end = text.indexOf("\n", at);
  return end < 0 ? text.length : end + 1;
}

/** Where the last block begins; 0 where there is no other before it. */
function startOfLast(blocks: readonly RawBlock[], piece: string): number {
  const last = blocks.findLastIndex(({ type }) => type !== "space");
  const before = blocks
    .slice(0, Math.max(0, last))
    .map(({ raw }) => raw)
    .join("");
  return piece.startsWith(before) ? before.length : 0;
}

/** Whether more of one block may be read at once. */
function mayGrow(blocks: readonly RawBlock[], piece: string): boolean {
  const type = blocks.find((block) => block.type !== "space")?.type;
  // What is in it is not looked at.
  if (type === "code") return true;
  if (piece.length >= LONGEST) return false;
  return type === "table" || type === "html" || ((type === "list" || type === "blockquote") && !runsLong(piece));
}

function runsLong(piece: string): boolean {
  let running = 0;
  let fence: string | undefined;
  for (const line of piece.split("\n")) {
    const [, mark] = FENCE.exec(line) ?? [];
    // Code is one block, and no work.
    if (fence !== undefined) {
      if (mark?.startsWith(fence)) fence = undefined;
      continue;
    }
    fence = mark;
    running = BEGINS.test(line) ? 0 : running + line.length + 1;
    if (running > RUNNING) return true;
  }
  return false;
}

/** Where a block that is too long is cut: before a line that begins at the left behind a blank one, else at its end. */
function placeToCut(piece: string): number {
  let place = 0;
  for (const { index } of piece.matchAll(/\n[ \t]*\n(?=[^ \t\n])/g)) place = index;
  if (place === 0) return piece.length;
  return piece.indexOf("\n", place + 1) + 1;
}
