import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { describe, it, type TestContext } from "node:test";
import type { ToolContext } from "gantry";
import type { OpenTools, McpServer } from "gantry/plugin";
import { McpServers } from "gantry/adapters/mcp-tools";
import { until } from "../../helpers/lab.js";
import { opened, PLAIN, referenceProgram } from "../../helpers/mcp.js";
import { tempDir } from "../../helpers/temp.js";
import { callTool, toolContext } from "../../helpers/tool-context.js";

const servers = new McpServers({ env: PLAIN });

async function call(open: OpenTools, name: string, input: unknown = {}, changes: Partial<ToolContext> = {}) {
  const tool = open.tools.find((candidate) => candidate.name === name);
  assert.ok(tool, `there is no ${name} among ${open.tools.map((candidate) => candidate.name).join(", ")}`);
  return callTool(tool, input, toolContext("/", changes));
}

/** The reference server `everything` at an address. */
async function everythingAt(t: TestContext, way: "streamableHttp" | "sse"): Promise<McpServer> {
  const portHolder = createServer().listen(0, "127.0.0.1");
  await once(portHolder, "listening");
  const { port } = portHolder.address() as { port: number };
  await new Promise((resolve) => portHolder.close(resolve));
  const { command, args } = referenceProgram("everything");
  const child = spawn(command, [...args, way], { env: { ...PLAIN, PORT: String(port) }, stdio: "ignore" });
  t.after(async () => {
    child.kill("SIGKILL");
    await once(child, "close");
  });
  const url = `http://127.0.0.1:${port}/${way === "sse" ? "sse" : "mcp"}`;
  await until(() => fetch(url, { method: "OPTIONS" }).catch(() => undefined));
  return { name: "everything", url, headers: {} };
}

describe("the reference MCP servers", () => {
  it("filesystem reads and writes files in the project folder and rejects other paths", async (t) => {
    const folder = await tempDir(t, { "a.txt": "found me" });
    const open = await opened(t, servers.source(referenceProgram("filesystem", folder.path)), folder.path);
    assert.equal((await call(open, "filesystem__read_text_file", { path: folder.at("a.txt") })).text, "found me");
    const written = await call(open, "filesystem__write_file", { path: folder.at("b.txt"), content: "new" });
    assert.equal(written.failed, false);
    assert.equal(await folder.read("b.txt"), "new");
    const outside = await call(open, "filesystem__read_text_file", { path: "/etc/passwd" });
    assert.equal(outside.failed, true);
    assert.match(outside.text, /outside allowed directories/);
    const wrong = await call(open, "filesystem__read_text_file", { path: 5 });
    assert.equal(wrong.failed, true);
  });

  it("memory keeps entities across a restart", async (t) => {
    const folder = await tempDir(t);
    const memory = { ...referenceProgram("memory"), env: { MEMORY_FILE_PATH: folder.at("memory.json") } };
    const open = await opened(t, servers.source(memory), folder.path);
    const entities = [{ name: "Ada", entityType: "person", observations: ["writes programs"] }];
    await call(open, "memory__create_entities", { entities });
    assert.match((await call(open, "memory__search_nodes", { query: "Ada" })).text, /writes programs/);
    await open.close();
    const again = await opened(t, servers.source(memory), folder.path);
    assert.match((await call(again, "memory__read_graph")).text, /"Ada"/);
  });

  const ways: Record<string, (t: TestContext) => Promise<McpServer>> = {
    "over stdio": () => Promise.resolve(referenceProgram("everything")),
    "over streamable HTTP": (t) => everythingAt(t, "streamableHttp"),
    "over HTTP with SSE": (t) => everythingAt(t, "sse"),
  };
  for (const [way, server] of Object.entries(ways))
    it(`everything works ${way}: calls, images, progress, resources, prompts, roots and elicitation`, async (t) => {
      const folder = await tempDir(t);
      const open = await opened(t, servers.source(await server(t)), folder.path);
      for (let i = 0; i < 20; i++) {
        const sums = await Promise.all([1, 2, 3, 4].map((b) => call(open, "everything__get-sum", { a: i, b })));
        assert.deepEqual(
          sums.map(({ text }) => text),
          [1, 2, 3, 4].map((b) => `The sum of ${i} and ${b} is ${i + b}.`),
        );
      }
      const { parts = [] } = await call(open, "everything__get-tiny-image");
      assert.deepEqual(
        parts.map((part) => part.mediaType),
        ["image/png"],
      );
      const progressTexts: string[] = [];
      const progress = (text: string) => void progressTexts.push(text);
      await call(open, "everything__trigger-long-running-operation", { duration: 0.1, steps: 2 }, { progress });
      assert.deepEqual(progressTexts, ["1/2\n", "2/2\n"]);
      const { text } = await call(open, "everything__get-structured-content", { location: "Chicago" });
      assert.deepEqual(Object.keys(JSON.parse(text) as object).sort(), ["conditions", "humidity", "temperature"]);
      assert.match((await call(open, "everything__read_resource")).text, /^demo:\/\/resource\//);
      const [prompt] = open.prompts?.filter(({ name }) => name === "everything:args-prompt") ?? [];
      assert.equal(prompt?.hint, "<city> [state]");
      const promptResult = await prompt.prompt("Lyon", new AbortController().signal);
      assert.equal(promptResult.text, "What's weather in Lyon?");
      // These tools appear after the server has received the client's capabilities.
      await until(() => open.tools.some(({ name }) => name === "everything__get-roots-list"));
      assert.match((await call(open, "everything__get-roots-list")).text, new RegExp(folder.path));
      await until(() => open.tools.some(({ name }) => name === "everything__trigger-elicitation-request"));
      assert.match((await call(open, "everything__trigger-elicitation-request")).text, /declined/);
    });
});
