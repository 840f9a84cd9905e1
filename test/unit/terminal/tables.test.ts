import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MarkdownRenderer } from "../../../adapters/terminal/markdown.js";
import { getLineText } from "../../../adapters/terminal/spans.js";
import { textWidth } from "../../../adapters/terminal/text.js";

const TABLE = `| Name | Size 漢 | Note |
|:-----|:----:|-----:|
| \`a\` | 漢字 | 1 |
| b \\| c | 👩‍👩‍👧 | a longer note |
| only`;

function render(text: string, columns: number, renderer = new MarkdownRenderer()): string[] {
  return renderer.renderRows(text, columns).map((row) => getLineText(row).trimEnd());
}

describe("tables in the terminal", () => {
  it("have aligned columns, also with wide characters, between other lines", () => {
    assert.deepEqual(render(`before | this\n${TABLE}\nafter`, 60), [
      "before | this",
      "Name  │ Size 漢 │          Note",
      "──────┼─────────┼──────────────",
      "a     │  漢字   │             1",
      "b | c │   👩‍👩‍👧    │ a longer note",
      "only  │         │",
      "after",
    ]);
  });

  it("wrap cells to the window and separate the rows by rules", () => {
    assert.deepEqual(render(TABLE.replace("longer ", "long<br>"), 25), [
      "Name  │ Size 漢 │   Note",
      "──────┼─────────┼───────",
      "a     │  漢字   │      1",
      "──────┼─────────┼───────",
      "b | c │   👩‍👩‍👧    │ a long",
      "      │         │   note",
      "──────┼─────────┼───────",
      "only  │         │",
    ]);
    for (let columns = 2; columns < 60; columns += 1)
      for (const row of render(`${TABLE}\n| ${"long-word".repeat(40)} | 漢字漢字 | x | more |`, columns))
        assert.ok(textWidth(row) <= columns, `${columns}: ${row}`);
  });

  it("are lists in a window of 12 columns", () => {
    const text = "| Key | Value | Note |\n|-|-|-|\n| a | long value | x |\n| b | c | d |";
    const rows = ["Key: a", "Value: long", "value", "Note: x", "", "Key: b", "Value: c", "Note: d"];
    assert.deepEqual(render(text, 12), rows);
  });

  it("grow row by row, and appear with the start of their second line", () => {
    const renderer = new MarkdownRenderer();
    const text = "| a | b |\n|--|--|\n| 1 | 2 |\n| 3";
    const head = ["a │ b", "──┼──"];
    assert.deepEqual(render(text.slice(0, 10), 40, renderer), ["| a | b |"]);
    assert.deepEqual(render(text.slice(0, 12), 40, renderer), head);
    assert.deepEqual(render(text.slice(0, 24), 40, renderer), [...head, "1 │"]);
    assert.deepEqual(render(text, 40, renderer), [...head, "1 │ 2", "3 │"]);
    assert.deepEqual(render(`${text}\n\nend`, 40, renderer), [...head, "1 │ 2", "3 │", "", "end"]);
  });

  it("are text without a separator line, with another number of cells, or in code", () => {
    for (const text of ["| a | b |\n| c | d |", "| a | b |\n|---|\nend", "a\n---", "```\n| a | b |\n|---|---|\n```"])
      assert.doesNotMatch(render(text, 40).join("\n"), /┼|a +│/, text);
  });

  it("are rendered from many lines and cells", () => {
    const wideTable = `${"|a".repeat(1_900)}|\n${"|-".repeat(1_900)}|\n${`${"|b".repeat(1_900)}|\n`.repeat(100)}`;
    assert.match(render(wideTable, 80).join("\n"), /^\|a\|a/);
    const rows = render(`|a|b|\n|-|-|\n${"|1|2|\n".repeat(2_000)}`, 80);
    assert.equal(rows.length, 2_002);
  });
});
