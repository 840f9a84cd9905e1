import { PathError } from "../../ports/errors.js";
import type { OpenedFile } from "../../files/path-guard.js";
import { detectFileType } from "./content.js";
import { readWhole } from "./read-file.js";

/** Maximum characters shown of a line. */
const MAX_LINE_CHARACTERS = 300;
/** Maximum characters shown before a match. */
const MAX_CHARACTERS_BEFORE_MATCH = 100;
/** Maximum bytes of a character in UTF-8. */
const MAX_CHARACTER_BYTES = 4;
/** Maximum bytes of a line's position in ripgrep's output. */
const MAX_POSITION_BYTES = 100;
/** The byte of a line feed. */
const LINE_FEED = 10;
/**
 * Bytes that are read of a line. A line is read from its start if the match begins in the first half of these bytes.
 */
const LINE_READ_BYTES = 8_192;

export interface LinePosition {
  /** Line number, from 1. */
  readonly line: number;
  readonly isMatch: boolean;
  /** Byte offset of the match in the line, from 0. */
  readonly column: number;
  /**
   * Byte offset of the line in the file. For UTF-16 files, the offset in the file as UTF-8. A byte order mark is not
   * counted.
   */
  readonly offset: number;
}

export interface FoundFile {
  /** Name in ripgrep's output. */
  readonly name: string;
  readonly lines: LinePosition[];
}

/**
 * Parses the output of `rg --null --line-number --column --byte-offset --max-columns=1`: a path, NUL, and the position
 * of a line.
 *
 * The output does not contain the text of the line. The text is read from the file that the path guard opens, and lines
 * of any length are safe.
 */
export class FoundLineParser {
  readonly #onLine: (name: string, position: LinePosition) => boolean;
  readonly #onBinary: (name: string) => void;
  #incompleteRecord: Buffer = Buffer.alloc(0);

  /**
   * `onLine` returns false to end the search. `onBinary` receives the names of binary files that ripgrep did not search
   * completely.
   */
  constructor(onLine: (name: string, position: LinePosition) => boolean, onBinary: (name: string) => void) {
    this.#onLine = onLine;
    this.#onBinary = onBinary;
  }

  push(chunk: Buffer): boolean {
    const bytes = this.#incompleteRecord.length === 0 ? chunk : Buffer.concat([this.#incompleteRecord, chunk]);
    let start = 0;
    for (;;) {
      const nulIndex = bytes.indexOf(0, start);
      const end = nulIndex < 0 ? -1 : bytes.indexOf(LINE_FEED, nulIndex);
      if (end < 0) break;
      const name = this.#removeNotes(bytes.toString("utf8", start, nulIndex));
      const position = parsePosition(
        bytes.toString("latin1", nulIndex + 1, Math.min(end, nulIndex + MAX_POSITION_BYTES)),
      );
      start = end + 1;
      if (position && !this.#onLine(name, position)) return false;
    }
    this.#incompleteRecord = bytes.subarray(start);
    return true;
  }

  /** Reports the notes after the last line. */
  end(): void {
    this.#removeNotes(this.#incompleteRecord.toString());
  }

  /**
   * Removes the notes that ripgrep inserts between the lines when it stops in a binary file, and reports these files.
   */
  #removeNotes(text: string): string {
    for (let remainingText = text; ;) {
      const note = /^([^]*?): (?:WARNING: stopped searching binary file|binary file matches)[^\n]*\n/.exec(
        remainingText,
      );
      if (note?.[1] === undefined) return remainingText;
      this.#onBinary(note[1]);
      remainingText = remainingText.slice(note[0].length);
    }
  }
}

function parsePosition(text: string): LinePosition | undefined {
  const match = /^(\d+):(\d+):(\d+):/.exec(text);
  if (match) return { line: Number(match[1]), isMatch: true, column: Number(match[2]) - 1, offset: Number(match[3]) };
  const context = /^(\d+)-(\d+)-/.exec(text);
  return context ? { line: Number(context[1]), isMatch: false, column: 0, offset: Number(context[2]) } : undefined;
}

/** Bytes of the first read. Most files are not longer. */
const FIRST_READ_BYTES = 16 * 1024;

/**
 * Returns the current texts of these lines. A text is undefined if no line starts at the position any more.
 *
 * Rejects with `PathError` if the file cannot be read.
 */
