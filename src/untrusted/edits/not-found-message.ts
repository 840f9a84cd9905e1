import { escapeInvisible } from "../../base/printable.js";
import { toLf } from "../../files/line-ends.js";

/**
 * Explains why a text may not have matched, with the most similar line of the file (Latin-1). `textLabel`: the name of
 * the text in the message.
 */
export function formatNotFoundMessage(
  latin: string,
  requestedText: string,
  name: string,
  textLabel = "old_string",
): string {
  const prefix = `${name}: ${textLabel} was not found`;
  const nearestLine = findNearestLine(splitLines(Buffer.from(latin, "latin1").toString()), splitLines(requestedText));
  if (!nearestLine) return `${prefix}, and no similar text. Read the file and copy the text exactly.`;
  const { line, text, requestedLine, equalLinesBefore } = nearestLine;
  const equalLinesNote =
    equalLinesBefore > 0
      ? ` The ${equalLinesBefore > 1 ? `${equalLinesBefore} lines` : "line"} before it ${equalLinesBefore > 1 ? "match" : "matches"}.`
      : "";
  const [textQuote, requestedQuote, looksEqual] = quoteDifference(text ?? "", requestedLine);
  const nearestNote =
    text === undefined ? `The file ends after line ${line - 1}` : `Line ${line} is most similar: ${textQuote}`;
  const advice = looksEqual
    ? "Both look the same, so the characters that differ are shown as escapes. Write those of the file as JSON escapes in the arguments."
    : "Copy the text exactly from the file, or read the file again.";
  return `${prefix}. ${nearestNote}, where ${textLabel} has ${requestedQuote}.${equalLinesNote} ${advice}`;
}

