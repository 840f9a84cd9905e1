import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { Agent, builtinTools } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { temporaryFolder } from "../../helpers/tool-context.js";

const names = (tools: readonly { name: string }[]) => tools.map((tool) => tool.name).sort();

it("the built-in tools have the expected needsPermission and parallel flags, and bash can be disabled", () => {
  const tools = builtinTools();
  assert.deepEqual(names(tools.filter((tool) => tool.needsPermission)), [
    "apply_patch",
    "bash",
    "bash_input",
    "delete",
    "edit",
    "multiedit",
    "webfetch",
    "write",
  ]);
  assert.deepEqual(names(tools.filter((tool) => tool.parallel)), [
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
    names(builtinTools({ bash: { enabled: false } })),
    names(tools.filter((tool) => !tool.name.startsWith("bash"))),
  );
});

it("tool calls are described by a short title and their locations", () => {
  const tools = new Map(builtinTools().map((tool) => [tool.name, tool] as const));
  const title = (name: string, input: object): string => {
    const tool = tools.get(name)!;
    return tool.describe(tool.parse(input), "/project").title;
  };
  assert.equal(title("read", { path: "/project/src/a.ts" }), "Read src/a.ts");
  assert.equal(title("read", { path: "../other/a.ts", offset: 7 }), "Read /other/a.ts from line 7");
  assert.equal(title("bash", { command: "npm test\nnpm run lint" }), "npm test ⏎ npm run lint");
  assert.equal(title("grep", { pattern: "x", path: "src", glob: "*.ts" }), 'Search "x" in src (*.ts)');
  assert.equal(title("list", {}), "List .");
  const read = tools.get("read")!;
  assert.deepEqual(read.describe(read.parse({ path: "a.ts", offset: 3 }), "/project").locations, [
    { path: "/project/a.ts", line: 3 },
  ]);
});

it("tool output is truncated to toolOutputBytes", async () => {
  await using folder = await temporaryFolder();
  await writeFile(join(folder.path, "a.txt"), "line\n".repeat(1000));
  const provider = new ScriptedProvider([
    callTools(["read", { path: "a.txt" }], ["bash", { command: "cat a.txt" }]),
    "done",
  ]);
  const tools = builtinTools({ bash: { sandbox: "off" } });
  const agent = new Agent({ providers: [provider], tools, toolOutputBytes: 500, projectDir: folder.path });
  const capped: string[] = [];
  for await (const event of await agent.run({ message: "x" })) {
    if (event.type !== "tool_result") continue;
    assert.ok(Buffer.byteLength(event.output) <= 500, event.name);
    assert.match(event.output, /bytes cut from the middle/);
    capped.push(event.name);
  }
  await agent.close();
  assert.deepEqual(capped, ["read", "bash"]);
});
