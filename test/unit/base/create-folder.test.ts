import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { it } from "node:test";
import { createFolder } from "gantry/plugin";
import { tempDir } from "../../helpers/temp-dir.js";

it("createFolder creates missing parents with mode 0700, and returns the first folder that it created", async (t) => {
  const folder = await tempDir(t, { file: "" });
  assert.equal(createFolder(folder.at("a/b/c")), folder.at("a"));
  for (const name of ["a", "a/b", "a/b/c"]) assert.equal(statSync(folder.at(name)).mode & 0o777, 0o700, name);
  assert.equal(createFolder(folder.at("a/b")), undefined);
  assert.equal(createFolder(folder.at("a/d")), folder.at("a/d"));
  assert.throws(() => createFolder(folder.at("file")), { code: "EEXIST" });
  assert.throws(() => createFolder(folder.at("file/below")), { code: "ENOTDIR" });
});
