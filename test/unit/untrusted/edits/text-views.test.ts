import assert from "node:assert/strict";
import { it } from "node:test";
import { FileLines, TextView } from "../../../../src/untrusted/edits/text-views.js";
import { MATCH_MODES } from "../../../../src/untrusted/edits/match-modes.js";
import { fc } from "../../../helpers/properties.js";

/** A file whose words give no hint where to search. */
class Unhelpful extends FileLines {
  override candidateRows(): undefined {
    return undefined;
  }
}

it("TextView finds the same positions with and without its candidate rows", () => {
  const line = fc.constantFrom(
    "return value;",
    "  return  value;",
    "\treturn value; ",
    "value",
    "",
    "a “b” other",
    'a "b" other',
  );
  const latin = (lines: readonly string[]): string => Buffer.from(lines.join("\n")).toString("latin1");
  fc.assert(
    fc.property(
      fc.array(line, { maxLength: 12 }),
      fc.array(line, { minLength: 1, maxLength: 3 }),
      (file, searchedLines) => {
        const text = latin(file);
        for (const way of MATCH_MODES)
          assert.deepEqual(
            new TextView(new FileLines(text), way).places(latin(searchedLines).split("\n")),
            new TextView(new Unhelpful(text), way).places(latin(searchedLines).split("\n")),
          );
      },
    ),
    { numRuns: 500 },
  );
});

it("TextView ignores a zero-width character in a word only if it ignores typography", () => {
  const text = Buffer.from("first\nso\u200bme(thing)\n").toString("latin1");
  const places = (typography: boolean): number =>
    new TextView(new FileLines(text), { typography, blanks: false, indentation: false }).places(["some(thing)"]).length;
  assert.deepEqual([places(true), places(false)], [1, 0]);
});
