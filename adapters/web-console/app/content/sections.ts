/** Maximum characters of a text that is not split. */
const MAX_UNSPLIT_CHARACTERS = 16_000;
/** Characters of a section, extended to the end of the line. */
const SECTION_CHARACTERS = 8_000;
/** Maximum characters of a section that is one block, such as a long list. A longer block is split. */
const MAX_BLOCK_CHARACTERS = 64_000;
/** Maximum characters of consecutive lines without a new item. Parsing time grows with the square of their length. */
const MAX_RUNNING_CHARACTERS = 2_000;
/** Matches a line that starts an item, or a blank line, which ends an item. */
const ITEM_START_PATTERN = /^[ \t]*(?:$|[-*+>]|\d{1,9}[.)])/;
const FENCE_START_PATTERN = /^[ \t]*(?:(?:[-*+>]|\d{1,9}[.)])[ \t]+)*(`{3,}|~{3,})/;

/** A block with its source text. */
interface RawBlock {
  readonly type: string;
  readonly raw: string;
}

/**
 * Splits a long text into sections that can be parsed independently. Sections end at block boundaries, which
 * `parseBlocks` finds. A block longer than a section becomes its own section. Such a block is split between two lines
 * only if its length or its parsing work exceeds a limit.
 */
export function splitSections(text: string, parseBlocks: (text: string) => readonly RawBlock[]): string[] {
  if (text.length <= MAX_UNSPLIT_CHARACTERS) return [text];
  const sections: string[] = [];
  for (let from = 0, size = SECTION_CHARACTERS; from < text.length;) {
    const to = findLineEnd(text, from + size);
    const piece = text.slice(from, to);
    const blocks = to < text.length ? parseBlocks(piece) : [];
    // The last block may continue after the piece.
    const end = to < text.length ? findLastBlockStart(blocks, piece) : piece.length;
    if (end === 0 && canGrow(blocks, piece)) {
      size *= 2;
      continue;
    }
    const length = end === 0 ? findSplitPosition(piece) : end;
    sections.push(text.slice(from, from + length));
    from += length;
    size = SECTION_CHARACTERS;
  }
  return sections;
}

function findLineEnd(text: string, index: number): number {
  const end = text.indexOf("\n", index);
  return end < 0 ? text.length : end + 1;
}

/** Start of the last block; 0 if no block precedes it. */
function findLastBlockStart(blocks: readonly RawBlock[], piece: string): number {
  const lastIndex = blocks.findLastIndex(({ type }) => type !== "space");
  const precedingText = blocks
    .slice(0, Math.max(0, lastIndex))
    .map(({ raw }) => raw)
    .join("");
  return piece.startsWith(precedingText) ? precedingText.length : 0;
}

/** Whether the block at the start of the piece may become longer than a section. */
function canGrow(blocks: readonly RawBlock[], piece: string): boolean {
  const type = blocks.find((block) => block.type !== "space")?.type;
  // The contents of code are not parsed.
  if (type === "code") return true;
  if (piece.length >= MAX_BLOCK_CHARACTERS) return false;
  return type === "table" || type === "html" || ((type === "list" || type === "blockquote") && !hasLongText(piece));
}

/** Whether the piece has more than `MAX_RUNNING_CHARACTERS` without a new item. */
function hasLongText(piece: string): boolean {
  let runningCharacters = 0;
  let fence: string | undefined;
  for (const line of piece.split("\n")) {
    const [, fenceMark] = FENCE_START_PATTERN.exec(line) ?? [];
    // Lines in fenced code are not parsed.
    if (fence !== undefined) {
      if (fenceMark?.startsWith(fence)) fence = undefined;
      continue;
    }
    fence = fenceMark;
    runningCharacters = ITEM_START_PATTERN.test(line) ? 0 : runningCharacters + line.length + 1;
    if (runningCharacters > MAX_RUNNING_CHARACTERS) return true;
  }
  return false;
}

/** Position at which a block is split: before the last unindented line after a blank line, otherwise the end. */
function findSplitPosition(piece: string): number {
  let splitIndex = 0;
  for (const { index } of piece.matchAll(/\n[ \t]*\n(?=[^ \t\n])/g)) splitIndex = index;
  if (splitIndex === 0) return piece.length;
  return piece.indexOf("\n", splitIndex + 1) + 1;
}
