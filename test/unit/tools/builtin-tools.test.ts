import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { Agent, builtinTools } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { createTemporaryFolder } from "../../helpers/tool-context.js";

const sortNames = (tools: readonly { name: string }[]) => tools.map((tool) => tool.name).sort();

it("the built-in tools have the expected needsPermission and parallel flags, and bash can be disabled", () => {
  const tools = builtinTools();
  assert.deepEqual(sortNames(tools.filter((tool) => tool.needsPermission)), [
    "apply_patch",
    "bash",
    "bash_input",
    "delete",
    "edit",
    "multiedit",
    "webfetch",
    "write",
  ]);
  assert.deepEqual(sortNames(tools.filter((tool) => tool.parallel)), [
    "bash_output",
    "glob",
    "grep",
    "list",
    "read",
    "skill",
    "task",
    "todoread",
    "webfetch",
  ]);
  assert.deepEqual(
    sortNames(builtinTools({ bash: { enabled: false } })),
    sortNames(tools.filter((tool) => !tool.name.startsWith("bash"))),
  );
});

it("tool calls are described by a short title and their locations", () => {
  const tools = new Map(builtinTools().map((tool) => [tool.name, tool] as const));
  const getTitle = (name: string, input: object): string => {
    const tool = tools.get(name)!;
    return tool.describe(tool.parse(input), "/project").title;
  };
  assert.equal(getTitle("read", { path: "/project/src/a.ts" }), "Read src/a.ts");
  assert.equal(getTitle("read", { path: "../other/a.ts", offset: 7 }), "Read /other/a.ts from line 7");
  assert.equal(getTitle("bash", { command: "npm test\nnpm run lint" }), "npm test ⏎ npm run lint");
  assert.equal(getTitle("grep", { pattern: "x", path: "src", glob: "*.ts" }), 'Search "x" in src (*.ts)');
  assert.equal(getTitle("list", {}), "List .");
  const readTool = tools.get("read")!;
  assert.deepEqual(readTool.describe(readTool.parse({ path: "a.ts", offset: 3 }), "/project").locations, [
    { path: "/project/a.ts", line: 3 },
  ]);
});

it("tool output is truncated to toolOutputBytes", async () => {
  await using folder = await createTemporaryFolder();
  await writeFile(join(folder.path, "a.txt"), "line\n".repeat(1000));
  const provider = new ScriptedProvider([
    callTools(["read", { path: "a.txt" }], ["bash", { command: "cat a.txt" }]),
    "done",
  ]);
  const tools = builtinTools({ bash: { sandbox: "off" } });
  const agent = new Agent({ providers: [provider], tools, toolOutputBytes: 500, projectDir: folder.path });
  const truncatedTools: string[] = [];
  for await (const event of await agent.run({ message: "x" })) {
    if (event.type !== "tool_result") continue;
    assert.ok(Buffer.byteLength(event.output) <= 500, event.name);
    assert.match(event.output, /bytes cut from the middle/);
    truncatedTools.push(event.name);
  }
  await agent.close();
  assert.deepEqual(truncatedTools, ["read", "bash"]);
});
