import { placesOf } from "./find-text.js";

/** In what a text may differ from a file and be found in it all the same; blanks at the ends of lines always. */
export interface MatchTolerance {
  /** Quotes, dashes and spaces of print, for those of a keyboard. */
  readonly typography: boolean;
  /** How many blanks stand between two words. */
  readonly blanks: boolean;
  /** Blanks before the first word of a line. */
  readonly indentation: boolean;
}

/** What stands in place of the signs of print; their UTF-8, one character a byte. */
const PRINTED: readonly (readonly [RegExp, string])[] = [
  [/\xe2\x80[\x98-\x9b\xb2]/, "'"],
  [/\xe2\x80[\x9c-\x9f\xb3]/, '"'],
  [/\xe2\x80[\x90-\x95]|\xe2\x88\x92/, "-"],
  [/\xc2\xa0|\xe2\x80[\x80-\x8a\xaf]|\xe2\x81\x9f|\xe3\x80\x80/, " "],
  [/\xe2\x80\xa6/, "..."],
  // Of no width.
  [/\xe2\x80\x8b|\xe2\x81\xa0|\xef\xbb\xbf|\xc2\xad/, ""],
];
/** Any of them. */
export const PRINT = new RegExp(PRINTED.map(([sign]) => sign.source).join("|"), "g");

function plainOf(sign: string): string {
  return PRINTED.find(([of]) => of.test(sign))?.[1] ?? sign;
}

/** A line as it is compared, and where in the line each character of that is. */
export interface MappedLine {
  readonly text: string;
  /** Where each character begins, and where it ends. */
  readonly from: readonly number[];
  readonly to: readonly number[];
}

/** A line, one character a byte, as it is compared. */
export function comparable(line: string, { typography, blanks, indentation }: MatchTolerance): string {
  let text = typography && /[\x80-\xff]/.test(line) ? line.replace(PRINT, plainOf) : line;
  text = text.slice(0, wordsEnd(text));
  const start = indentOf(text).length;
  const words = blanks ? text.slice(start).replace(/[ \t]+/g, " ") : text.slice(start);
  return indentation ? words : text.slice(0, start) + words;
}

/** As `comparable`, with the places. */
export function mapped(line: string, tolerance: MatchTolerance): MappedLine {
  const chars: { char: string; from: number; to: number }[] = [];
  const plain = (from: number, to: number): void => {
    for (let at = from; at < to; at++) chars.push({ char: line.charAt(at), from: at, to: at + 1 });
  };
  let done = 0;
  if (tolerance.typography)
    for (const { 0: sign, index } of line.matchAll(PRINT)) {
      plain(done, index);
      done = index + sign.length;
      for (const char of plainOf(sign)) chars.push({ char, from: index, to: done });
    }
  plain(done, line.length);
  const text = chars.map(({ char }) => char).join("");
  const kept = chars.slice(0, wordsEnd(text));
  const start = indentOf(text.slice(0, kept.length)).length;
  const words = kept
    .slice(start)
    .filter(({ char }, at, all) => !tolerance.blanks || !isBlank(char) || !isBlank(all[at - 1]?.char ?? ""));
  if (tolerance.blanks)
    for (const [at, one] of words.entries())
      if (isBlank(one.char)) words[at] = { char: " ", from: one.from, to: words[at + 1]?.from ?? one.to };
  const all = tolerance.indentation ? words : [...kept.slice(0, start), ...words];
  return {
    text: all.map(({ char }) => char).join(""),
    from: all.map(({ from }) => from),
    to: all.map(({ to }) => to),
  };
}

function isBlank(char: string): boolean {
  return char === " " || char === "\t";
}

function wordsEnd(text: string): number {
  let end = text.length;
  while (end > 0 && (isBlank(text.charAt(end - 1)) || text.charAt(end - 1) === "\r")) end--;
  return end;
}

/** The blanks that a line begins with. */
export function indentOf(line: string): string {
  let end = 0;
  while (end < line.length && isBlank(line.charAt(end))) end++;
  return line.slice(0, end);
}

/** Where a text is in a view: lines from 0, columns of the lines as they are compared. */
export interface ViewPlace {
  readonly first: number;
  readonly from: number;
  readonly last: number;
  readonly to: number;
  /** Whether nothing but blanks stands beside it in its lines. */
  readonly whole: boolean;
}

const WORD = /[A-Za-z0-9_\x80-\xff]/;

/** Words that more lines have say nothing of where a text is. */
const MAX_ROWS = 200;
/** So many are tried. */
const MAX_WORDS = 20;
/** Signs of no width, which may be in the middle of a word. */
const HIDDEN = /\xe2\x80\x8b|\xe2\x81\xa0|\xef\xbb\xbf|\xc2\xad/;

/** The lines of a file, one character a byte, and which of them have a word. */
export class FileLines {
  readonly lines: readonly string[];
  readonly #text: string;
  #starts: Int32Array | undefined;
  #isHidden: boolean | undefined;
  readonly #known = new Map<string, readonly number[] | undefined>();

  constructor(text: string, lines: readonly string[] = text.split("\n")) {
    this.#text = text;
    this.lines = lines;
  }

