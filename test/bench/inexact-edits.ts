// Counts how many of the inexact edits in `test/helpers/inexact-edits.ts` and `edit-slips.ts` are applied or refused.
// Exits with code 1 if an applied edit has another result than required, or if an edit is refused that must be applied.
import { editText } from "../../src/untrusted/edits/apply-edit.js";
import { EDIT_SLIPS } from "../helpers/edit-slips.js";
import { INEXACT_EDITS, type InexactEdit } from "../helpers/inexact-edits.js";

const allEdits: readonly InexactEdit[] = [...INEXACT_EDITS, ...EDIT_SLIPS];
const countsByLabel = {
  edits: allEdits.length,
  applied: 0,
  "applied without a note of inexactness": 0,
  refused: 0,
  "wrong result": 0,
};
for (const { name, file, oldText, replacementText, replacesAll = false, expectedFileText } of allEdits) {
  const edits = [{ old_string: oldText, new_string: replacementText, replace_all: replacesAll }];
  const result = editText({ content: new Uint8Array(Buffer.from(file)), edits, name, maxBytes: 1_000_000 });
  const newText = "errorMessage" in result ? undefined : Buffer.from(result.content).toString();
  if (newText === undefined) countsByLabel.refused++;
  else countsByLabel.applied++;
  if ("descriptions" in result && !result.descriptions.join().includes("inexact match"))
    countsByLabel["applied without a note of inexactness"]++;
  if (newText !== expectedFileText) {
    countsByLabel["wrong result"]++;
    process.stdout.write(`wrong result: ${name}\n`);
  }
}
for (const [label, count] of Object.entries(countsByLabel))
  process.stdout.write(`${String(count).padStart(4)} ${label}\n`);
process.exitCode = countsByLabel["wrong result"] > 0 ? 1 : 0;
