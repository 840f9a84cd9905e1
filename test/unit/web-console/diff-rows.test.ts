import assert from "node:assert/strict";
import { it } from "node:test";
import { compareTexts } from "../../../adapters/web-console/app/diff-lines.js";
import { groupRows, pairRows } from "../../../adapters/web-console/app/diff-rows.js";

it("groupRows folds lines far from a change, and shows the lines next to a change", async () => {
  const lines = Array.from({ length: 30 }, (_, index) => `${index + 1}`);
  const rows = await compareTexts(`${lines.join("\n")}\n`, `${lines.toSpliced(14, 1, "new").join("\n")}\n`);
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
    groupRows(await compareTexts("1\n2\n3\n4\n5\nx\n", "1\n2\n3\n4\n5\ny\n")).map(({ kind, rows }) => [
      kind,
      rows.length,
    ]),
    [["shown", 7]],
  );
});

it("pairRows pairs a removed line with the line that replaces it", async () => {
  const pairs = pairRows(await compareTexts("a\nb\nc\n", "a\nB\nC\nD\n"));
  assert.deepEqual(
    pairs.map(([left, right]) => [left?.text, right?.text]),
    [
      ["a", "a"],
      ["b", "B"],
      ["c", "C"],
      [undefined, "D"],
    ],
  );
});
