import assert from "node:assert/strict";
import { it } from "node:test";
import { compareInSteps, compareTexts } from "../../../adapters/web-console/app/diff-lines.js";
import { countChanges, type DiffRow } from "../../../adapters/web-console/app/diff-rows.js";

function compareRows(oldText: string, newText: string): DiffRow[] {
  const comparison = compareInSteps(oldText, newText);
  let step = comparison.next();
  while (!step.done) step = comparison.next();
  return step.value;
}

const formatRows = (rows: readonly DiffRow[]) =>
  rows.map(({ kind, text }) => `${{ same: " ", removed: "-", added: "+" }[kind]}${text}`);

/** Returns the old text if `omittedKind` is `added`, or the new text if `omittedKind` is `removed`. */
function joinRows(rows: readonly DiffRow[], omittedKind: DiffRow["kind"]): string {
  return rows
    .filter(({ kind }) => kind !== omittedKind)
    .map(({ text, lacksLineBreak }) => (lacksLineBreak ? text : `${text}\n`))
    .join("");
}

/** Returns a random number function with the same sequence in each run. */
function createRandom(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

it("compareInSteps returns removed and added lines with the line numbers of both texts", () => {
  const rows = compareRows("a\nb\nc\nd\n", "a\nB\nc\nd\ne\n");
  assert.deepEqual(formatRows(rows), [" a", "-b", "+B", " c", " d", "+e"]);
  assert.deepEqual(
    rows.map((row) => [row.oldLineNumber, row.newLineNumber]),
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
  assert.deepEqual(formatRows(compareRows("", "one\n")), ["+one"]);
  assert.deepEqual(formatRows(compareRows("one\n", "")), ["-one"]);
  assert.deepEqual(compareRows("", ""), []);
});

it("compareInSteps reports a missing final line break and a carriage return as changes", () => {
  assert.deepEqual(
    compareRows("a\n", "a").map(({ kind, lacksLineBreak }) => [kind, lacksLineBreak]),
    [
      ["removed", false],
      ["added", true],
    ],
  );
  assert.deepEqual(formatRows(compareRows("a\r\n", "a\n")), ["-a\r", "+a"]);
});

it("compareInSteps reproduces both texts from its rows, and keeps lines that are all equal", () => {
  const random = createRandom(7);
  for (let round = 0; round < 400; round++) {
    const createText = (lineKindCount: number) =>
      Array.from({ length: random(24) }, () => String.fromCharCode(97 + random(lineKindCount))).join("\n") +
      (random(2) ? "\n" : "");
    const lineKindCount = 1 + random(12);
    const [oldText, newText] = [createText(lineKindCount), createText(lineKindCount)];
    const rows = compareRows(oldText, newText);
    assert.equal(joinRows(rows, "added"), oldText);
    assert.equal(joinRows(rows, "removed"), newText);
    const unchangedRows = rows.filter(({ kind }) => kind === "same").length;
    // The last line of each text can differ, because it can lack a line break.
    if (lineKindCount === 1)
      assert.ok(unchangedRows >= Math.min(oldText.split("\n").length, newText.split("\n").length) - 2);
  }
});

it("compareTexts finds a small change and a rewrite of 10,000 lines, and compareInSteps needs over 10 steps", async () => {
  const lines = Array.from({ length: 10_000 }, (_, index) => `line ${index % 97 === 0 ? "" : index}\n`);
  const changedLines = [...lines];
  changedLines.splice(5_000, 2, "other\n");
  changedLines.splice(100, 0, "more\n");
  assert.deepEqual(countChanges(await compareTexts(lines.join(""), changedLines.join(""))), { added: 2, removed: 2 });

  const newText = Array.from({ length: 10_000 }, (_, index) => `fresh ${index}\n`).join("");
  assert.deepEqual(countChanges(await compareTexts(lines.join(""), newText)), { added: 10_000, removed: 10_000 });

  const [firstText, secondText] = ["a\nb\nb\n".repeat(4_000), "b\na\n".repeat(5_000)];
  const comparison = compareInSteps(firstText, secondText);
  let stepCount = 0;
  let step = comparison.next();
  for (; !step.done; stepCount++) step = comparison.next();
  assert.ok(stepCount > 10, "the page can do other work between the steps");
  assert.equal(joinRows(step.value, "added"), firstText);
  assert.equal(joinRows(step.value, "removed"), secondText);
});

it("compareTexts rejects with the reason of an aborted signal", async () => {
  const abortedSignal = AbortSignal.abort(new Error("gone"));
  await assert.rejects(compareTexts("a\n", "b\n", abortedSignal), /gone/);
});
