import { toLf } from "../../files/line-ends.js";

/** Why a text may not have matched, by the place in the file (as latin1) that is most like it. `what`: the text is of. */
export function notFound(latin: string, wanted: string, name: string, what = "old_string"): string {
  const start = `${name}: ${what} was not found`;
  const near = closest(linesOf(Buffer.from(latin, "latin1").toString()), linesOf(wanted));
  if (!near) return `${start}, nor anything like it. Read the file and copy the text exactly.`;
  const { line, text, asked, agreed } = near;
  const ahead =
    agreed > 0 ? ` The ${agreed > 1 ? `${agreed} lines` : "line"} before it ${agreed > 1 ? "agree" : "agrees"}.` : "";
  const there =
    text === undefined
      ? `The file ends after line ${line - 1}`
      : `Line ${line} is most like it and differs: ${quoted(text)}`;
  return `${start}. ${there}, where ${what} has ${quoted(asked)}.${ahead} Copy the text exactly as it is there, or read the file again.`;
}

/** Behind the last line end is no line. */
function linesOf(text: string): string[] {
  const lines = toLf(text).split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function quoted(line: string): string {
  return JSON.stringify(line.length > 200 ? `${line.slice(0, 199)}…` : line);
}

/** The first line that differs, at the place that fits best. */
interface Near {
  /** From 1. */
  line: number;
  /** As it is in the file; undefined behind its end. */
  text: string | undefined;
  /** As it was asked for. */
  asked: string;
  /** How many lines before it are the same. */
  agreed: number;
}

/** So many lines of what is asked for are looked for. */
const MAX_WANTED = 40;
/** So many lines of a file are looked at. */
const MAX_LINES = 100_000;
/** So many where none agrees and one that is alike is sought. */
const MAX_LIKENED = 20_000;

function closest(file: readonly string[], wanted: readonly string[]): Near | undefined {
  const start = wanted.findIndex((line) => line.trim() !== "");
  if (start < 0) return undefined;
  const asked = wanted.slice(start);
  const pattern = asked.slice(0, MAX_WANTED).map(squeezed);
  const lines = file.slice(0, MAX_LINES).map(squeezed);
  const near = (at: number, offset: number): Near => ({
    line: at + offset + 1,
    text: file[at + offset],
    asked: asked[offset] ?? "",
    agreed: offset,
  });
  let best = { score: 0, at: -1 };
  for (let at = 0; at < lines.length; at++) {
    // Whole lines that agree but for white space; a long one says more than a brace.
    let score = 0;
    // Those that it begins with count twice: the first that differs is sought.
    let begins = true;
    for (const [i, line] of pattern.entries()) {
      begins &&= lines[at + i] === line;
      if (line !== "" && lines[at + i] === line) score += line.length * (begins ? 2 : 1);
    }
    if (score > best.score) best = { score, at };
  }
  if (best.at >= 0) {
    const differs = (same: (one: string, other: string | undefined) => boolean): number =>
      asked.findIndex((line, i) => !same(line, file[best.at + i]));
    const offset = differs((one, other) => other !== undefined && squeezed(one) === squeezed(other));
    // Where white space is all that differs, that is it.
    return near(
      best.at,
      offset >= 0
        ? offset
        : Math.max(
            0,
            differs((one, other) => one === other),
          ),
    );
  }
  const pairs = pairsOf(pattern[0] ?? "");
  if (pairs.size === 0) return undefined;
  for (const [at, line] of lines.slice(0, MAX_LIKENED).entries()) {
    const other = pairsOf(line);
    let common = 0;
    for (const pair of pairs) if (other.has(pair)) common++;
    const score = (2 * common) / (pairs.size + other.size);
    if (score > best.score) best = { score, at };
  }
  return best.score >= 0.5 ? near(best.at, 0) : undefined;
}

function squeezed(line: string): string {
  return line.slice(0, 2_000).trim().replace(/\s+/g, " ");
}

function pairsOf(line: string): Set<string> {
  const pairs = new Set<string>();
  for (let i = 0; i + 1 < line.length && i < 300; i++) pairs.add(line.slice(i, i + 2));
  return pairs;
}
