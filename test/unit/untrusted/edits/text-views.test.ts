import assert from "node:assert/strict";
import { it } from "node:test";
import { FileLines, TextView } from "../../../../src/untrusted/edits/text-views.js";
import { MATCH_MODES } from "../../../../src/untrusted/edits/match-modes.js";
import { fc } from "../../../helpers/fast-check.js";

/** File lines without an index, so that every line is a candidate. */
class LinesWithoutCandidates extends FileLines {
  override findCandidateRows(): undefined {
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
  const toLatin1 = (lines: readonly string[]): string => Buffer.from(lines.join("\n")).toString("latin1");
  fc.assert(
    fc.property(
      fc.array(line, { maxLength: 12 }),
      fc.array(line, { minLength: 1, maxLength: 3 }),
      (file, searchedLines) => {
        const text = toLatin1(file);
        for (const mode of MATCH_MODES)
          assert.deepEqual(
            new TextView(new FileLines(text), mode).findMatches(toLatin1(searchedLines).split("\n")),
            new TextView(new LinesWithoutCandidates(text), mode).findMatches(toLatin1(searchedLines).split("\n")),
          );
      },
    ),
    { numRuns: 500 },
  );
});

it("TextView ignores a zero-width character in a word only if it ignores typography", () => {
  const text = Buffer.from("first\nso\u200bme(thing)\n").toString("latin1");
  const countMatches = (typography: boolean): number =>
    new TextView(new FileLines(text), { typography, blanks: false, indentation: false }).findMatches(["some(thing)"])
      .length;
  assert.deepEqual([countMatches(true), countMatches(false)], [1, 0]);
});
