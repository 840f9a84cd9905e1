import { commonSubsequence } from "./common-lines.js";
import type { Reindent } from "./indentation.js";
import { comparable, indentOf, mapLine, TYPOGRAPHIC, type MatchTolerance } from "./text-views.js";

/** A matched line of the file, or the matched part of it. */
export interface MatchedLine {
  /** Without its line end. */
  readonly raw: string;
  /** `\r` or `""`. Undefined for the last line, whose end is not part of the match. */
  readonly end: string | undefined;
}

/** Input of `mergeLines`. */
export interface Merge {
  readonly tolerance: MatchTolerance;
  /** The matched lines as they are in the file. */
  readonly fileLines: readonly MatchedLine[];
  /** The same lines as the edit contains them. */
  readonly old: readonly string[];
  /** The replacement lines. */
  readonly fresh: readonly string[];
  /** Pairs of indexes of unchanged lines in `old` and `fresh`. Computed if undefined. */
  readonly unchangedPairs?: readonly (readonly [number, number])[];
  readonly reindent: Reindent;
  /** Characters before the line feed in the file's line ends. */
  readonly lineEnd: string;
}

/**
 * Returns the new lines in the file's style. Lines shared with the old text stay as in the file, byte for byte; other
 * lines are indented as in the file. Undefined if the result cannot be determined.
 */
export function mergeLines({
  tolerance,
  fileLines,
  old,
  fresh,
  lineEnd,
  reindent,
  ...options
}: Merge): string | undefined {
  const unchangedPairs = options.unchangedPairs ?? commonSubsequence(old, fresh);
  if (!unchangedPairs) return undefined;
  const from = new Map(unchangedPairs.map(([oldIndex, newIndex]) => [newIndex, oldIndex] as const));
  const changed = changedPairs(from, old.length, fresh.length);
  const lines: string[] = [];
  for (const [at, line] of fresh.entries()) {
    const same = from.get(at);
    const before = same ?? changed.get(at);
    const was = before === undefined ? undefined : fileLines[before];
    const text =
      same !== undefined
        ? was?.raw
        : was && before !== undefined
          ? mergeLine(was.raw, old[before] ?? "", line, tolerance, reindent)
          : reindentLine(line, tolerance, reindent);
    if (text === undefined) return undefined;
    lines.push(at === fresh.length - 1 ? text : text + (was?.end ?? lineEnd));
  }
  return lines.join("\n");
}

/**
 * Pairs changed lines between unchanged ones, if their number is the same before and after. Maps new to old indexes.
 */
function changedPairs(oldIndexes: ReadonlyMap<number, number>, olds: number, freshes: number): Map<number, number> {
  const pairs = new Map<number, number>();
  let old = 0;
  let fresh = 0;
  for (const [freshEnd, oldEnd] of [...oldIndexes].concat([[freshes, olds]])) {
    if (oldEnd - old === freshEnd - fresh)
      for (let step = 0; fresh + step < freshEnd; step++) pairs.set(fresh + step, old + step);
    old = oldEnd + 1;
    fresh = freshEnd + 1;
  }
  return pairs;
}

function reindentLine(line: string, { indentation }: MatchTolerance, reindent: Reindent): string | undefined {
  const indent = indentOf(line);
  if (!indentation || indent.length === line.length) return line;
  const fitting = reindent(indent);
  return fitting === undefined ? undefined : fitting + line.slice(indent.length);
}

/** Applies the change between the old and the new form of a line to the line of the file. */
function mergeLine(
  raw: string,
  old: string,
  fresh: string,
  tolerance: MatchTolerance,
  reindent: Reindent,
): string | undefined {
  const plain = reindentLine(fresh, tolerance, reindent);
  if (plain === undefined || old.trim() === "" || fresh.trim() === "") return plain;
  const [file, was, now] = [splitLine(raw), splitLine(old), splitLine(fresh)];
  const indent = was.indent === now.indent ? file.indent : indentOf(plain);
  const blanks = was.blanks === now.blanks ? file.blanks : now.blanks;
  const words = mergeWords(file.words, was.words, now.words, tolerance);
  if (words === undefined) return undefined;
  const merged = indent + words + blanks;
  // Use the merged line only if it is equivalent to the requested one.
  return comparable(merged, tolerance) === comparable(plain, tolerance) ? merged : plain;
}

function splitLine(line: string): { indent: string; words: string; blanks: string } {
  const indent = indentOf(line);
  const words = line.slice(indent.length).replace(/[ \t]+$/, "");
  return { indent, words, blanks: line.slice(indent.length + words.length) };
}

/** Words, blanks and single characters. Multi-byte letters stay whole, because all their bytes are in one class. */
const TOKENS = new RegExp(
  `${TYPOGRAPHIC.source}|(?:(?!${TYPOGRAPHIC.source})[A-Za-z0-9_\\x80-\\xff])+|[ \\t]+|\\.{3}|[^]`,
  "g",
);

/** Maximum characters of a line that is merged by words. Longer lines require an exact match. */
const MAX_MERGED_CHARACTERS = 20_000;

function mergeWords(file: string, old: string, fresh: string, tolerance: MatchTolerance): string | undefined {
  if (file === old) return fresh;
  if (file.length > MAX_MERGED_CHARACTERS) return undefined;
  const [inFile, inOld] = [mapLine(file, tolerance), mapLine(old, tolerance)];
  if (inFile.text !== inOld.text) return fresh;
  const olds = tokenize(old);
  const freshes = tokenize(fresh);
  const texts = (tokens: readonly Token[]): string[] => tokens.map(({ text }) => text);
  const shared = commonSubsequence(texts(olds), texts(freshes));
  if (!shared) return undefined;
  const oldIndexes = new Map(shared.map(([oldIndex, newIndex]) => [newIndex, oldIndex] as const));
  const pieces: string[] = [];
  for (let at = 0; at < freshes.length;) {
    const first = oldIndexes.get(at);
    let count = 1;
    if (first !== undefined) while (oldIndexes.get(at + count) === first + count) count++;
    const fileSpan = first === undefined ? undefined : spanOf(olds[first], olds[first + count - 1]);
    pieces.push(
      fileSpan === undefined ? texts(freshes.slice(at, at + count)).join("") : file.slice(fileSpan[0], fileSpan[1]),
    );
    at += count;
  }
  return pieces.join("");

  /** The range of the file that corresponds to a range of the old text. */
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

function tokenize(text: string): Token[] {
  return [...text.matchAll(TOKENS)].map(({ 0: token, index }) => ({
    text: token,
    from: index,
    to: index + token.length,
  }));
}
