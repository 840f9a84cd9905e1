import { toLf } from "../../files/line-ends.js";

/**
 * Explains why a text may not have matched, from the most similar lines of the file (Latin-1). `what`: the source
 * of the text.
 */
export function formatNotFoundMessage(latin: string, requestedText: string, name: string, what = "old_string"): string {
  const prefix = `${name}: ${what} was not found`;
  const nearestLine = findNearestLine(splitLines(Buffer.from(latin, "latin1").toString()), splitLines(requestedText));
  if (!nearestLine) return `${prefix}, and no similar text. Read the file and copy the text exactly.`;
  const { line, text, requestedLine, equalLinesBefore } = nearestLine;
  const equalLinesNote =
    equalLinesBefore > 0
      ? ` The ${equalLinesBefore > 1 ? `${equalLinesBefore} lines` : "line"} before it ${equalLinesBefore > 1 ? "match" : "matches"}.`
      : "";
  const nearestNote =
    text === undefined ? `The file ends after line ${line - 1}` : `Line ${line} is most similar: ${quoteLine(text)}`;
  return `${prefix}. ${nearestNote}, where ${what} has ${quoteLine(requestedLine)}.${equalLinesNote} Copy the text exactly from the file, or read the file again.`;
}

/** A final line end does not start another line. */
function splitLines(text: string): string[] {
  const lines = toLf(text).split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function quoteLine(line: string): string {
  return JSON.stringify(line.length > 200 ? `${line.slice(0, 199)}…` : line);
}

/** The first line that differs in the most similar lines. */
interface NearestLine {
  /** Line number, from 1. */
  line: number;
  /** The file's line; undefined after the end of the file. */
  text: string | undefined;
  /** The requested line. */
  requestedLine: string;
  /** Number of equal lines directly before it. */
  equalLinesBefore: number;
}

/** Maximum lines of the requested text that are compared. */
const MAX_REQUESTED_LINES = 40;
/** Maximum lines of the file that are compared. */
const MAX_LINES = 100_000;
/** Maximum lines of the file that are checked for similarity, if no line is equal. */
const MAX_SIMILARITY_LINES = 20_000;

function findNearestLine(file: readonly string[], requestedLines: readonly string[]): NearestLine | undefined {
  const start = requestedLines.findIndex((line) => line.trim() !== "");
  if (start < 0) return undefined;
  const comparedLines = requestedLines.slice(start);
  const pattern = comparedLines.slice(0, MAX_REQUESTED_LINES).map(squeezeBlanks);
  const lines = file.slice(0, MAX_LINES).map(squeezeBlanks);
  const createResult = (at: number, offset: number): NearestLine => ({
    line: at + offset + 1,
    text: file[at + offset],
    requestedLine: comparedLines[offset] ?? "",
    equalLinesBefore: offset,
  });
  let best = { score: 0, at: -1 };
  for (let row = 0; row < lines.length; row++) {
    // Score: the length of equal lines, ignoring white space, because a long line is more specific than a brace.
    let score = 0;
    // Equal lines at the start count twice, because the first different line is to be found.
    let isEqualSoFar = true;
    for (const [i, line] of pattern.entries()) {
      isEqualSoFar &&= lines[row + i] === line;
      if (line !== "" && lines[row + i] === line) score += line.length * (isEqualSoFar ? 2 : 1);
    }
    if (score > best.score) best = { score, at: row };
  }
  if (best.at >= 0) {
    const findDifference = (isSame: (left: string, right: string | undefined) => boolean): number =>
      comparedLines.findIndex((line, i) => !isSame(line, file[best.at + i]));
    const offset = findDifference((left, right) => right !== undefined && squeezeBlanks(left) === squeezeBlanks(right));
    // If only white space differs, the first such line is the result.
    return createResult(
      best.at,
      offset >= 0
        ? offset
        : Math.max(
            0,
            findDifference((left, right) => left === right),
          ),
    );
  }
  const pairs = characterPairs(pattern[0] ?? "");
  if (pairs.size === 0) return undefined;
  for (const [row, line] of lines.slice(0, MAX_SIMILARITY_LINES).entries()) {
    const linePairs = characterPairs(line);
    let commonCount = 0;
    for (const pair of pairs) if (linePairs.has(pair)) commonCount++;
    const score = (2 * commonCount) / (pairs.size + linePairs.size);
    if (score > best.score) best = { score, at: row };
  }
  return best.score >= 0.5 ? createResult(best.at, 0) : undefined;
}

function squeezeBlanks(line: string): string {
  return line.slice(0, 2_000).trim().replace(/\s+/g, " ");
}

function characterPairs(line: string): Set<string> {
  const pairs = new Set<string>();
  for (let i = 0; i + 1 < line.length && i < 300; i++) pairs.add(line.slice(i, i + 2));
  return pairs;
}
