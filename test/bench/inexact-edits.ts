// Counts by kind how many of the inexact edits in `test/helpers/inexact-edits.ts` are applied, and checks that none is
// applied at a wrong place.
import { editText } from "../../src/untrusted/edits/apply-edit.js";
import { INEXACT_EDITS } from "../helpers/inexact-edits.js";

const counted = {
  edits: INEXACT_EDITS.length,
  landed: 0,
  "landed to the letter": 0,
  refused: 0,
  "otherwise than it must": 0,
};
for (const { name, file, old, fresh, all = false, becomes } of INEXACT_EDITS) {
  const edits = [{ old_string: old, new_string: fresh, replace_all: all }];
  const edited = editText({ content: new Uint8Array(Buffer.from(file)), edits, name, maxBytes: 1_000_000 });
  const now = "refused" in edited ? undefined : Buffer.from(edited.content).toString();
  if (now === undefined) counted.refused++;
  else counted.landed++;
  if ("done" in edited && !edited.done.join().includes("inexact match")) counted["landed to the letter"]++;
  if (now !== becomes) {
    counted["otherwise than it must"]++;
    process.stdout.write(`otherwise: ${name}\n`);
  }
}
for (const [what, count] of Object.entries(counted)) process.stdout.write(`${String(count).padStart(4)} ${what}\n`);
process.exitCode = counted["otherwise than it must"] > 0 ? 1 : 0;