export async function readLines(
  file: OpenedFile,
  positions: readonly LinePosition[],
  maxBytes: number,
): Promise<(string | undefined)[]> {
  const firstBytes = Buffer.alloc(FIRST_READ_BYTES);
  const { bytesRead } = await file.handle.read(firstBytes, 0, FIRST_READ_BYTES, 0);
  const content = detectFileType(firstBytes.subarray(0, 3));
  if (content.kind === "text" && content.encoding !== "utf-8") {
    if (file.stats.size > BigInt(maxBytes)) throw new PathError("io", "too large");
    const decodedFile = Buffer.from(new TextDecoder(content.encoding).decode(await readWhole(file, maxBytes)));
    return Promise.all(
      positions.map((position) => readLine(async (at, length) => decodedFile.subarray(at, at + length), position)),
    );
  }
  const markBytes = firstBytes.subarray(0, 3).equals(Buffer.from([0xef, 0xbb, 0xbf])) ? 3 : 0;
  const texts: (string | undefined)[] = [];
  for (const position of positions)
    texts.push(
      await readLine(async (offset, length) => {
        const fileOffset = offset + markBytes;
        if (bytesRead < FIRST_READ_BYTES || fileOffset + length <= bytesRead)
          return firstBytes.subarray(fileOffset, Math.min(fileOffset + length, bytesRead));
        const bytes = Buffer.alloc(length);
        const readResult = await file.handle.read(bytes, 0, length, fileOffset);
        return bytes.subarray(0, readResult.bytesRead);
      }, position),
    );
  return texts;
}

async function readLine(
  readBytes: (at: number, length: number) => Promise<Buffer>,
  { offset, column }: LinePosition,
): Promise<string | undefined> {
  const skipsLineStart = column > LINE_READ_BYTES / 2;
  const firstByte = skipsLineStart ? column - MAX_CHARACTERS_BEFORE_MATCH * MAX_CHARACTER_BYTES : 0;
  // Includes the line feed before the line.
  const fileOffset = offset + firstByte;
  const bytes = await readBytes(Math.max(0, fileOffset - 1), LINE_READ_BYTES + 1);
  if (bytes.length === 0 || (!skipsLineStart && fileOffset > 0 && bytes[0] !== LINE_FEED)) return undefined;
  let lineBytes = bytes.subarray(fileOffset > 0 ? 1 : 0);
  // Drops the end of a character that starts before this range.
  while (skipsLineStart && lineBytes.length > 0 && ((lineBytes[0] ?? 0) & 0xc0) === 0x80)
    lineBytes = lineBytes.subarray(1);
  const end = lineBytes.indexOf(LINE_FEED);
  const line = new TextDecoder().decode(end < 0 ? lineBytes : lineBytes.subarray(0, end)).replace(/\r$/, "");
  const droppedBytes = firstByte + (bytes.length - (fileOffset > 0 ? 1 : 0) - lineBytes.length);
  const matchIndex = new TextDecoder().decode(lineBytes.subarray(0, Math.max(0, column - droppedBytes))).length;
  return shortenLine(line, matchIndex, {
    isStartCut: skipsLineStart,
    isEndCut: end < 0 && bytes.length === LINE_READ_BYTES + 1,
  });
}

/** Returns the part of a long line around the match. */
function shortenLine(
  line: string,
  matchIndex: number,
  { isStartCut, isEndCut }: { isStartCut: boolean; isEndCut: boolean },
): string {
  if (line.length <= MAX_LINE_CHARACTERS && !isStartCut && !isEndCut) return line;
  const start = Math.max(0, Math.min(matchIndex - MAX_CHARACTERS_BEFORE_MATCH, line.length - MAX_LINE_CHARACTERS));
  const end = start + MAX_LINE_CHARACTERS;
  return (start > 0 || isStartCut ? "…" : "") + line.slice(start, end) + (end < line.length || isEndCut ? "…" : "");
}

/** Parses the output of `rg --count --null`: a path, NUL, a number and a line feed. */
export class CountRecordParser {
  #incompleteRecord: Buffer = Buffer.alloc(0);

  push(chunk: Buffer, onRecord: (name: string, count: number) => boolean): boolean {
    const bytes = this.#incompleteRecord.length === 0 ? chunk : Buffer.concat([this.#incompleteRecord, chunk]);
    let start = 0;
    for (;;) {
      const nulIndex = bytes.indexOf(0, start);
      const end = nulIndex < 0 ? -1 : bytes.indexOf(LINE_FEED, nulIndex);
      if (end < 0) break;
      if (!onRecord(bytes.toString("utf8", start, nulIndex), Number(bytes.toString("latin1", nulIndex + 1, end))))
        return false;
      start = end + 1;
    }
    this.#incompleteRecord = bytes.subarray(start);
    return true;
  }
}
