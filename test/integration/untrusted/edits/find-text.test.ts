import assert from "node:assert/strict";
import { it } from "node:test";
import { editText } from "../../../../src/untrusted/edits/apply-edit.js";
import { findOffsets, replaceAt } from "../../../../src/untrusted/edits/find-text.js";
import { fc } from "../../../helpers/fast-check.js";

it("findOffsets() and replaceAt() give the same result as split and join", () => {
  const createLetters = (maxLength: number) => fc.string({ unit: fc.constantFrom("a", "b"), maxLength });
  fc.assert(
    fc.property(createLetters(60), createLetters(5), createLetters(3), (text, part, replacement) => {
      if (part === "") return;
      const offsets = findOffsets(text, part);
      assert.equal(offsets.length, text.split(part).length - 1);
      const allOffsets = [...text].flatMap((_, offset) => (text.startsWith(part, offset) ? [offset] : []));
      assert.deepEqual(findOffsets(text, part, true), allOffsets);
      assert.equal(replaceAt(text, offsets, part.length, replacement), text.split(part).join(replacement));
    }),
    { numRuns: 1_000 },
  );
});

it("editText() rejects a long text that almost repeats in the file, and a result above maxBytes", () => {
  const runEdit = (old_string: string, new_string: string) =>
    editText({
      content: Buffer.alloc(5_000_000, 97),
      edits: [{ old_string, new_string, replace_all: true }],
      name: "a.txt",
      maxBytes: 10_000_000,
    });
  const longText = "a".repeat(3_000);
  assert.match(
    (runEdit(`${longText}b${longText}`, "x") as { errorMessage: string }).errorMessage,
    /old_string was not found/,
  );
  assert.match((runEdit("a", "aaa") as { errorMessage: string }).errorMessage, /larger than 10000000 bytes/);
});
