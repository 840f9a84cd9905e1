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
  const nearestNote =
    text === undefined ? `The file ends after line ${line - 1}` : `Line ${line} is most similar: ${quoteLine(text)}`;
  return `${prefix}. ${nearestNote}, where ${textLabel} has ${quoteLine(requestedLine)}.${equalLinesNote} Copy the text exactly from the file, or read the file again.`;
}

/** Splits a text into lines. A final line end does not start another line. */
function splitLines(text: string): string[] {
  const lines = toLf(text).split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function quoteLine(line: string): string {
  return JSON.stringify(line.length > MAX_QUOTED_CHARACTERS ? `${line.slice(0, MAX_QUOTED_CHARACTERS - 1)}…` : line);
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
  const pattern = comparedLines.slice(0, MAX_REQUESTED_LINES).map(normalizeLine);
  const lines = file.slice(0, MAX_FILE_LINES).map(normalizeLine);
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
    const findDifference = (isSame: (left: string, right: string | undefined) => boolean): number =>
      comparedLines.findIndex((line, i) => !isSame(line, file[bestMatch.at + i]));
    const offset = findDifference((left, right) => right !== undefined && normalizeLine(left) === normalizeLine(right));
    // If only white space differs, the result is the first line with different white space.
    return createResult(
      bestMatch.at,
      offset >= 0
        ? offset
        : Math.max(
            0,
            findDifference((left, right) => left === right),
          ),
    );
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

function normalizeLine(line: string): string {
  return line.slice(0, MAX_EQUALITY_CHARACTERS).trim().replace(/\s+/g, " ");
}

function listCharacterPairs(line: string): Set<string> {
  const pairs = new Set<string>();
  for (let i = 0; i + 1 < line.length && i < MAX_SIMILARITY_CHARACTERS; i++) pairs.add(line.slice(i, i + 2));
  return pairs;
}
