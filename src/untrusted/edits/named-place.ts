import { ToolError } from "../../ports/errors.js";
import { namedBlock, type NamedBlock } from "./named-block.js";
import { comparable } from "./text-views.js";

const LOOSEST = { typography: true, blanks: true, indentation: true };
/** A name that stands for more lines says nothing. */
const MAX_NAMED = 100;

/** Where a piece of a patch may be that names what it is in; several where the name stands for several. */
export interface NamedPlace {
  readonly header: string;
  readonly blocks: readonly NamedBlock[];
}

/** The lines of a file, one character a byte, and what headers name of them. */
export class NamedPlaces {
  readonly #lines: readonly string[];
  readonly #name: string;
  #compared: readonly string[] | undefined;

  /** `name`: the file's. */
  constructor(lines: readonly string[], name: string) {
    this.#lines = lines;
    this.#name = name;
  }

  /** What headers name, each in what the one before it names; undefined for none. Throws `ToolError`, which begins with `of`. */
  named(headers: readonly string[], of: string): NamedPlace | undefined {
    let named: NamedPlace | undefined;
    for (const header of headers) {
      const wanted = comparable(Buffer.from(header).toString("latin1"), LOOSEST);
      const whole = this.#within(named, (line) => line === wanted);
      // A signature is often not copied to its end.
      const places = whole.length > 0 ? whole : this.#within(named, (line) => line.startsWith(wanted));
      const said = `${of}: there is no line ${JSON.stringify(header)}`;
      if (places.length === 0)
        throw new ToolError(
          `${said}${named ? ` in ${JSON.stringify(named.header)}` : ""}, as it stands after @@. Read the file again.`,
        );
      if (places.length > MAX_NAMED)
        throw new ToolError(
          `${of}: ${JSON.stringify(header)}, as it stands after @@, is ${places.length} times there.`,
        );
      named = { header, blocks: places.map((at) => namedBlock(this.#lines, at, this.#name)) };
    }
    return named;
  }

  /** Whether lines (both counted from 0) are in what is named: in its block, right behind the line that names it, or around that. */
  isIn({ first, last }: { first: number; last: number }, { blocks }: NamedPlace): boolean {
    return blocks.some(({ at, end }) => {
      if (first <= at) return last >= at;
      return first < end || this.#lines.slice(at + 1, first).every((line) => line.trim() === "");
    });
  }

  #within(named: NamedPlace | undefined, fits: (line: string) => boolean): number[] {
    const compared = (this.#compared ??= this.#lines.map((line) => comparable(line, LOOSEST)));
    const found = new Set<number>();
    for (const { at, end } of named?.blocks ?? [{ at: -1, end: compared.length }])
      for (let line = at + 1; line < end; line++) if (fits(compared[line] ?? "")) found.add(line);
    return [...found];
  }
}
