import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
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

it("write returns the replaced content of a file that the session has not read", async () => {
  await using folder = await createTemporaryFolder();
  const context = createToolContext(folder.path);
  const call = async (name: string, input: object) =>
    (
      await callTool(
        builtinTools().find((tool) => tool.name === name)!,
        input,
        context,
      )
    ).text;
  const createFile = (name: string, content: string | Buffer) => writeFile(join(folder.path, name), content);
  const write = (path: string, content = "new\n") => call("write", { path, content });
  const warning = "Warning: this session had not read the file that this call replaced";
  const summary = "1 line, previously 2 lines.";

  await createFile("a.txt", "one\ntwo\n");
  const expectedText = `${warning}. Put back what must stay of its content:\none\ntwo\n[end of the replaced content]\n`;
  assert.equal(await write("a.txt"), `${expectedText}Replaced a.txt: ${summary}`);
  assert.equal(await write("a.txt", "newer\n"), "Replaced a.txt: 1 line, previously 1 line.");

  await createFile("read.txt", "one\ntwo\n");
  await call("read", { path: "read.txt", limit: 1 });
  assert.equal(await write("read.txt"), `Replaced read.txt: ${summary}`);

  await createFile("same.txt", "new\n");
  assert.equal(await write("same.txt"), "Replaced same.txt: 1 line, previously 1 line.");

  await createFile("binary.bin", Buffer.from("\0".repeat(2048)));
  assert.ok((await write("binary.bin")).startsWith(`${warning}: 2.0 KiB, not text.\nReplaced binary.bin: `));

  await createFile("long.txt", "line\n".repeat(100_000));
  const longResult = await write("long.txt");
  assert.match(longResult, /^Warning.*\nline\n[^]*\[\.\.\. [\d,]+ bytes cut from the middle[^]*\nReplaced long\.txt/);
  assert.ok(longResult.length < 9_000);
});
