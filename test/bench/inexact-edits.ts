// Counts by kind how many of the inexact edits in `test/helpers/inexact-edits.ts` are applied, and checks that none is
// applied at a wrong position.
import { editText } from "../../src/untrusted/edits/apply-edit.js";
import { INEXACT_EDITS } from "../helpers/inexact-edits.js";

const countsByLabel = {
  edits: INEXACT_EDITS.length,
  landed: 0,
  "landed to the letter": 0,
  refused: 0,
  "otherwise than it must": 0,
};
for (const { name, file, oldText, replacementText, replacesAll = false, expectedFileText } of INEXACT_EDITS) {
  const edits = [{ old_string: oldText, new_string: replacementText, replace_all: replacesAll }];
  const result = editText({ content: new Uint8Array(Buffer.from(file)), edits, name, maxBytes: 1_000_000 });
  const newText = "refused" in result ? undefined : Buffer.from(result.content).toString();
  if (newText === undefined) countsByLabel.refused++;
  else countsByLabel.landed++;
  if ("descriptions" in result && !result.descriptions.join().includes("inexact match"))
    countsByLabel["landed to the letter"]++;
  if (newText !== expectedFileText) {
    countsByLabel["otherwise than it must"]++;
    process.stdout.write(`otherwise: ${name}\n`);
  }
}
for (const [label, count] of Object.entries(countsByLabel))
  process.stdout.write(`${String(count).padStart(4)} ${label}\n`);
process.exitCode = countsByLabel["otherwise than it must"] > 0 ? 1 : 0;
