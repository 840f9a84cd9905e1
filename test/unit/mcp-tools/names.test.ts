import assert from "node:assert/strict";
import { it } from "node:test";
import { toToolName } from "../../../adapters/mcp-tools/names.js";

it("toolName keeps a valid MCP tool name, and turns other names into distinct valid names", () => {
  assert.equal(toToolName("files", "read_file"), "files__read_file");
  assert.equal(toToolName("files", "x".repeat(57)), `files__${"x".repeat(57)}`);
  // Tool names have at most 64 letters, digits, `_` and `-`. A hash separates names that would become equal.
  const changedNames = ["x".repeat(58), `${"x".repeat(58)}y`, "read.file", "read/file"].map((name) =>
    toToolName("files", name),
  );
  assert.equal(new Set(changedNames).size, 4);
  for (const name of changedNames) assert.match(name, /^files__[A-Za-z0-9_-]{1,57}$/);
});
