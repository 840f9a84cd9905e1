import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { it } from "node:test";
import { promisify } from "node:util";
import type { ApiChangedFile } from "gantry/client";
import { createPatch } from "../../../adapters/web-console/app/changes/patch.js";
import { tempDir } from "../../helpers/temp-dir.js";

const FILES: readonly { path: string; oldText: string | null; newText: string | null }[] = [
  { path: "changed.txt", oldText: "one\ntwo\n", newText: "one\n2" },
  { path: "with spaces.txt", oldText: "a\n", newText: "b\n" },
  { path: 'quote".txt', oldText: "a\n", newText: "b\n" },
  // Without quotes, the second line of the name would be a header for another file.
  { path: "x\n+++ b/victim.txt", oldText: "a\n", newText: "b\n" },
  { path: "lib/new.txt", oldText: null, newText: "new\n" },
  { path: "new-empty.txt", oldText: null, newText: "" },
  { path: "deleted.txt", oldText: "gone\n", newText: null },
  { path: "deleted-empty.txt", oldText: "", newText: null },
  { path: "as-before.txt", oldText: "same\n", newText: "same\n" },
  { path: "victim.txt", oldText: "a\n", newText: "a\n" },
];

it("git apply makes the changes of a patch, for each kind of change and for names with special characters", async (t) => {
  const folder = await tempDir(t);
  for (const { path: name, oldText } of FILES)
    if (oldText !== null) {
      await mkdir(path.dirname(folder.at(name)), { recursive: true });
      await writeFile(folder.at(name), oldText);
    }
  const files = FILES.map(({ path: name, oldText, newText }) => ({
    ...{ path: folder.at(name), old_text: oldText, new_text: newText, omitted: "" },
  })) as ApiChangedFile[];
  const { text, omittedCount } = await createPatch(files, folder.path);
  assert.equal(omittedCount, 0);
  await writeFile(folder.at("changes.patch"), text);
  await promisify(execFile)("git", ["apply", "changes.patch"], { cwd: folder.path });
  for (const { path: name, newText } of FILES)
    if (newText !== null) assert.equal(await readFile(folder.at(name), "utf8"), newText, name);
  const names = (await readdir(folder.path, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && entry.name !== "changes.patch")
    .map((entry) => path.relative(folder.path, path.join(entry.parentPath, entry.name)));
  assert.deepEqual(names.sort(), FILES.flatMap(({ path: name, newText }) => (newText === null ? [] : [name])).sort());
});
