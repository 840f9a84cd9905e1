import { ToolError } from "../../ports/errors.js";
import { namedBlock, type NamedBlock } from "./named-block.js";
import { comparable } from "./text-views.js";

const LOOSEST = { typography: true, blanks: true, indentation: true };
/** Maximum lines that a header may match. A header with more matches does not identify a place. */
const MAX_NAMED = 100;

/** Blocks to which a chunk's header limits it. Several if the header matches several lines. */
export interface MatchedHeader {
  readonly header: string;
  readonly blocks: readonly NamedBlock[];
}

/** Finds the blocks that headers name in the lines of a file (one character per byte). */
export class ChunkHeaders {
  readonly #lines: readonly string[];
  readonly #name: string;
  #compared: readonly string[] | undefined;

  /** `name`: the file's name. */
  constructor(lines: readonly string[], name: string) {
    this.#lines = lines;
    this.#name = name;
  }

  /**
   * Finds the blocks that headers name, each within those of the previous header; undefined for no headers. Throws a
   * `ToolError` whose message begins with `of`.
   */
  find(headers: readonly string[], of: string): MatchedHeader | undefined {
    let named: MatchedHeader | undefined;
    for (const header of headers) {
      const comparableHeader = comparable(Buffer.from(header).toString("latin1"), LOOSEST);
      const fullMatches = this.#within(named, (line) => line === comparableHeader);
      // Signatures are often copied incompletely, so a prefix is enough.
      const places =
        fullMatches.length > 0 ? fullMatches : this.#within(named, (line) => line.startsWith(comparableHeader));
      const missingLine = `${of}: the line ${JSON.stringify(header)} after @@ was not found`;
      if (places.length === 0)
        throw new ToolError(
          `${missingLine}${named ? ` in ${JSON.stringify(named.header)}` : ""}. Read the file again.`,
        );
      if (places.length > MAX_NAMED)
        throw new ToolError(`${of}: the line ${JSON.stringify(header)} after @@ occurs ${places.length} times.`);
      named = { header, blocks: places.map((at) => namedBlock(this.#lines, at, this.#name)) };
    }
    return named;
  }

  /**
   * Whether a range of lines (from 0, inclusive) belongs to a named block: inside it, separated from its first line
   * only by blank lines, or around that line.
   */
  isIn({ first, last }: { first: number; last: number }, { blocks }: MatchedHeader): boolean {
    return blocks.some(({ at, end }) => {
      if (first <= at) return last >= at;
      return first < end || this.#lines.slice(at + 1, first).every((line) => line.trim() === "");
    });
  }

  #within(named: MatchedHeader | undefined, fits: (line: string) => boolean): number[] {
    const compared = (this.#compared ??= this.#lines.map((line) => comparable(line, LOOSEST)));
    const lineNumbers = new Set<number>();
    for (const { at, end } of named?.blocks ?? [{ at: -1, end: compared.length }])
      for (let line = at + 1; line < end; line++) if (fits(compared[line] ?? "")) lineNumbers.add(line);
    return [...lineNumbers];
  }
}
