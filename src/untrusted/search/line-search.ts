/** Files to search with a regular expression that compiles. */
export interface SearchJob {
  pattern: string;
  flags: string;
  /** Number of lines shown before and after a match. */
  context: number;
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

const MAX_LINE_CHARACTERS = 300;

/** Searches each file for matching lines. */
export function searchLines({ pattern, flags, context, maxKeptLines, files }: SearchJob): FileMatches[] {
  const expression = new RegExp(pattern, flags);
  return files.map((bytes) => searchFile(expression, context, maxKeptLines, new TextDecoder().decode(bytes)));
}

function searchFile(expression: RegExp, context: number, keep: number, text: string): FileMatches {
  const lines: FoundLine[] = [];
  let count = 0;
  let number = 0;
  let pending = 0;
  let before: FoundLine[] = [];
  for (let from = 0; from < text.length || (number === 0 && from === 0);) {
    let end = text.indexOf("\n", from);
    if (end < 0) end = text.length;
    const line = text.slice(from, text.charCodeAt(end - 1) === 13 && end > from ? end - 1 : end);
    from = end + 1;
    number++;
    const hit = expression.exec(line);
    if (hit) {
      count++;
      if (count <= keep) {
        for (const contextLine of before) lines.push(contextLine);
        lines.push({ line: number, text: show(line, hit.index), isMatch: true });
        pending = context;
      }
      before = [];
    } else if (pending > 0) {
      lines.push({ line: number, text: show(line, 0), isMatch: false });
      pending--;
    } else if (context > 0) {
      before.push({ line: number, text: show(line, 0), isMatch: false });
      if (before.length > context) before.shift();
    }
  }
  return { count, lines };
}

/** Shortens a long line to the part around a match. */
function show(line: string, at: number): string {
  if (line.length <= MAX_LINE_CHARACTERS) return line;
  const start = Math.max(0, Math.min(at - 100, line.length - MAX_LINE_CHARACTERS));
  return (
    (start > 0 ? "…" : "") +
    line.slice(start, start + MAX_LINE_CHARACTERS) +
    (start + MAX_LINE_CHARACTERS < line.length ? "…" : "")
  );
}
