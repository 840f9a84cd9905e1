import type { ApiDiff } from "gantry/client";
import { escapeInvisible, escapeLine } from "./text.js";
import { span, wrap, type Line } from "./spans.js";

const CONTEXT_LINES = 2;
/** Maximum size of the comparison table, in pairs of lines. Larger texts are shown as removed and added. */
const MAX_LINE_PAIRS = 4_000_000;

interface Step {
  readonly sign: " " | "+" | "-";
  readonly text: string;
}

/** Rows that show the changes in a file, at most `most` of them. */
export function diffRows({ path, old_text: before, new_text: after }: ApiDiff, columns: number, most: number): Line[] {
  const steps = stepsOf(before === null ? [] : linesOf(before), linesOf(after));
  const added = steps.filter(({ sign }) => sign === "+").length;
  const removed = steps.filter(({ sign }) => sign === "-").length;
  const head: Line = [
    span(before === null ? "new file " : "", "dim"),
    span(escapeLine(path), "bold"),
    span(` +${added}`, "good"),
    span(` -${removed}`, "bad"),
  ];
  const rows = wrap(head, columns);
  const near = new Set<number>();
  steps.forEach(({ sign }, i) => {
    if (sign !== " ") for (let at = i - CONTEXT_LINES; at <= i + CONTEXT_LINES; at += 1) near.add(at);
  });
  let folded = false;
  for (const [i, { sign, text }] of steps.entries()) {
    if (!near.has(i)) {
      if (!folded) rows.push([span("  ⋯", "dim")]);
      folded = true;
      continue;
    }
    folded = false;
    const look = sign === "+" ? "good" : sign === "-" ? "bad" : "dim";
    rows.push(...wrap([span(escapeInvisible(text).replaceAll("\n", " "), look)], columns, [span(`${sign} `, look)]));
  }
  if (rows.length <= most) return rows;
  return [...rows.slice(0, Math.max(1, most - 1)), [span(`  … ${rows.length - most + 1} more lines`, "dim")]];
}

function linesOf(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** Steps from one text to the other, by their longest common subsequence of lines. */
function stepsOf(before: readonly string[], after: readonly string[]): Step[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (
    end < before.length - start &&
    end < after.length - start &&
    before[before.length - 1 - end] === after[after.length - 1 - end]
  )
    end += 1;
  const same = (lines: readonly string[]): Step[] => lines.map((text) => ({ sign: " ", text }));
  const middle = between(before.slice(start, before.length - end), after.slice(start, after.length - end));
  return [...same(before.slice(0, start)), ...middle, ...same(before.slice(before.length - end))];
}

function between(before: readonly string[], after: readonly string[]): Step[] {
  const steps: Step[] = [];
  const minus = (text: string) => steps.push({ sign: "-", text });
  const plus = (text: string) => steps.push({ sign: "+", text });
  if (before.length * after.length > MAX_LINE_PAIRS || before.length === 0 || after.length === 0) {
    before.forEach(minus);
    after.forEach(plus);
    return steps;
  }
  const columns = after.length + 1;
  const common = new Uint32Array((before.length + 1) * columns);
  const at = (i: number, j: number) => common[i * columns + j] ?? 0;
  for (let i = before.length - 1; i >= 0; i -= 1)
    for (let j = after.length - 1; j >= 0; j -= 1)
      common[i * columns + j] = before[i] === after[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  let i = 0;
  let j = 0;
  while (i < before.length || j < after.length) {
    const [old = "", fresh = ""] = [before[i], after[j]];
    if (i < before.length && j < after.length && old === fresh) {
      steps.push({ sign: " ", text: old });
      i += 1;
      j += 1;
    } else if (i < before.length && (j === after.length || at(i + 1, j) >= at(i, j + 1))) {
      minus(old);
      i += 1;
    } else {
      plus(fresh);
      j += 1;
    }
  }
  return steps;
}
