import { findCommonSubsequence } from "./common-lines.js";
import type { Reindent } from "./indentation.js";
import { toComparable, indentOf, mapLine, TYPOGRAPHIC_CHARACTER, type MatchTolerance } from "./text-views.js";

/** A matched line of the file, or the matched part of it. */
export interface MatchedLine {
  /** Without its line end. */
  readonly raw: string;
  /** `\r` or `""`. Undefined for the last line, whose end is not part of the match. */
  readonly lineEnd: string | undefined;
}

export interface MergeInput {
  readonly tolerance: MatchTolerance;
  /** The matched lines as they are in the file. */
  readonly fileLines: readonly MatchedLine[];
  /** The matched lines as they are in the edit's old text. */
  readonly oldLines: readonly string[];
  /** The replacement lines. */
  readonly replacement: readonly string[];
  /** Pairs of indexes of unchanged lines in `oldLines` and `replacement`. Default: a longest common subsequence. */
  readonly unchangedPairs?: readonly (readonly [number, number])[];
  readonly reindent: Reindent;
  /** Characters before the line feed of new lines: `\r` or `""`. */
  readonly lineEnd: string;
}

/**
 * Returns the new lines in the file's style. Unchanged lines stay as in the file, byte for byte; other lines are
 * indented as in the file. Undefined if the result cannot be determined.
 */
export function mergeLines({
  tolerance,
  fileLines,
  oldLines,
  replacement,
  lineEnd,
  reindent,
  ...options
}: MergeInput): string | undefined {
  const unchangedPairs = options.unchangedPairs ?? findCommonSubsequence(oldLines, replacement);
  if (!unchangedPairs) return undefined;
  const oldIndexByNew = new Map(unchangedPairs.map(([oldIndex, newIndex]) => [newIndex, oldIndex] as const));
  const oldIndexByChanged = pairChangedLines(oldIndexByNew, oldLines.length, replacement.length);
  const lines: string[] = [];
  for (const [index, line] of replacement.entries()) {
    const unchangedIndex = oldIndexByNew.get(index);
    const matchedIndex = unchangedIndex ?? oldIndexByChanged.get(index);
    const fileLine = matchedIndex === undefined ? undefined : fileLines[matchedIndex];
    const text =
      unchangedIndex !== undefined
        ? fileLine?.raw
        : fileLine && matchedIndex !== undefined
          ? mergeLine(fileLine.raw, oldLines[matchedIndex] ?? "", line, tolerance, reindent)
          : reindentLine(line, tolerance, reindent);
    if (text === undefined) return undefined;
    lines.push(index === replacement.length - 1 ? text : text + (fileLine?.lineEnd ?? lineEnd));
  }
  return lines.join("\n");
}

/**
 * Pairs the changed lines between two unchanged lines, if the old and the new text have equally many there. Maps the
 * new to the old index.
 */
function pairChangedLines(
  oldIndexByNew: ReadonlyMap<number, number>,
  oldCount: number,
  newCount: number,
): Map<number, number> {
  const pairs = new Map<number, number>();
  let oldStart = 0;
  let newStart = 0;
  for (const [newEnd, oldEnd] of [...oldIndexByNew].concat([[newCount, oldCount]])) {
    if (oldEnd - oldStart === newEnd - newStart)
      for (let step = 0; newStart + step < newEnd; step++) pairs.set(newStart + step, oldStart + step);
    oldStart = oldEnd + 1;
    newStart = newEnd + 1;
  }
  return pairs;
}

function reindentLine(line: string, { indentation }: MatchTolerance, reindent: Reindent): string | undefined {
  const indent = indentOf(line);
  if (!indentation || indent.length === line.length) return line;
  const fileIndent = reindent(indent);
  return fileIndent === undefined ? undefined : fileIndent + line.slice(indent.length);
}

