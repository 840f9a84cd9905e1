import assert from "node:assert/strict";
import { it } from "node:test";
import {
  groupRows,
  compareTexts,
  compareInSteps,
  countChanges,
  pairRows,
  markWords,
  type DiffRow,
  type TextRange,
} from "../../../adapters/web-console/app/diff-lines.js";

function rowsOf(before: string, after: string): DiffRow[] {
  const work = compareInSteps(before, after);
  let step = work.next();
  while (!step.done) step = work.next();
  return step.value;
}

const inShort = (rows: readonly DiffRow[]) =>
  rows.map(({ kind, text }) => `${{ same: " ", removed: "-", added: "+" }[kind]}${text}`);

/** The text from which the rows were made. */
function textOf(rows: readonly DiffRow[], without: DiffRow["kind"]): string {
  return rows
    .filter(({ kind }) => kind !== without)
    .map(({ text, lacksLineBreak }) => (lacksLineBreak ? text : `${text}\n`))
    .join("");
}

/** A generator of the same numbers in each run. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

it("compareInSteps returns removed and added lines with the line numbers of both texts", () => {
  const rows = rowsOf("a\nb\nc\nd\n", "a\nB\nc\nd\ne\n");
  assert.deepEqual(inShort(rows), [" a", "-b", "+B", " c", " d", "+e"]);
  assert.deepEqual(
    rows.map((row) => [row.old, row.new]),
    [
      [1, 1],
      [2, 0],
      [0, 2],
      [3, 3],
      [4, 4],
      [0, 5],
    ],
  );
  assert.deepEqual(countChanges(rows), { added: 2, removed: 1 });
  assert.deepEqual(inShort(rowsOf("", "one\n")), ["+one"]);
  assert.deepEqual(inShort(rowsOf("one\n", "")), ["-one"]);
  assert.deepEqual(rowsOf("", ""), []);
});

it("compareInSteps reports a missing final line break and a carriage return as changes", () => {
  assert.deepEqual(
    rowsOf("a\n", "a").map(({ kind, lacksLineBreak: open }) => [kind, open]),
    [
      ["removed", false],
      ["added", true],
    ],
  );
  assert.deepEqual(inShort(rowsOf("a\r\n", "a\n")), ["-a\r", "+a"]);
});

it("compareInSteps reproduces both texts from its rows, and keeps lines that are all equal", () => {
  const below = numbers(7);
  for (let round = 0; round < 400; round++) {
    const text = (kinds: number) =>
      Array.from({ length: below(24) }, () => String.fromCharCode(97 + below(kinds))).join("\n") +
      (below(2) ? "\n" : "");
    const kinds = 1 + below(12);
    const [before, after] = [text(kinds), text(kinds)];
    const rows = rowsOf(before, after);
    assert.equal(textOf(rows, "added"), before);
    assert.equal(textOf(rows, "removed"), after);
    const unchangedRows = rows.filter(({ kind }) => kind === "same").length;
    // Except for the last lines, which can lack a line break.
    if (kinds === 1) assert.ok(unchangedRows >= Math.min(before.split("\n").length, after.split("\n").length) - 2);
  }
});

it("compare finds a small change and a rewrite of 10,000 lines, and compareInSteps needs over 10 steps", async () => {
  const lines = Array.from({ length: 10_000 }, (_, at) => `line ${at % 97 === 0 ? "" : at}\n`);
  const changed = [...lines];
  changed.splice(5_000, 2, "other\n");
  changed.splice(100, 0, "more\n");
  assert.deepEqual(countChanges(await compareTexts(lines.join(""), changed.join(""))), { added: 2, removed: 2 });

  const fresh = Array.from({ length: 10_000 }, (_, at) => `fresh ${at}\n`).join("");
  assert.deepEqual(countChanges(await compareTexts(lines.join(""), fresh)), { added: 10_000, removed: 10_000 });

  const [alike, differentText] = ["a\nb\nb\n".repeat(4_000), "b\na\n".repeat(5_000)];
  const work = compareInSteps(alike, differentText);
  let steps = 0;
  let step = work.next();
  for (; !step.done; steps++) step = work.next();
  assert.ok(steps > 10, "the page can do other work between the steps");
  assert.equal(textOf(step.value, "added"), alike);
  assert.equal(textOf(step.value, "removed"), differentText);
});

it("compare rejects with the reason of an aborted signal", async () => {
  const gone = AbortSignal.abort(new Error("gone"));
  await assert.rejects(compareTexts("a\n", "b\n", gone), /gone/);
});

it("wordMarks marks differing words, and nothing if most of a line differs or the line is long", () => {
  const marked = (text: string, spans: readonly TextRange[] = []) =>
    spans.map(([start, end]) => text.slice(start, end));
  const [before, after] = ["const total = price * count;", "const total = price * (count + 1);"];
  const marks = markWords(before, after);
  assert.deepEqual(marked(before, marks?.before), []);
  assert.deepEqual(marked(after, marks?.after), ["(", " + 1)"]);
  const renamed = markWords("let größe = 1", "let länge = 1");
  assert.deepEqual(marked("let größe = 1", renamed?.before), ["größe"]);
  assert.equal(markWords("return a;", "throw new Error(message)"), undefined);
  assert.equal(markWords("a ".repeat(500), "a ".repeat(501)), undefined);
});

it("blocksOf folds lines far from a change, and shows the lines next to it", () => {
  const lines = Array.from({ length: 30 }, (_, at) => `${at + 1}`);
  const rows = rowsOf(`${lines.join("\n")}\n`, `${lines.toSpliced(14, 1, "new").join("\n")}\n`);
  assert.deepEqual(
    groupRows(rows).map(({ kind, rows }) => [kind, rows.length]),
    [
      ["folded", 11],
      ["shown", 8],
      ["folded", 12],
    ],
  );
  // Two lines take less space than the line that reports them as hidden.
  assert.deepEqual(
    groupRows(rowsOf("1\n2\n3\n4\n5\nx\n", "1\n2\n3\n4\n5\ny\n")).map(({ kind, rows }) => [kind, rows.length]),
    [["shown", 7]],
  );
});

it("sideBySide pairs a removed line with the line that replaces it", () => {
  const pairs = pairRows(rowsOf("a\nb\nc\n", "a\nB\nC\nD\n"));
  assert.deepEqual(
    pairs.map(([before, right]) => [before?.text, right?.text]),
    [
      ["a", "a"],
      ["b", "B"],
      ["c", "C"],
      [undefined, "D"],
    ],
  );
});
