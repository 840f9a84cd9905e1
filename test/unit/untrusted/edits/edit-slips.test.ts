import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { editText } from "../../../../src/untrusted/edits/apply-edit.js";
import { EDIT_SLIPS, type EditSlip } from "../../../helpers/edit-slips.js";

/** Returns the text of the file after the edit, or undefined if the edit was refused. */
function applySlip({ oldText, replacementText }: EditSlip, file: string): string | undefined {
  const edits = [{ old_string: oldText, new_string: replacementText, replace_all: false }];
  const result = editText({ content: new Uint8Array(Buffer.from(file)), edits, name: "f", maxBytes: 1_000_000 });
  return "errorMessage" in result ? undefined : Buffer.from(result.content).toString();
}

describe("an edit with a typical slip", () => {
  for (const slip of EDIT_SLIPS) {
    const { name, file, expectedFileText } = slip;
    it(`${expectedFileText === undefined ? "is refused" : "gives the same file as the exact edit"}: ${name}`, () => {
      assert.equal(applySlip(slip, file), expectedFileText);
    });

    it(`is refused if only similar lines exist: ${name}`, () => {
      assert.equal(applySlip(slip, slip.fileWithoutTarget), undefined);
    });
  }
});