  /** Where each line begins. */
  get starts(): Int32Array {
    return (this.#starts ??= startsOf(this.lines));
  }

  /**
   * The lines, ascending, that these may begin at, by a long word in them that few have: it is in the file as it is, whatever else is overlooked.
   * Undefined where it does not tell.
   */
  rowsOf(wanted: readonly string[], { typography }: MatchTolerance): readonly number[] | undefined {
    if (typography && (this.#isHidden ??= HIDDEN.test(this.#text))) return undefined;
    const words = new Map<string, number>();
    for (const [at, line] of wanted.slice(0, 100).entries())
      for (const [word] of line.slice(0, 2_000).matchAll(/[A-Za-z0-9_]{3,60}/g)) words.set(word, at);
    const longest = [...words].sort(([one], [other]) => other.length - one.length).slice(0, MAX_WORDS);
    for (const [word, offset] of longest) {
      if (!this.#known.has(word)) this.#known.set(word, this.#rowsWith(word));
      const rows = this.#known.get(word)?.map((row) => row - offset);
      if (rows) return rows.filter((row) => row >= 0 && row + wanted.length <= this.lines.length);
    }
    return undefined;
  }

  #rowsWith(word: string): readonly number[] | undefined {
    const rows: number[] = [];
    let at = this.#text.indexOf(word);
    while (at >= 0) {
      const row = lineAt(this.starts, at);
      rows.push(row);
      if (rows.length > MAX_ROWS) return undefined;
      // Behind the end of its line.
      const next = this.starts[row + 1];
      at = next === undefined ? -1 : this.#text.indexOf(word, next);
    }
    return rows;
  }
}

function startsOf(lines: readonly string[]): Int32Array {
  const starts = new Int32Array(lines.length);
  let at = 0;
  for (const [line, { length }] of lines.entries()) {
    starts[line] = at;
    at += length + 1;
  }
  return starts;
}

function lineAt(starts: Int32Array, at: number): number {
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((starts[middle] ?? 0) <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** A file's lines as they are compared: all of them, or where they are looked at. */
export class TextView {
  readonly #file: FileLines;
  #whole: ComparedLines | undefined;

  constructor(
    file: FileLines,
    readonly tolerance: MatchTolerance,
  ) {
    this.#file = file;
  }

  /** Where these lines are, in words that are whole; `begins` and `ends`: with a line's begin and end alone. */
  places(wanted: readonly string[], begins = false, ends = false): ViewPlace[] {
    const lines = wanted.map((line) => comparable(line, this.tolerance));
    const sought = { lines, last: wanted.at(-1) ?? "", begins, ends };
    const rows = this.#whole ? undefined : this.#file.rowsOf(lines, this.tolerance);
    if (!rows) return (this.#whole ??= new ComparedLines(this.#file.lines, this.tolerance)).places(sought);
    return rows.flatMap((row) => {
      const some = new ComparedLines(this.#file.lines.slice(row, row + lines.length), this.tolerance);
      return some.places(sought).map((place) => ({ ...place, first: place.first + row, last: place.last + row }));
    });
  }
}

/** Lines to look for, as they are compared. */
interface Sought {
  readonly lines: readonly string[];
  /** The last of them, as it was asked for. */
  readonly last: string;
  readonly begins: boolean;
  readonly ends: boolean;
}

class ComparedLines {
  readonly #text: string;
  /** Where each line begins in it. */
  readonly #starts: Int32Array;
  readonly #tolerance: MatchTolerance;

  constructor(raw: readonly string[], tolerance: MatchTolerance) {
    const lines = raw.map((line) => comparable(line, tolerance));
    this.#tolerance = tolerance;
    this.#starts = startsOf(lines);
    this.#text = lines.join("\n");
  }

  places({ lines, last, begins, ends }: Sought): ViewPlace[] {
    const { indentation } = this.#tolerance;
    const text = lines.join("\n");
    // Blanks that the text ends with and the file has not are those of a line's end, or the place is another.
    const wholeEnd = ends || indentation || wordsEnd(last) < last.length;
    // So are those that it begins with an indentation, and a whole one; nothing is an empty line.
    const wholeBegin = begins || indentation || lines[0] === "" || indentOf(lines[0] ?? "") !== "";
    const found: ViewPlace[] = [];
    // Those too that share lines: a text that fits twice is not unique.
    for (const from of placesOf(this.#text, text, true)) {
      const to = from + text.length;
      if (!this.#begins(from, wholeBegin)) continue;
      if ((last !== "" || ends) && !this.#ends(to, wholeEnd)) continue;
      const first = lineAt(this.#starts, from);
      const end = first + lines.length - 1;
      const [firstStart = 0, endStart = 0] = [this.#starts[first], this.#starts[end]];
      const whole = this.#text.slice(firstStart, from).trim() === "" && (last === "" || this.#ends(to, true));
      found.push({ first, from: from - firstStart, last: end, to: to - endStart, whole });
    }
    return found;
  }

  #begins(at: number, whole: boolean): boolean {
    return at === 0 || this.#text[at - 1] === "\n" || (!whole && !this.#isInWord(at));
  }

  #ends(at: number, whole: boolean): boolean {
    return at === this.#text.length || this.#text[at] === "\n" || (!whole && !this.#isInWord(at));
  }

  #isInWord(at: number): boolean {
    return WORD.test(this.#text.charAt(at - 1)) && WORD.test(this.#text.charAt(at));
  }
}
