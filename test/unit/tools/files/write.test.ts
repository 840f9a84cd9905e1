import assert from "node:assert/strict";
import { it } from "node:test";
import { builtinTools } from "gantry";
import { callTool, temporaryFolder, toolContext } from "../../../helpers/tool-context.js";

it("write reports the number of lines that it wrote and that it replaced", async () => {
  await using folder = await temporaryFolder();
  const context = toolContext(folder.path);
  const write = builtinTools().find(({ name }) => name === "write")!;
  const writeResult = async (content: string) => (await callTool(write, { path: "a.txt", content }, context)).text;
  assert.equal(await writeResult(""), "Created a.txt: empty.");
  assert.equal(await writeResult("one"), "Replaced a.txt: 1 line, previously empty.");
  assert.equal(await writeResult("one\ntwo\n"), "Replaced a.txt: 2 lines, previously 1 line.");
});