/** Applies the change between the old and the new form of a line to the line of the file. */
function mergeLine(
  raw: string,
  old: string,
  replacement: string,
  tolerance: MatchTolerance,
  reindent: Reindent,
): string | undefined {
  const requestedLine = reindentLine(replacement, tolerance, reindent);
  if (requestedLine === undefined || old.trim() === "" || replacement.trim() === "") return requestedLine;
  const [fileParts, oldParts, newParts] = [splitLine(raw), splitLine(old), splitLine(replacement)];
  const indent = oldParts.indent === newParts.indent ? fileParts.indent : indentOf(requestedLine);
  const blanks = oldParts.blanks === newParts.blanks ? fileParts.blanks : newParts.blanks;
  const words = mergeWords(fileParts.words, oldParts.words, newParts.words, tolerance);
  if (words === undefined) return undefined;
  const mergedLine = indent + words + blanks;
  // Use the merged line only if it is equivalent to the requested one.
  return toComparable(mergedLine, tolerance) === toComparable(requestedLine, tolerance) ? mergedLine : requestedLine;
}

function splitLine(line: string): { indent: string; words: string; blanks: string } {
  const indent = indentOf(line);
  const words = line.slice(indent.length).replace(/[ \t]+$/, "");
  return { indent, words, blanks: line.slice(indent.length + words.length) };
}

/** Words, blanks and single characters. Multi-byte letters stay whole, because all their bytes are in one class. */
const TOKEN_PATTERN = new RegExp(
  `${TYPOGRAPHIC_CHARACTER.source}|(?:(?!${TYPOGRAPHIC_CHARACTER.source})[A-Za-z0-9_\\x80-\\xff])+|[ \\t]+|\\.{3}|[^]`,
  "g",
);

/** Maximum characters of a line that is merged by words. Longer lines require an exact match. */
const MAX_MERGED_CHARACTERS = 20_000;

function mergeWords(file: string, old: string, replacement: string, tolerance: MatchTolerance): string | undefined {
  if (file === old) return replacement;
  if (file.length > MAX_MERGED_CHARACTERS) return undefined;
  const [mappedFile, mappedOld] = [mapLine(file, tolerance), mapLine(old, tolerance)];
  if (mappedFile.text !== mappedOld.text) return replacement;
  const oldTokens = tokenize(old);
  const newTokens = tokenize(replacement);
  const textsOf = (tokens: readonly Token[]): string[] => tokens.map(({ text }) => text);
  const sharedPairs = findCommonSubsequence(textsOf(oldTokens), textsOf(newTokens));
  if (!sharedPairs) return undefined;
  const oldIndexByNew = new Map(sharedPairs.map(([oldIndex, newIndex]) => [newIndex, oldIndex] as const));
  const pieces: string[] = [];
  for (let index = 0; index < newTokens.length;) {
    const oldTokenIndex = oldIndexByNew.get(index);
    let count = 1;
    if (oldTokenIndex !== undefined) while (oldIndexByNew.get(index + count) === oldTokenIndex + count) count++;
    const fileSpan =
      oldTokenIndex === undefined
        ? undefined
        : findFileSpan(oldTokens[oldTokenIndex], oldTokens[oldTokenIndex + count - 1]);
    pieces.push(
      fileSpan === undefined
        ? textsOf(newTokens.slice(index, index + count)).join("")
        : file.slice(fileSpan[0], fileSpan[1]),
    );
    index += count;
  }
  return pieces.join("");

  /** The range of the file that corresponds to a range of the old text. */
  function findFileSpan(first: Token | undefined, last: Token | undefined): [number, number] | undefined {
    if (!first || !last) return undefined;
    const start = mappedOld.startColumns.findIndex((position) => position >= first.from);
    const end = mappedOld.endColumns.findLastIndex((position) => position <= last.to);
    const [from, to] = [mappedFile.startColumns[start], mappedFile.endColumns[end]];
    return start < 0 || end < start || from === undefined || to === undefined ? undefined : [from, to];
  }
}

interface Token {
  readonly text: string;
  readonly from: number;
  readonly to: number;
}

function tokenize(text: string): Token[] {
  return [...text.matchAll(TOKEN_PATTERN)].map(({ 0: token, index }) => ({
    text: token,
    from: index,
    to: index + token.length,
  }));
}
