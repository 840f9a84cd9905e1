import { common } from "./common-lines.js";
import type { Reindent } from "./indentation.js";
import { comparable, indentOf, mapped, PRINT, type MatchTolerance } from "./text-views.js";

/** A line of the file that a text was found in, or the part of it. */
export interface FoundLine {
  /** Without its end. */
  readonly raw: string;
  /** `\r` or nothing; undefined of the last, whose end was not asked for. */
  readonly end: string | undefined;
}

/** What is to become of lines that were found. */
export interface Merge {
  readonly tolerance: MatchTolerance;
  /** As they are in the file. */
  readonly found: readonly FoundLine[];
  /** The same lines as they were asked for. */
  readonly old: readonly string[];
  /** What takes their place. */
  readonly fresh: readonly string[];
  /** Which of the old lines stay, and where in the fresh ones; found out where nobody says. */
  readonly kept?: readonly (readonly [number, number])[];
  readonly reindent: Reindent;
  /** What ends the lines of the file before the line feed. */
  readonly lineEnd: string;
}

/**
 * The fresh lines as the file would have them: what they share with the old ones stays as the file has it, to the byte;
 * the rest is indented as the file does it. Undefined where it cannot be said how that is.
 */
export function mergeLines({ tolerance, found, old, fresh, lineEnd, reindent, ...rest }: Merge): string | undefined {
  const kept = rest.kept ?? common(old, fresh);
  if (!kept) return undefined;
  const from = new Map(kept.map(([one, other]) => [other, one] as const));
  const changed = changedPairs(from, old.length, fresh.length);
  const lines: string[] = [];
  for (const [at, line] of fresh.entries()) {
    const same = from.get(at);
    const before = same ?? changed.get(at);
    const was = before === undefined ? undefined : found[before];
    const text =
      same !== undefined
        ? was?.raw
        : was && before !== undefined
          ? mergeLine(was.raw, old[before] ?? "", line, tolerance, reindent)
          : indented(line, tolerance, reindent);
    if (text === undefined) return undefined;
    lines.push(at === fresh.length - 1 ? text : text + (was?.end ?? lineEnd));
  }
  return lines.join("\n");
}

/** Of the lines between those that stay, where they are as many as before: which became which. */
function changedPairs(kept: ReadonlyMap<number, number>, olds: number, freshes: number): Map<number, number> {
  const pairs = new Map<number, number>();
  let old = 0;
  let fresh = 0;
  for (const [freshEnd, oldEnd] of [...kept].concat([[freshes, olds]])) {
    if (oldEnd - old === freshEnd - fresh)
      for (let step = 0; fresh + step < freshEnd; step++) pairs.set(fresh + step, old + step);
    old = oldEnd + 1;
    fresh = freshEnd + 1;
  }
  return pairs;
}

function indented(line: string, { indentation }: MatchTolerance, reindent: Reindent): string | undefined {
  const indent = indentOf(line);
  if (!indentation || indent.length === line.length) return line;
  const fitting = reindent(indent);
  return fitting === undefined ? undefined : fitting + line.slice(indent.length);
}

/** A line of the file with what became another between its old form and its fresh one. */
function mergeLine(
  raw: string,
  old: string,
  fresh: string,
  tolerance: MatchTolerance,
  reindent: Reindent,
): string | undefined {
  const plain = indented(fresh, tolerance, reindent);
  if (plain === undefined || old.trim() === "" || fresh.trim() === "") return plain;
  const [file, was, now] = [partsOf(raw), partsOf(old), partsOf(fresh)];
  const indent = was.indent === now.indent ? file.indent : indentOf(plain);
  const blanks = was.blanks === now.blanks ? file.blanks : now.blanks;
  const words = mergeWords(file.words, was.words, now.words, tolerance);
  if (words === undefined) return undefined;
  const merged = indent + words + blanks;
  // It says what was asked for, or that is taken as it stands.
  return comparable(merged, tolerance) === comparable(plain, tolerance) ? merged : plain;
}

function partsOf(line: string): { indent: string; words: string; blanks: string } {
  const indent = indentOf(line);
  const words = line.slice(indent.length).replace(/[ \t]+$/, "");
  return { indent, words, blanks: line.slice(indent.length + words.length) };
}

/** Words, blanks and single signs; letters of several bytes stay whole, as their bytes are all of one kind. */
const TOKENS = new RegExp(`${PRINT.source}|(?:(?!${PRINT.source})[A-Za-z0-9_\\x80-\\xff])+|[ \\t]+|\\.{3}|[^]`, "g");

/** What is merged word by word; a longer line is left to who can name it exactly. */
const MAX_LINE = 20_000;

function mergeWords(file: string, old: string, fresh: string, tolerance: MatchTolerance): string | undefined {
  if (file === old) return fresh;
  if (file.length > MAX_LINE) return undefined;
  const [inFile, inOld] = [mapped(file, tolerance), mapped(old, tolerance)];
  if (inFile.text !== inOld.text) return fresh;
  const olds = tokensOf(old);
  const freshes = tokensOf(fresh);
  const texts = (tokens: readonly Token[]): string[] => tokens.map(({ text }) => text);
  const shared = common(texts(olds), texts(freshes));
  if (!shared) return undefined;
  const kept = new Map(shared.map(([one, other]) => [other, one] as const));
  const pieces: string[] = [];
  for (let at = 0; at < freshes.length;) {
    const first = kept.get(at);
    let count = 1;
    if (first !== undefined) while (kept.get(at + count) === first + count) count++;
    const whole = first === undefined ? undefined : spanOf(olds[first], olds[first + count - 1]);
    pieces.push(whole === undefined ? texts(freshes.slice(at, at + count)).join("") : file.slice(whole[0], whole[1]));
    at += count;
  }
  return pieces.join("");

  /** Where in the file what stands in the old text is. */
  function spanOf(first: Token | undefined, last: Token | undefined): [number, number] | undefined {
    if (!first || !last) return undefined;
    const start = inOld.from.findIndex((place) => place >= first.from);
    const end = inOld.to.findLastIndex((place) => place <= last.to);
    const [from, to] = [inFile.from[start], inFile.to[end]];
    return start < 0 || end < start || from === undefined || to === undefined ? undefined : [from, to];
  }
}

interface Token {
  readonly text: string;
  readonly from: number;
  readonly to: number;
}

function tokensOf(text: string): Token[] {
  return [...text.matchAll(TOKENS)].map(({ 0: token, index }) => ({
    text: token,
    from: index,
    to: index + token.length,
  }));
}
