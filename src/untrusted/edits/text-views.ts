import { findOffsets } from "./find-text.js";

/** Differences that are ignored when a text is compared with a file. Blanks at the ends of lines are always ignored. */
export interface MatchTolerance {
  /** Typographic quotes, dashes and spaces instead of ASCII characters. */
  readonly typography: boolean;
  /** The number of blanks between two words. */
  readonly blanks: boolean;
  /** Blanks before the first word of a line. */
  readonly indentation: boolean;
}

/** Typographic characters, as UTF-8 with one character per byte, and their ASCII replacements. */
const TYPOGRAPHIC_CHARACTERS: readonly (readonly [RegExp, string])[] = [
  [/\xe2\x80[\x98-\x9b\xb2]/, "'"],
  [/\xe2\x80[\x9c-\x9f\xb3]/, '"'],
  [/\xe2\x80[\x90-\x95]|\xe2\x88\x92/, "-"],
  [/\xc2\xa0|\xe2\x80[\x80-\x8a\xaf]|\xe2\x81\x9f|\xe3\x80\x80/, " "],
  [/\xe2\x80\xa6/, "..."],
  // Characters of zero width.
  [/\xe2\x80\x8b|\xe2\x81\xa0|\xef\xbb\xbf|\xc2\xad/, ""],
];
/** Matches any typographic character. */
export const TYPOGRAPHIC_CHARACTER = new RegExp(TYPOGRAPHIC_CHARACTERS.map(([sign]) => sign.source).join("|"), "g");

/** Returns the ASCII replacement of a typographic character, and other characters unchanged. */
function toAscii(sign: string): string {
  return TYPOGRAPHIC_CHARACTERS.find(([pattern]) => pattern.test(sign))?.[1] ?? sign;
}

/** A line in comparable form, with the position of each character in the original line. */
export interface MappedLine {
  readonly text: string;
  /** Start of each character in the original line. */
  readonly startColumns: readonly number[];
  /** End of each character in the original line, exclusive. */
  readonly endColumns: readonly number[];
}

/** Returns the form of a line (one character per byte) that is compared. */
export function toComparable(line: string, { typography, blanks, indentation }: MatchTolerance): string {
  let text = typography && /[\x80-\xff]/.test(line) ? line.replace(TYPOGRAPHIC_CHARACTER, toAscii) : line;
  text = text.slice(0, findWordsEnd(text));
  const start = indentOf(text).length;
  const words = blanks ? text.slice(start).replace(/[ \t]+/g, " ") : text.slice(start);
  return indentation ? words : text.slice(0, start) + words;
}

/** Returns the form of `toComparable`, and the position of each of its characters in the original line. */
export function mapLine(line: string, tolerance: MatchTolerance): MappedLine {
  const chars: { char: string; from: number; to: number }[] = [];
  const addUnchanged = (from: number, to: number): void => {
    for (let i = from; i < to; i++) chars.push({ char: line.charAt(i), from: i, to: i + 1 });
  };
  let mappedEnd = 0;
  if (tolerance.typography)
    for (const { 0: sign, index } of line.matchAll(TYPOGRAPHIC_CHARACTER)) {
      addUnchanged(mappedEnd, index);
      mappedEnd = index + sign.length;
      for (const char of toAscii(sign)) chars.push({ char, from: index, to: mappedEnd });
    }
  addUnchanged(mappedEnd, line.length);
  const text = chars.map(({ char }) => char).join("");
  const visibleChars = chars.slice(0, findWordsEnd(text));
  const start = indentOf(text.slice(0, visibleChars.length)).length;
  const words = visibleChars
    .slice(start)
    .filter(({ char }, i, all) => !tolerance.blanks || !isBlank(char) || !isBlank(all[i - 1]?.char ?? ""));
  if (tolerance.blanks)
    for (const [i, mappedChar] of words.entries())
      if (isBlank(mappedChar.char))
        words[i] = { char: " ", from: mappedChar.from, to: words[i + 1]?.from ?? mappedChar.to };
  const mappedChars = tolerance.indentation ? words : [...visibleChars.slice(0, start), ...words];
  return {
    text: mappedChars.map(({ char }) => char).join(""),
    startColumns: mappedChars.map(({ from }) => from),
    endColumns: mappedChars.map(({ to }) => to),
  };
}