/** Splits a text into lines. A final line end does not start another line. */
function splitLines(text: string): string[] {
  const lines = toLf(text).split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/**
 * Quotes two lines, from shortly before their first difference, with escapes for invisible characters. If the lines look
 * equal (the third value), the characters that differ are escaped too.
 */
function quoteDifference(text: string, requestedLine: string): [string, string, boolean] {
  const shorterLength = Math.min(text.length, requestedLine.length);
  let start = 0;
  while (start < shorterLength && text[start] === requestedLine[start]) start++;
  let endLength = 0;
  while (endLength < shorterLength - start && text.at(-1 - endLength) === requestedLine.at(-1 - endLength)) endLength++;
  const looksEqual =
    toVisibleForm(text) === toVisibleForm(requestedLine) && collapseBlanks(text) !== collapseBlanks(requestedLine);
  const quoteStart = start > MAX_QUOTED_CHARACTERS / 2 ? start - MAX_QUOTED_CHARACTERS / 4 : 0;
  const quote = (line: string): string => {
    const end = Math.max(start, line.length - endLength);
    const isCut = line.length - quoteStart > MAX_QUOTED_CHARACTERS;
    const shownLine = isCut ? line.slice(0, quoteStart + MAX_QUOTED_CHARACTERS - 1) : line;
    const difference = escapeText(shownLine.slice(start, end));
    const quotedText =
      escapeText(shownLine.slice(quoteStart, start)) +
      (looksEqual ? difference.replace(/[^\x20-\x7e]/g, toCodeUnitEscape) : difference) +
      escapeText(shownLine.slice(end));
    return `"${quoteStart > 0 ? "…" : ""}${quotedText}${isCut ? "…" : ""}"`;
  };
  return [quote(text), quote(requestedLine), looksEqual];
}

function escapeText(text: string): string {
  return escapeInvisible(JSON.stringify(text).slice(1, -1)).replace(/(?! )\p{Zs}/gu, toCodeUnitEscape);
}

function toCodeUnitEscape(codeUnit: string): string {
  return `\\u${codeUnit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** The first different line within the most similar lines of the file. */
interface NearestLine {
  /** Line number, from 1. */
  line: number;
  /** The file's line; undefined after the end of the file. */
  text: string | undefined;
  requestedLine: string;
  /** Number of equal lines directly before `line`. */
  equalLinesBefore: number;
}

/** Maximum lines of the requested text that are compared. */
const MAX_REQUESTED_LINES = 40;
/** Maximum lines of the file that are compared. */
const MAX_FILE_LINES = 100_000;
/** Maximum lines of the file that are checked for similarity, if no line is equal. */
const MAX_SIMILARITY_LINES = 20_000;
/** Minimum similarity of a line without equal lines, as the share of common character pairs, from 0 to 1. */
const MIN_SIMILARITY = 0.5;
const MAX_QUOTED_CHARACTERS = 200;
/** Maximum characters of a line that are compared for equality, and for similarity. */
const MAX_EQUALITY_CHARACTERS = 2_000;
const MAX_SIMILARITY_CHARACTERS = 300;

function findNearestLine(file: readonly string[], requestedLines: readonly string[]): NearestLine | undefined {
  const start = requestedLines.findIndex((line) => line.trim() !== "");
  if (start < 0) return undefined;
  const comparedLines = requestedLines.slice(start);
  const pattern = comparedLines.slice(0, MAX_REQUESTED_LINES).map(toVisibleForm);
  const lines = file.slice(0, MAX_FILE_LINES).map(toVisibleForm);
  const createResult = (at: number, offset: number): NearestLine => ({
    line: at + offset + 1,
    text: file[at + offset],
    requestedLine: comparedLines[offset] ?? "",
    equalLinesBefore: offset,
  });
  let bestMatch = { score: 0, at: -1 };
  for (let row = 0; row < lines.length; row++) {
    // Score: the length of equal lines, ignoring white space, because a long line is more specific than a brace.
    let score = 0;
    // Equal lines at the start count twice, because the first different line is to be found.
    let isEqualSoFar = true;
    for (const [i, line] of pattern.entries()) {
      isEqualSoFar &&= lines[row + i] === line;
      if (line !== "" && lines[row + i] === line) score += line.length * (isEqualSoFar ? 2 : 1);
    }
    if (score > bestMatch.score) bestMatch = { score, at: row };
  }
  if (bestMatch.at >= 0) {
    // A visible difference explains more than an invisible one, and that more than different white space.
    const offsets = [toVisibleForm, collapseBlanks, (line: string) => line].map((toComparedForm) =>
      comparedLines.findIndex((line, i) => {
        const fileLine = file[bestMatch.at + i];
        return fileLine === undefined || toComparedForm(line) !== toComparedForm(fileLine);
      }),
    );
    return createResult(bestMatch.at, offsets.find((offset) => offset >= 0) ?? 0);
  }
  const pairs = listCharacterPairs(pattern[0] ?? "");
  if (pairs.size === 0) return undefined;
  for (const [row, line] of lines.slice(0, MAX_SIMILARITY_LINES).entries()) {
    const linePairs = listCharacterPairs(line);
    let commonCount = 0;
    for (const pair of pairs) if (linePairs.has(pair)) commonCount++;
    const score = (2 * commonCount) / (pairs.size + linePairs.size);
    if (score > bestMatch.score) bestMatch = { score, at: row };
  }
  return bestMatch.score >= MIN_SIMILARITY ? createResult(bestMatch.at, 0) : undefined;
}

function collapseBlanks(line: string): string {
  return line.slice(0, MAX_EQUALITY_CHARACTERS).trim().replace(/\s+/g, " ");
}

/** The same text for lines that look equal: differences in blanks, invisible characters and normalization are removed. */
function toVisibleForm(line: string): string {
  const text = line.slice(0, MAX_EQUALITY_CHARACTERS);
  // Most lines are ASCII.
  return collapseBlanks(
    /^[\t\x20-\x7e]*$/.test(text) ? text : text.normalize("NFKC").replace(/[\p{Cf}\p{Variation_Selector}]/gu, ""),
  );
}

function listCharacterPairs(line: string): Set<string> {
  const pairs = new Set<string>();
  for (let i = 0; i + 1 < line.length && i < MAX_SIMILARITY_CHARACTERS; i++) pairs.add(line.slice(i, i + 2));
  return pairs;
}
