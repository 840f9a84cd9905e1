import assert from "node:assert/strict";
import { it } from "node:test";
import { editText } from "../../../../src/untrusted/edits/apply-edit.js";
import { offsetsOf, replaceAt } from "../../../../src/untrusted/edits/find-text.js";
import { fc } from "../../../helpers/properties.js";

it("offsetsOf() and replaceAt() give the same result as split and join", () => {
  const letters = (maxLength: number) => fc.string({ unit: fc.constantFrom("a", "b"), maxLength });
  fc.assert(
    fc.property(letters(60), letters(5), letters(3), (text, part, fresh) => {
      if (part === "") return;
      const places = offsetsOf(text, part);
      assert.equal(places.length, text.split(part).length - 1);
      const all = [...text].flatMap((_, at) => (text.startsWith(part, at) ? [at] : []));
      assert.deepEqual(offsetsOf(text, part, true), all);
      assert.equal(replaceAt(text, places, part.length, fresh), text.split(part).join(fresh));
    }),
    { numRuns: 1_000 },
  );
});

it("editText() rejects a long text that almost repeats in the file, and a result above maxBytes", () => {
  const job = (old_string: string, new_string: string) =>
    editText({
      content: Buffer.alloc(5_000_000, 97),
      edits: [{ old_string, new_string, replace_all: true }],
      name: "a.txt",
      maxBytes: 10_000_000,
    });
  const half = "a".repeat(3_000);
  assert.match((job(`${half}b${half}`, "x") as { refused: string }).refused, /old_string was not found/);
  assert.match((job("a", "aaa") as { refused: string }).refused, /larger than 10000000 bytes/);
});
