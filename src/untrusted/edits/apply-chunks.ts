import { ToolError } from "../../ports/errors.js";
import { prefersCrlf } from "../../files/line-ends.js";
import { indentRule, indentsOf, type Reindent } from "./indentation.js";
import { mergeLines } from "./merge-lines.js";
import { ChunkHeaders, type MatchedHeader } from "./chunk-headers.js";
import { notFoundMessage } from "./not-found-message.js";
import { FileLines, TextView, type ViewPlace } from "./text-views.js";
import { REINDENTED, MATCH_MODES, type MatchMode } from "./match-modes.js";

/** A line of a patch: context, removed or added. */
export interface PatchLine {
  readonly sign: " " | "-" | "+";
  readonly text: string;
  /** Whether the line is empty and without a sign. It is either a context line or separates two chunks. */
  readonly isUnsigned?: boolean;
}

/** A chunk of the patch of a file. */
export interface PatchChunk {
  /** Lines that precede the chunk in the file, in order, such as a class and a function. */
  readonly headers: readonly string[];
  readonly lines: readonly PatchLine[];
  /** Whether the file ends with the chunk. */
  readonly isAtEnd: boolean;
}

/** The chunks of a patch for one file. */
export interface PatchJob {
  content: Uint8Array;
  chunks: readonly PatchChunk[];
  /** The file's name as the model knows it. */
  name: string;
  /** Maximum size of the result, in bytes. */
  maxBytes: number;
}

export interface PatchedFile {
  content: Uint8Array;
  /** Line number of the first change. */
  line: number;
  /** For each chunk that did not match exactly: which differences were ignored. */
  tolerated: string[];
}

/** Applies all chunks, or none. */
export function patchText({ content, chunks, name, maxBytes }: PatchJob): PatchedFile | { refused: string } {
  const latin = Buffer.from(content.buffer, content.byteOffset, content.byteLength).toString("latin1");
  try {
    const file = new PatchedText(latin, name);
    for (const [index, chunk] of chunks.entries())
      file.apply(chunk, chunks.length > 1 ? ` (chunk ${index + 1} of ${chunks.length}; nothing was changed)` : "");
    const text = file.text();
    if (text.length > maxBytes)
      throw new ToolError(`${name}: the result would be larger than ${maxBytes} bytes. Use bash.`);
    return { content: Buffer.from(text, "latin1"), line: file.firstLine, tolerated: file.how };
  } catch (error) {
    if (error instanceof ToolError) return { refused: error.message };
    throw error;
  }
}

interface Change {
  /** Range of lines of the file, from 0: `from` inclusive, `to` exclusive. */
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

class PatchedText {
  readonly how: string[] = [];
  readonly #name: string;
  readonly #latin: string;
  /** The byte order mark, or `""`. It is not part of `#file` and stays. */
  readonly #mark: string;
  readonly #file: FileLines;
  readonly #lines: readonly string[];
  readonly #isEnded: boolean;
  readonly #lineEnd: string;
  readonly #views = new Map<MatchMode, TextView>();
  readonly #changes: Change[] = [];
  readonly #names: ChunkHeaders;
  /** First line at which the next chunk may match. */
  #next = 0;

