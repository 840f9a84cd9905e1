import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { builtinTools } from "gantry";
import { Redactor } from "gantry/plugin";
import type { Tool } from "gantry";
import { redactTools } from "../../../src/tools/redacted-tools.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { callTool, createTemporaryFolder, createToolContext } from "../../helpers/tool-context.js";

const KEY = "k3y-9fQ2xLw7Zr4TbVn8MdHs6JpYc1Ge";

it("file tools redact a known key in results, diffs and errors", async () => {
  await using folder = await createTemporaryFolder();
  const tools = builtinTools({ secrets: new Set([KEY]), bash: { sandbox: "off" } });
  const context = createToolContext(folder.path);
  const callNamedTool = async (name: string, input: object): Promise<string> => {
    const tool = tools.find((candidate) => candidate.name === name)!;
    return JSON.stringify(await callTool(tool, input, context).catch((error: Error) => error.message));
  };
  await writeFile(join(folder.path, ".env"), `A=1\nKEY=${KEY}\nB=2\n`);
  await writeFile(join(folder.path, "encoded"), Buffer.from(`KEY=${KEY}`).toString("base64"));
  // The key crosses the limit of 2,000 characters at which `read` shortens a line.
  await writeFile(join(folder.path, "long"), `${"x".repeat(1_980)}${KEY}${"y".repeat(500)}`);
  await writeFile(join(folder.path, `name-${KEY}`), "");
  const outputs = [
    await callNamedTool("read", { path: ".env" }),
    await callNamedTool("read", { path: "encoded" }),
    await callNamedTool("read", { path: "long" }),
    await callNamedTool("grep", { pattern: "KEY", context: 2 }),
    await callNamedTool("grep", { pattern: "y{100}$" }),
    await callNamedTool("edit", { path: ".env", old_string: "A=1", new_string: "A=2" }),
    await callNamedTool("edit", { path: ".env", old_string: "KEY=k3y-9fQ2xLw7Zr4TbVn8 ", new_string: "" }),
    await callNamedTool("multiedit", { path: ".env", edits: [{ old_string: "B=2", new_string: "B=3" }] }),
    await callNamedTool("write", { path: ".env", content: `KEY=${KEY}` }),
    await callNamedTool("list", {}),
    await callNamedTool("glob", { pattern: "name-*" }),
    await callNamedTool("read", { path: `name-${KEY}x` }),
  ];
  // No 8 consecutive characters of the key are visible.
  for (const text of outputs)
    for (let i = 0; i + 8 <= KEY.length; i++) assert.ok(!text.includes(KEY.slice(i, i + 8)), `${i}: ${text}`);
  assert.ok(!outputs[1]!.includes(Buffer.from(KEY).toString("base64").slice(8, 20)));
  assert.match(outputs[0]!, /A=1\\n2\\tKEY=\[redacted\]/);
});

it("redactTools() wraps an instance of a class", async () => {
  class ThirdPartyTool implements Tool {
    readonly name = "stranger";
    readonly description = "";
    readonly inputSchema = {};
    readonly kind = "other" as const;
    readonly parallel = false;
    readonly needsPermission = false;
    #text = `key ${KEY}`;
    parse(): unknown {
      return {};
    }
    describe(): { title: string; locations: [] } {
      return { title: this.name, locations: [] };
    }
    async run(): Promise<{ text: string }> {
      return Promise.resolve({ text: this.#text });
    }
  }
  const tool = redactTools(new ThirdPartyTool(), new Redactor([KEY]));
  assert.equal((await callTool(tool, {}, createToolContext("/"))).text, "key [redacted]");
  assert.equal(tool.name, "stranger");
});

it("redactTools() redacts a key in split and in truncated progress output", async () => {
  let progressText = "";
  const tool: Tool = {
    name: "printer",
    description: "",
    inputSchema: {},
    kind: "other",
    parallel: false,
    needsPermission: false,
    parse: () => ({}),
    describe: () => ({ title: "", locations: [] }),
    run: async (_, { progress }) => {
      const waitForProgress = (ending: string): Promise<void> => waitUntil(() => progressText.endsWith(ending));
      progress(`key ${KEY.slice(0, 6)}`);
      for (const piece of KEY.slice(6).match(/.{1,5}/g)!) progress(piece);
      progress(" one\n");
      await waitForProgress(" one\n");
      for (let n = 0; n < 10_000; n += 1) progress(`${n} ${KEY}`);
      progress(" two\n");
      await waitForProgress(" two\n");
      return { text: "done" };
    },
  };
  const progress = (text: string): void => void (progressText += text);
  await callTool(redactTools(tool, new Redactor([KEY])), {}, createToolContext("/", { progress }));
  assert.match(progressText, /^key \[redacted\] one\n/);
  assert.match(progressText, /\n\[\.\.\.\]\n/);
  for (let i = 0; i + 5 <= KEY.length; i++) assert.ok(!progressText.includes(KEY.slice(i, i + 5)), KEY.slice(i, i + 5));
});
