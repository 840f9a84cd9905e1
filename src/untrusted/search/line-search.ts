/** Files to search with a regular expression that compiles. */
export interface SearchJob {
  pattern: string;
  flags: string;
  /** Number of lines shown before and after a match. */
  contextLineCount: number;
  /** Maximum matching lines kept per file. All matches are counted. */
  maxKeptLines: number;
  files: readonly Uint8Array[];
}

export interface FoundLine {
  /** Line number, from 1. */
  line: number;
  text: string;
  isMatch: boolean;
}

/** Matches in one file. */
export interface FileMatches {
  /** Number of matching lines. */
  count: number;
  lines: FoundLine[];
}

/** Maximum characters shown of a line. */
const MAX_LINE_CHARACTERS = 300;
/** Maximum characters shown before the match in a longer line. */
const MAX_PREFIX_CHARACTERS = 100;

/** Searches each file for matching lines. */
export function searchLines({ pattern, flags, contextLineCount, maxKeptLines, files }: SearchJob): FileMatches[] {
  const expression = new RegExp(pattern, flags);
  return files.map((bytes) => searchFile(expression, contextLineCount, maxKeptLines, new TextDecoder().decode(bytes)));
}

function searchFile(expression: RegExp, contextLineCount: number, maxLines: number, text: string): FileMatches {
  const lines: FoundLine[] = [];
  let count = 0;
  let lineNumber = 0;
  let pendingContextLines = 0;
  let linesBefore: FoundLine[] = [];
  // An empty text has one empty line.
  for (let start = 0; start < text.length || (lineNumber === 0 && start === 0);) {
    let end = text.indexOf("\n", start);
    if (end < 0) end = text.length;
    const line = text.slice(start, text[end - 1] === "\r" && end > start ? end - 1 : end);
    start = end + 1;
    lineNumber++;
    const match = expression.exec(line);
    if (match) {
      count++;
      if (count <= maxLines) {
        for (const contextLine of linesBefore) lines.push(contextLine);
        lines.push({ line: lineNumber, text: shortenLine(line, match.index), isMatch: true });
        pendingContextLines = contextLineCount;
      }
      linesBefore = [];
    } else if (pendingContextLines > 0) {
      lines.push({ line: lineNumber, text: shortenLine(line, 0), isMatch: false });
      pendingContextLines--;
    } else if (contextLineCount > 0) {
      linesBefore.push({ line: lineNumber, text: shortenLine(line, 0), isMatch: false });
      if (linesBefore.length > contextLineCount) linesBefore.shift();
    }
  }
  return { count, lines };
}

/** Shortens a long line to the part around a match. */
function shortenLine(line: string, matchIndex: number): string {
  if (line.length <= MAX_LINE_CHARACTERS) return line;
  const start = Math.max(0, Math.min(matchIndex - MAX_PREFIX_CHARACTERS, line.length - MAX_LINE_CHARACTERS));
  return (
    (start > 0 ? "…" : "") +
    line.slice(start, start + MAX_LINE_CHARACTERS) +
    (start + MAX_LINE_CHARACTERS < line.length ? "…" : "")
  );
}