function isBlank(char: string): boolean {
  return char === " " || char === "\t";
}

/** Returns the index after the last character that is neither a blank nor a carriage return. */
function findWordsEnd(text: string): number {
  let end = text.length;
  while (end > 0 && (isBlank(text.charAt(end - 1)) || text.charAt(end - 1) === "\r")) end--;
  return end;
}

/** The blanks at the start of a line. */
export function indentOf(line: string): string {
  let end = 0;
  while (end < line.length && isBlank(line.charAt(end))) end++;
  return line.slice(0, end);
}

/** A match in a view. Rows are counted from 0; columns refer to the comparable form of the lines. */
export interface ViewMatch {
  readonly firstRow: number;
  readonly from: number;
  readonly lastRow: number;
  readonly to: number;
  /** Whether the match covers its lines completely, apart from blanks. */
  readonly isFullLines: boolean;
}

const WORD = /[A-Za-z0-9_\x80-\xff]/;

/** Maximum lines that contain a word. A word in more lines does not help to locate a text. */
const MAX_ROWS_PER_WORD = 200;
/** Maximum words of a text that are searched in the file. */
const MAX_WORDS = 20;
/** Characters of zero width, which may occur within a word. */
const HIDDEN_CHARACTER = /\xe2\x80\x8b|\xe2\x81\xa0|\xef\xbb\xbf|\xc2\xad/;

/** The lines of a file (one character per byte), with an index of words. */
export class FileLines {
  readonly lines: readonly string[];
  readonly #text: string;
  #starts: Int32Array | undefined;
  #hasHiddenCharacters: boolean | undefined;
  readonly #rowsByWord = new Map<string, readonly number[] | undefined>();

  constructor(text: string, lines: readonly string[] = text.split("\n")) {
    this.#text = text;
    this.lines = lines;
  }

