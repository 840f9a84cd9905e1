import { ToolError } from "../../ports/errors.js";
import { prefersCrlf } from "../../files/line-ends.js";
import { findIndentRule, pairIndents, type Reindent } from "./indentation.js";
import { mergeLines } from "./merge-lines.js";
import { ChunkHeaders, type MatchedHeader } from "./chunk-headers.js";
import { formatNotFoundMessage } from "./not-found-message.js";
import { FileLines, TextView, type ViewMatch } from "./text-views.js";
import { REINDENT_NOTE, MATCH_MODES, MAX_LISTED_MATCHES, type MatchMode } from "./match-modes.js";

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
  /** Line number of the first change, from 1; 1 without a change. */
  line: number;
  /** For each chunk with an inexact match: its line and the ignored differences, for the model. */
  matchNotes: string[];
}

/**
 * Applies all chunks or none. Returns an error message for the model if a chunk cannot be applied, or if the result is
 * too large.
 */
export function patchText({ content, chunks, name, maxBytes }: PatchJob): PatchedFile | { errorMessage: string } {
  const latin1Text = Buffer.from(content.buffer, content.byteOffset, content.byteLength).toString("latin1");
  try {
    const file = new PatchedText(latin1Text, name);
    for (const [index, chunk] of chunks.entries())
      file.apply(chunk, chunks.length > 1 ? ` (chunk ${index + 1} of ${chunks.length}; nothing was changed)` : "");
    const text = file.buildText();
    if (text.length > maxBytes)
      throw new ToolError(`${name}: the result would be larger than ${maxBytes} bytes. Use bash.`);
    return { content: Buffer.from(text, "latin1"), line: file.firstLine, matchNotes: file.matchNotes };
  } catch (error) {
    if (error instanceof ToolError) return { errorMessage: error.message };
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
  readonly matchNotes: string[] = [];
  readonly #name: string;
  readonly #latin1Text: string;
  /** The byte order mark, or `""`. It is not part of `#file` and stays. */
  readonly #byteOrderMark: string;
  readonly #file: FileLines;
  readonly #lines: readonly string[];
  readonly #endsWithLineFeed: boolean;
  readonly #lineEnd: string;
  readonly #views = new Map<MatchMode, TextView>();
  readonly #changes: Change[] = [];
  readonly #headers: ChunkHeaders;
  /** Index of the first line at which the next chunk may match, from 0. */
  #nextLine = 0;

  constructor(latin1Text: string, name: string) {
    this.#name = name;
    this.#latin1Text = latin1Text;
    this.#byteOrderMark = latin1Text.startsWith("\xef\xbb\xbf") ? latin1Text.slice(0, 3) : "";
    const text = latin1Text.slice(this.#byteOrderMark.length);
    this.#endsWithLineFeed = text === "" || text.endsWith("\n");
    this.#file = new FileLines(this.#endsWithLineFeed ? text.slice(0, -1) : text, text === "" ? [] : undefined);
    const { lines } = this.#file;
    this.#lines = lines;
    this.#headers = new ChunkHeaders(lines, name);
    this.#lineEnd = prefersCrlf(latin1Text) ? "\r" : "";
  }

  /** Line number of the first change, from 1. */
  get firstLine(): number {
    return (this.#changes[0]?.from ?? 0) + 1;
  }

  /** Applies a chunk. Throws `ToolError`. */
  apply(chunk: PatchChunk, chunkLabel: string): void {
    const matchedHeader = this.#headers.find(chunk.headers, `${this.#name}${chunkLabel}`);
    const lines = chunk.lines.map((line) => ({ ...line, text: Buffer.from(line.text).toString("latin1") }));
    const chunkLength = lines.findLastIndex(({ isUnsigned }) => !isUnsigned) + 1;
    // Trailing empty lines may belong to the chunk, or separate it from the next.
    for (const candidateLines of chunkLength < lines.length ? [lines, lines.slice(0, chunkLength)] : [lines]) {
      const match = this.#findMatch(candidateLines, matchedHeader, chunk, chunkLabel);
      if (match) return this.#addChanges(candidateLines, match.position, match.mode, chunkLabel);
    }
    throw this.#createNotFoundError(lines.slice(0, chunkLength), matchedHeader, chunk, chunkLabel);
  }

  buildText(): string {
    const pieces = [this.#byteOrderMark];
    let copiedLines = 0;
    const copyLines = (endLine: number): void => {
      for (; copiedLines < endLine; copiedLines++) {
        const isLast = copiedLines === this.#lines.length - 1 && !this.#endsWithLineFeed;
        pieces.push(this.#lines[copiedLines] ?? "", isLast ? "" : "\n");
      }
    };
    for (const { from, to, text } of this.#changes) {
      copyLines(from);
      if (from > 0 && from === this.#lines.length && !this.#endsWithLineFeed) pieces.push(this.#lineEnd, "\n");
      pieces.push(text);
      copiedLines = to;
    }
    copyLines(this.#lines.length);
    return pieces.join("");
  }

  #findMatch(
    lines: readonly PatchLine[],
    matchedHeader: MatchedHeader | undefined,
    { headers, isAtEnd }: PatchChunk,
    chunkLabel: string,
  ): { position: ViewMatch; mode: MatchMode } | undefined {
    const oldLines = lines.filter(({ sign }) => sign !== "+").map(({ text }) => text);
    if (oldLines.length === 0) return { position: this.#createInsertion(headers, chunkLabel), mode: MATCH_MODES[0]! };
    for (const mode of MATCH_MODES) {
      const positions = this.#getView(mode)
        .findMatches(oldLines, true, true)
        .filter(
          ({ firstRow, lastRow }) => firstRow >= this.#nextLine && (!isAtEnd || lastRow === this.#lines.length - 1),
        )
        .filter((position) => !matchedHeader || this.#headers.isIn(position, matchedHeader));
      const exactPositions = positions.filter(({ firstRow }) =>
        oldLines.every((line, i) => this.#getLineText(firstRow + i) === line),
      );
      const candidates = exactPositions.length > 0 ? exactPositions : positions;
      const [position] = candidates;
      if (!position) continue;
      if (candidates.length === 1) return { position, mode };
      const numbers = candidates.slice(0, MAX_LISTED_MATCHES).map(({ firstRow }) => firstRow + 1);
      throw new ToolError(
        `${this.#name}${chunkLabel}: its lines occur ${candidates.length} times (from lines ${numbers.join(", ")}` +
          `${candidates.length > MAX_LISTED_MATCHES ? ", …" : ""}). Add more lines around the change, or the function or class after @@.`,
      );
    }
    return undefined;
  }

  /** Position for added lines without context: the end of the file. */
  #createInsertion(headers: readonly string[], chunkLabel: string): ViewMatch {
    if (headers.length > 0)
      throw new ToolError(`${this.#name}${chunkLabel}: adds lines without context. Add the lines around them.`);
    const end = this.#lines.length;
    return { firstRow: end, from: 0, lastRow: end - 1, to: 0, isFullLines: true };
  }

  /**
   * Replaces the changed lines of a matched chunk. `firstRow`: index of the first matched line of the file. Throws
   * `ToolError`.
   */
  #addChanges(lines: readonly PatchLine[], { firstRow }: ViewMatch, mode: MatchMode, chunkLabel: string): void {
    const oldPatchLines = lines.filter(({ sign }) => sign !== "+");
    const reindent = this.#createReindent(oldPatchLines, firstRow, mode);
    let fileLine = firstRow;
    for (let i = 0; i < lines.length;) {
      if (lines[i]?.sign === " ") {
        i++;
        fileLine++;
        continue;
      }
      let end = i;
      while (end < lines.length && lines[end]?.sign !== " ") end++;
      const group = lines.slice(i, end);
      const oldLines = group.flatMap(({ sign, text }) => (sign === "-" ? [text] : []));
      const replacement = group.flatMap(({ sign, text }) => (sign === "+" ? [text] : []));
      const fileLines = oldLines.map((_, offset) => ({
        raw: this.#getLineText(fileLine + offset),
        lineEnd: this.#getLineEnd(fileLine + offset),
      }));
      const text = reindent && this.#mergeGroup(oldLines, replacement, fileLines, mode, reindent);
      if (text === undefined)
        throw new ToolError(
          `${this.#name}${chunkLabel}: its lines have only an inexact match at line ${firstRow + 1} (${mode.differences}), and the indentation of the new ` +
            "lines is unclear. Copy the lines around the change exactly.",
        );
      this.#changes.push({ from: fileLine, to: fileLine + oldLines.length, text });
      fileLine += oldLines.length;
      i = end;
      this.#nextLine = fileLine;
    }
    const isExact = oldPatchLines.every(({ text }, line) => this.#getLineText(firstRow + line) === text);
    if (!isExact)
      this.matchNotes.push(`line ${firstRow + 1}: ${mode.differences}${mode.indentation ? `; ${REINDENT_NOTE}` : ""}`);
  }

  #mergeGroup(
    oldLines: readonly string[],
    replacement: readonly string[],
    fileLines: readonly { raw: string; lineEnd: string }[],
    tolerance: MatchMode,
    reindent: Reindent,
  ): string | undefined {
    // An empty line after the group, so that the merged text ends with a line end.
    const emptyLine = { raw: "", lineEnd: undefined };
    const appendEmptyLine = (lines: readonly string[]): string[] => [...lines, ""];
    return mergeLines({
      ...{
        tolerance,
        reindent,
        fileLines: [...fileLines, emptyLine],
        oldLines: appendEmptyLine(oldLines),
        replacement: appendEmptyLine(replacement),
      },
      lineEnd: this.#lineEnd,
    });
  }

  #createReindent(
    oldPatchLines: readonly PatchLine[],
    firstRow: number,
    { indentation }: MatchMode,
  ): Reindent | undefined {
    if (!indentation) return (indent) => indent;
    const texts = oldPatchLines.map(({ text }) => text);
    return findIndentRule(
      pairIndents(
        texts,
        texts.map((_, line) => this.#getLineText(firstRow + line)),
      ),
    );
  }

  #createNotFoundError(
    lines: readonly PatchLine[],
    matchedHeader: MatchedHeader | undefined,
    { isAtEnd }: PatchChunk,
    chunkLabel: string,
  ): ToolError {
    const oldLines = lines.filter(({ sign }) => sign !== "+").map(({ text }) => text);
    const positions = this.#getView(MATCH_MODES[0]!).findMatches(oldLines, true, true);
    const laterPosition = positions.find(({ firstRow }) => firstRow >= this.#nextLine);
    if (matchedHeader && laterPosition && !isAtEnd) {
      const blockRanges = matchedHeader.blocks.map(({ at, end }) => `${at + 1} to ${end}`).slice(0, MAX_LISTED_MATCHES);
      return new ToolError(
        `${this.#name}${chunkLabel}: its lines are at line ${laterPosition.firstRow + 1}, which is not in ${JSON.stringify(matchedHeader.header)} (lines ` +
          `${blockRanges.join(", ")}). Put the enclosing function or class after @@, or nothing if the lines are unique. Read the file again.`,
      );
    }
    const [position] = positions;
    if (position && position.firstRow < this.#nextLine)
      return new ToolError(
        `${this.#name}${chunkLabel}: its lines are at line ${position.firstRow + 1}, before or within an earlier chunk of the patch. ` +
          "Send the chunks in the order of the file.",
      );
    const text = Buffer.from(oldLines.join("\n"), "latin1").toString();
    return new ToolError(formatNotFoundMessage(this.#latin1Text, text, `${this.#name}${chunkLabel}`, "the patch"));
  }

  #getView(mode: MatchMode): TextView {
    let view = this.#views.get(mode);
    if (!view) this.#views.set(mode, (view = new TextView(this.#file, mode)));
    return view;
  }

  #getLineText(line: number): string {
    const raw = this.#lines[line] ?? "";
    return raw.endsWith("\r") ? raw.slice(0, -1) : raw;
  }

  /** Returns `\r` or `""`: the characters before the line feed of a line. */
  #getLineEnd(line: number): string {
    if (line === this.#lines.length - 1 && !this.#endsWithLineFeed) return this.#lineEnd;
    return this.#lines[line]?.endsWith("\r") ? "\r" : "";
  }
}
