import assert from "node:assert/strict";
import { it } from "node:test";
import { builtinTools } from "gantry";
import { callTool, createTemporaryFolder, createToolContext } from "../../../helpers/tool-context.js";

it("write reports the number of written lines and of replaced lines", async () => {
  await using folder = await createTemporaryFolder();
  const context = createToolContext(folder.path);
  const writeTool = builtinTools().find(({ name }) => name === "write")!;
  const getWriteResult = async (content: string) =>
    (await callTool(writeTool, { path: "a.txt", content }, context)).text;
  assert.equal(await getWriteResult(""), "Created a.txt: empty.");
  assert.equal(await getWriteResult("one"), "Replaced a.txt: 1 line, previously empty.");
  assert.equal(await getWriteResult("one\ntwo\n"), "Replaced a.txt: 2 lines, previously 1 line.");
});