  /** Offset of the start of each line. */
  get starts(): Int32Array {
    return (this.#starts ??= findLineStarts(this.lines));
  }

  /**
   * Finds the lines, ascending, at which a text can start, from a long and rare word of the text. The file contains the
   * word unchanged, whatever differences are ignored. Returns undefined if no word is rare enough.
   */
  findCandidateRows(textLines: readonly string[], { typography }: MatchTolerance): readonly number[] | undefined {
    if (typography && (this.#hasHiddenCharacters ??= HIDDEN_CHARACTER.test(this.#text))) return undefined;
    const words = new Map<string, number>();
    // The limits bound the time for long texts; shorter words are too frequent.
    for (const [row, line] of textLines.slice(0, 100).entries())
      for (const [word] of line.slice(0, 2_000).matchAll(/[A-Za-z0-9_]{3,60}/g)) words.set(word, row);
    const longestWords = [...words].sort(([left], [right]) => right.length - left.length).slice(0, MAX_WORDS);
    for (const [word, offset] of longestWords) {
      if (!this.#rowsByWord.has(word)) this.#rowsByWord.set(word, this.#findRows(word));
      const rows = this.#rowsByWord.get(word)?.map((row) => row - offset);
      if (rows) return rows.filter((row) => row >= 0 && row + textLines.length <= this.lines.length);
    }
    return undefined;
  }

  #findRows(word: string): readonly number[] | undefined {
    const rows: number[] = [];
    let offset = this.#text.indexOf(word);
    while (offset >= 0) {
      const row = findLine(this.starts, offset);
      rows.push(row);
      if (rows.length > MAX_ROWS_PER_WORD) return undefined;
      // Continue after the end of this line.
      const nextStart = this.starts[row + 1];
      offset = nextStart === undefined ? -1 : this.#text.indexOf(word, nextStart);
    }
    return rows;
  }
}

function findLineStarts(lines: readonly string[]): Int32Array {
  const starts = new Int32Array(lines.length);
  let offset = 0;
  for (const [line, { length }] of lines.entries()) {
    starts[line] = offset;
    offset += length + 1;
  }
  return starts;
}

function findLine(starts: Int32Array, offset: number): number {
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((starts[middle] ?? 0) <= offset) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** A file's lines in comparable form: all of them, or only those that are checked. */
export class TextView {
  readonly #file: FileLines;
  #allLines: ComparedLines | undefined;

  constructor(
    file: FileLines,
    readonly tolerance: MatchTolerance,
  ) {
    this.#file = file;
  }

  /** Finds lines, aligned to whole words. `startsAtLine`, `endsAtLine`: only at the start, or the end, of a line. */
  findMatches(textLines: readonly string[], startsAtLine = false, endsAtLine = false): ViewMatch[] {
    const lines = textLines.map((line) => toComparable(line, this.tolerance));
    const query = { lines, lastRequestedLine: textLines.at(-1) ?? "", startsAtLine, endsAtLine };
    const rows = this.#allLines ? undefined : this.#file.findCandidateRows(lines, this.tolerance);
    if (!rows) return (this.#allLines ??= new ComparedLines(this.#file.lines, this.tolerance)).findMatches(query);
    return rows.flatMap((row) => {
      const candidate = new ComparedLines(this.#file.lines.slice(row, row + lines.length), this.tolerance);
      return candidate
        .findMatches(query)
        .map((match) => ({ ...match, firstRow: match.firstRow + row, lastRow: match.lastRow + row }));
    });
  }
}

/** Lines to find, in comparable form. */
interface LineQuery {
  readonly lines: readonly string[];
  /** The last line as requested, with its trailing blanks. */
  readonly lastRequestedLine: string;
  readonly startsAtLine: boolean;
  readonly endsAtLine: boolean;
}

class ComparedLines {
  readonly #text: string;
  /** Offset of the start of each line in `#text`. */
  readonly #starts: Int32Array;
  readonly #tolerance: MatchTolerance;

  constructor(fileLines: readonly string[], tolerance: MatchTolerance) {
    const lines = fileLines.map((line) => toComparable(line, tolerance));
    this.#tolerance = tolerance;
    this.#starts = findLineStarts(lines);
    this.#text = lines.join("\n");
  }

  findMatches({ lines, lastRequestedLine, startsAtLine, endsAtLine }: LineQuery): ViewMatch[] {
    const { indentation } = this.#tolerance;
    const text = lines.join("\n");
    // Trailing blanks of the text are ignored only at the end of a line. Elsewhere they are part of the text.
    const needsLineEnd = endsAtLine || indentation || findWordsEnd(lastRequestedLine) < lastRequestedLine.length;
    // A text that starts with indentation must match from the start of the line, and an empty text only an empty line.
    const needsLineStart = startsAtLine || indentation || lines[0] === "" || indentOf(lines[0] ?? "") !== "";
    const matches: ViewMatch[] = [];
    // Overlapping matches are included, because a text that matches twice is not unique.
    for (const from of findOffsets(this.#text, text, true)) {
      const to = from + text.length;
      if (!this.#isAtStart(from, needsLineStart)) continue;
      if ((lastRequestedLine !== "" || endsAtLine) && !this.#isAtEnd(to, needsLineEnd)) continue;
      const firstRow = findLine(this.#starts, from);
      const lastRow = firstRow + lines.length - 1;
      const [firstStart = 0, endStart = 0] = [this.#starts[firstRow], this.#starts[lastRow]];
      const isFullLines =
        this.#text.slice(firstStart, from).trim() === "" && (lastRequestedLine === "" || this.#isAtEnd(to, true));
      matches.push({ firstRow, from: from - firstStart, lastRow, to: to - endStart, isFullLines });
    }
    return matches;
  }

  #isAtStart(offset: number, isLineRequired: boolean): boolean {
    return offset === 0 || this.#text[offset - 1] === "\n" || (!isLineRequired && !this.#isInWord(offset));
  }

  #isAtEnd(offset: number, isLineRequired: boolean): boolean {
    return offset === this.#text.length || this.#text[offset] === "\n" || (!isLineRequired && !this.#isInWord(offset));
  }

  #isInWord(offset: number): boolean {
    return WORD.test(this.#text.charAt(offset - 1)) && WORD.test(this.#text.charAt(offset));
  }
}