  constructor(latin: string, name: string) {
    this.#name = name;
    this.#latin = latin;
    this.#mark = latin.startsWith("\xef\xbb\xbf") ? latin.slice(0, 3) : "";
    const text = latin.slice(this.#mark.length);
    this.#isEnded = text === "" || text.endsWith("\n");
    this.#file = new FileLines(this.#isEnded ? text.slice(0, -1) : text, text === "" ? [] : undefined);
    const { lines } = this.#file;
    this.#lines = lines;
    this.#names = new ChunkHeaders(lines, name);
    this.#lineEnd = prefersCrlf(latin) ? "\r" : "";
  }

  get firstLine(): number {
    return (this.#changes[0]?.from ?? 0) + 1;
  }

  /** Applies a chunk. Throws `ToolError`. */
  apply(chunk: PatchChunk, which: string): void {
    const named = this.#names.find(chunk.headers, `${this.#name}${which}`);
    const lines = chunk.lines.map((line) => ({ ...line, text: Buffer.from(line.text).toString("latin1") }));
    const chunkLength = lines.findLastIndex(({ isUnsigned }) => !isUnsigned) + 1;
    // Trailing empty lines may belong to the chunk, or separate it from the next.
    for (const candidateLines of chunkLength < lines.length ? [lines, lines.slice(0, chunkLength)] : [lines]) {
      const match = this.#find(candidateLines, named, chunk, which);
      if (match) return this.#change(candidateLines, match.place, match.way, which);
    }
    throw this.#missingError(lines.slice(0, chunkLength), named, chunk, which);
  }

  text(): string {
    const pieces = [this.#mark];
    let done = 0;
    const keep = (to: number): void => {
      for (; done < to; done++) {
        const isLast = done === this.#lines.length - 1 && !this.#isEnded;
        pieces.push(this.#lines[done] ?? "", isLast ? "" : "\n");
      }
    };
    for (const { from, to, text } of this.#changes) {
      keep(from);
      if (from > 0 && from === this.#lines.length && !this.#isEnded) pieces.push(this.#lineEnd, "\n");
      pieces.push(text);
      done = to;
    }
    keep(this.#lines.length);
    return pieces.join("");
  }

  #find(
    lines: readonly PatchLine[],
    named: MatchedHeader | undefined,
    { headers, isAtEnd }: PatchChunk,
    which: string,
  ): { place: ViewPlace; way: MatchMode } | undefined {
    const oldLines = lines.filter(({ sign }) => sign !== "+").map(({ text }) => text);
    if (oldLines.length === 0) return { place: this.#insertion(headers, which), way: MATCH_MODES[0]! };
    for (const way of MATCH_MODES) {
      const places = this.#view(way)
        .places(oldLines, true, true)
        .filter(({ first, last }) => first >= this.#next && (!isAtEnd || last === this.#lines.length - 1))
        .filter((place) => !named || this.#names.isIn(place, named));
      const exact = places.filter(({ first }) => oldLines.every((line, i) => this.#raw(first + i) === line));
      const candidates = exact.length > 0 ? exact : places;
      const [place] = candidates;
      if (!place) continue;
      if (candidates.length === 1) return { place, way };
      const numbers = candidates.slice(0, 10).map(({ first }) => first + 1);
      throw new ToolError(
        `${this.#name}${which}: its lines occur ${candidates.length} times (from lines ${numbers.join(", ")}` +
          `${candidates.length > 10 ? ", …" : ""}). Add more lines around the change, or the function or class after @@.`,
      );
    }
    return undefined;
  }

  /** Place for added lines without context: the end of the file. */
  #insertion(headers: readonly string[], which: string): ViewPlace {
    if (headers.length > 0)
      throw new ToolError(`${this.#name}${which}: adds lines without context. Add the lines around them.`);
    const end = this.#lines.length;
    return { first: end, from: 0, last: end - 1, to: 0, isFullLines: true };
  }

  #change(lines: readonly PatchLine[], { first }: ViewPlace, way: MatchMode, which: string): void {
    const olds = lines.filter(({ sign }) => sign !== "+");
    const reindent = this.#rule(olds, first, way);
    let at = first;
    for (let i = 0; i < lines.length;) {
      if (lines[i]?.sign === " ") {
        i++;
        at++;
        continue;
      }
      let end = i;
      while (end < lines.length && lines[end]?.sign !== " ") end++;
      const group = lines.slice(i, end);
      const old = group.flatMap(({ sign, text }) => (sign === "-" ? [text] : []));
      const fresh = group.flatMap(({ sign, text }) => (sign === "+" ? [text] : []));
      const fileLines = old.map((_, line) => ({ raw: this.#raw(at + line), end: this.#endOf(at + line) }));
      const text = reindent && this.#merged(old, fresh, fileLines, way, reindent);
      if (text === undefined)
        throw new ToolError(
          `${this.#name}${which}: its lines have only an inexact match at line ${first + 1} (${way.how}), and the indentation of the new ` +
            "lines is unclear. Copy the lines around the change exactly.",
        );
      this.#changes.push({ from: at, to: at + old.length, text });
      at += old.length;
      i = end;
      this.#next = at;
    }
    const isExact = olds.every(({ text }, line) => this.#raw(first + line) === text);
    if (!isExact) this.how.push(`line ${first + 1}: ${way.how}${way.indentation ? `; ${REINDENTED}` : ""}`);
  }

  #merged(
    old: readonly string[],
    fresh: readonly string[],
    fileLines: readonly { raw: string; end: string }[],
    tolerance: MatchMode,
    reindent: Reindent,
  ): string | undefined {
    const last = { raw: "", end: undefined };
    const ended = (lines: readonly string[]): string[] => [...lines, ""];
    return mergeLines({
      ...{ tolerance, reindent, fileLines: [...fileLines, last], old: ended(old), fresh: ended(fresh) },
      lineEnd: this.#lineEnd,
    });
  }

  #rule(olds: readonly PatchLine[], first: number, { indentation }: MatchMode): Reindent | undefined {
    if (!indentation) return (indent) => indent;
    const texts = olds.map(({ text }) => text);
    return indentRule(
      indentsOf(
        texts,
        texts.map((_, line) => this.#raw(first + line)),
      ),
    );
  }

  #missingError(
    lines: readonly PatchLine[],
    named: MatchedHeader | undefined,
    { isAtEnd }: PatchChunk,
    which: string,
  ): ToolError {
    const oldLines = lines.filter(({ sign }) => sign !== "+").map(({ text }) => text);
    const places = this.#view(MATCH_MODES[0]!).places(oldLines, true, true);
    const elsewhere = places.find(({ first }) => first >= this.#next);
    if (named && elsewhere && !isAtEnd) {
      const lines = named.blocks.map(({ at, end }) => `${at + 1} to ${end}`).slice(0, 10);
      return new ToolError(
        `${this.#name}${which}: its lines are at line ${elsewhere.first + 1}, which is not in ${JSON.stringify(named.header)} (lines ` +
          `${lines.join(", ")}). Put the enclosing function or class after @@, or nothing if the lines are unique. Read the file again.`,
      );
    }
    const [place] = places;
    if (place && place.first < this.#next)
      return new ToolError(
        `${this.#name}${which}: its lines are at line ${place.first + 1}, before or within an earlier chunk of the patch. ` +
          "Send the chunks in the order of the file.",
      );
    const text = Buffer.from(oldLines.join("\n"), "latin1").toString();
    return new ToolError(notFoundMessage(this.#latin, text, `${this.#name}${which}`, "the patch"));
  }

  #view(way: MatchMode): TextView {
    let view = this.#views.get(way);
    if (!view) this.#views.set(way, (view = new TextView(this.#file, way)));
    return view;
  }

  #raw(line: number): string {
    const raw = this.#lines[line] ?? "";
    return raw.endsWith("\r") ? raw.slice(0, -1) : raw;
  }

  #endOf(line: number): string {
    if (line === this.#lines.length - 1 && !this.#isEnded) return this.#lineEnd;
    return this.#lines[line]?.endsWith("\r") ? "\r" : "";
  }
}
