/** Files to search by an expression that compiles. */
export interface SearchJob {
  pattern: string;
  flags: string;
  /** Lines shown before and after a match. */
  context: number;
  /** Matching lines kept of one file; all are counted. */
  keep: number;
  files: readonly Uint8Array[];
}

export interface FoundLine {
  /** From 1. */
  line: number;
  text: string;
  match: boolean;
}

/** What was found in one file of a batch. */
export interface FileMatches {
  /** Matching lines. */
  count: number;
  lines: FoundLine[];
}

const WIDTH = 300;

/** Matching lines of each file. */
export function searchLines({ pattern, flags, context, keep, files }: SearchJob): FileMatches[] {
  const expression = new RegExp(pattern, flags);
  return files.map((bytes) => searchFile(expression, context, keep, new TextDecoder().decode(bytes)));
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
        for (const one of before) lines.push(one);
        lines.push({ line: number, text: show(line, hit.index), match: true });
        pending = context;
      }
      before = [];
    } else if (pending > 0) {
      lines.push({ line: number, text: show(line, 0), match: false });
      pending--;
    } else if (context > 0) {
      before.push({ line: number, text: show(line, 0), match: false });
      if (before.length > context) before.shift();
    }
  }
  return { count, lines };
}

/** The part of a long line around a match. */
function show(line: string, at: number): string {
  if (line.length <= WIDTH) return line;
  const start = Math.max(0, Math.min(at - 100, line.length - WIDTH));
  return (start > 0 ? "…" : "") + line.slice(start, start + WIDTH) + (start + WIDTH < line.length ? "…" : "");
}
