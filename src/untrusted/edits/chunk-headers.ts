import { ToolError } from "../../ports/errors.js";
import { findNamedBlock, type NamedBlock } from "./named-block.js";
import { toComparable } from "./text-views.js";

/** Differences that are ignored when a header is compared with a line: all. */
const HEADER_TOLERANCE = { typography: true, blanks: true, indentation: true };
/** Maximum lines that a header may match. A header with more matches does not identify a position. */
const MAX_MATCHED_LINES = 100;

/** Blocks to which a chunk's header limits it. Several if the header matches several lines. */
export interface MatchedHeader {
  readonly header: string;
  readonly blocks: readonly NamedBlock[];
}

/** Finds the blocks that headers name in the lines of a file (one character per byte). */
export class ChunkHeaders {
  readonly #lines: readonly string[];
  readonly #name: string;
  #comparableLines: readonly string[] | undefined;

  /** `lines`: one character per byte. `name`: the file's name, whose ending selects the syntax of blocks. */
  constructor(lines: readonly string[], name: string) {
    this.#lines = lines;
    this.#name = name;
  }

  /**
   * Finds the blocks that headers name, each within those of the previous header; undefined for no headers. Throws a
   * `ToolError` whose message begins with `subject`.
   */
  find(headers: readonly string[], subject: string): MatchedHeader | undefined {
    let matchedHeader: MatchedHeader | undefined;
    for (const header of headers) {
      const comparableHeader = toComparable(Buffer.from(header).toString("latin1"), HEADER_TOLERANCE);
      const fullMatches = this.#findLines(matchedHeader, (line) => line === comparableHeader);
      // Signatures are often copied incompletely, so a prefix is enough.
      const lineIndexes =
        fullMatches.length > 0
          ? fullMatches
          : this.#findLines(matchedHeader, (line) => line.startsWith(comparableHeader));
      const missingLine = `${subject}: the line ${JSON.stringify(header)} after @@ was not found`;
      if (lineIndexes.length === 0)
        throw new ToolError(
          `${missingLine}${matchedHeader ? ` in ${JSON.stringify(matchedHeader.header)}` : ""}. Read the file again.`,
        );
      if (lineIndexes.length > MAX_MATCHED_LINES)
        throw new ToolError(
          `${subject}: the line ${JSON.stringify(header)} after @@ occurs ${lineIndexes.length} times.`,
        );
      matchedHeader = { header, blocks: lineIndexes.map((at) => findNamedBlock(this.#lines, at, this.#name)) };
    }
    return matchedHeader;
  }

  /**
   * Whether a range of lines (from 0, inclusive) belongs to one of the blocks. The range includes the named line,
   * starts in the block, or follows the named line after blank lines only.
   */
  isIn({ firstRow, lastRow }: { firstRow: number; lastRow: number }, { blocks }: MatchedHeader): boolean {
    return blocks.some(({ at, end }) => {
      if (firstRow <= at) return lastRow >= at;
      return firstRow < end || this.#lines.slice(at + 1, firstRow).every((line) => line.trim() === "");
    });
  }

  #findLines(matchedHeader: MatchedHeader | undefined, matches: (line: string) => boolean): number[] {
    const comparableLines = (this.#comparableLines ??= this.#lines.map((line) => toComparable(line, HEADER_TOLERANCE)));
    const matchedIndexes = new Set<number>();
    for (const { at, end } of matchedHeader?.blocks ?? [{ at: -1, end: comparableLines.length }])
      for (let line = at + 1; line < end; line++) if (matches(comparableLines[line] ?? "")) matchedIndexes.add(line);
    return [...matchedIndexes];
  }
}
