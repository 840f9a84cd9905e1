import assert from "node:assert/strict";
import { it } from "node:test";
import { Journal } from "../../../src/history/journal.js";
import { tempDir } from "../../helpers/temp-dir.js";

it("a second Journal instance reads a change of 10,000 files", async (t) => {
  const folder = await tempDir(t);
  const steps = Array.from({ length: 10_000 }, (_, n) => ({
    path: `lib/${n}.js`,
    before: { kind: "file" as const, hash: `h${n}`, mode: 0o644, uid: 0, gid: 0 },
    after: { kind: "none" as const },
    made: 0,
  }));
  const change = { change: "c1", run: "r1", call: "k1", undo: "", seq: 1, folders: [], at: "", steps, contents: {} };
  await new Journal(folder.path).add(change, false);
  const { changes } = await new Journal(folder.path).read();
  assert.deepEqual(changes, [change]);
});
