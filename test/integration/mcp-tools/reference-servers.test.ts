import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { describe, it, type TestContext } from "node:test";
import type { ToolContext } from "gantry";
import type { OpenTools, McpServer } from "gantry/plugin";
import { McpServers } from "gantry/adapters/mcp-tools";
import { waitUntil } from "../../helpers/server-runs.js";
import { openToolSource, PATH_ENV, createReferenceStdioServer } from "../../helpers/mcp-servers.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { callTool, createToolContext } from "../../helpers/tool-context.js";

const servers = new McpServers({ env: PATH_ENV });

async function call(openTools: OpenTools, name: string, input: unknown = {}, changes: Partial<ToolContext> = {}) {
  const tool = openTools.tools.find((candidate) => candidate.name === name);
  assert.ok(tool, `there is no ${name} among ${openTools.tools.map((candidate) => candidate.name).join(", ")}`);
  return callTool(tool, input, createToolContext("/", changes));
}

/** Starts the reference server `everything` on a free port. */
async function startEverythingServer(t: TestContext, transport: "streamableHttp" | "sse"): Promise<McpServer> {
  const portHolder = createServer().listen(0, "127.0.0.1");
  await once(portHolder, "listening");
  const { port } = portHolder.address() as { port: number };
  await new Promise((resolve) => portHolder.close(resolve));
  const { command, args } = createReferenceStdioServer("everything");
  const child = spawn(command, [...args, transport], { env: { ...PATH_ENV, PORT: String(port) }, stdio: "ignore" });
  t.after(async () => {
    child.kill("SIGKILL");
    await once(child, "close");
  });
  const url = `http://127.0.0.1:${port}/${transport === "sse" ? "sse" : "mcp"}`;
  await waitUntil(() => fetch(url, { method: "OPTIONS" }).catch(() => undefined));
  return { name: "everything", url, headers: {} };
}

describe("the reference MCP servers", () => {
  it("filesystem reads and writes files in the project folder and rejects other paths", async (t) => {
    const folder = await tempDir(t, { "a.txt": "found me" });
    const openTools = await openToolSource(
      t,
      servers.source(createReferenceStdioServer("filesystem", folder.path)),
      folder.path,
    );
    assert.equal((await call(openTools, "filesystem__read_text_file", { path: folder.at("a.txt") })).text, "found me");
    const writeResult = await call(openTools, "filesystem__write_file", { path: folder.at("b.txt"), content: "new" });
    assert.equal(writeResult.failed, false);
    assert.equal(await folder.read("b.txt"), "new");
    const outsideResult = await call(openTools, "filesystem__read_text_file", { path: "/etc/passwd" });
    assert.equal(outsideResult.failed, true);
    assert.match(outsideResult.text, /outside allowed directories/);
    const invalidResult = await call(openTools, "filesystem__read_text_file", { path: 5 });
    assert.equal(invalidResult.failed, true);
  });

  it("memory keeps entities across a restart", async (t) => {
    const folder = await tempDir(t);
    const memoryServer = {
      ...createReferenceStdioServer("memory"),
      env: { MEMORY_FILE_PATH: folder.at("memory.json") },
    };
    const openTools = await openToolSource(t, servers.source(memoryServer), folder.path);
    const entities = [{ name: "Ada", entityType: "person", observations: ["writes programs"] }];
    await call(openTools, "memory__create_entities", { entities });
    assert.match((await call(openTools, "memory__search_nodes", { query: "Ada" })).text, /writes programs/);
    await openTools.close();
    const reopenedTools = await openToolSource(t, servers.source(memoryServer), folder.path);
    assert.match((await call(reopenedTools, "memory__read_graph")).text, /"Ada"/);
  });

  const startServerByTransport: Record<string, (t: TestContext) => Promise<McpServer>> = {
    "over stdio": () => Promise.resolve(createReferenceStdioServer("everything")),
    "over streamable HTTP": (t) => startEverythingServer(t, "streamableHttp"),
    "over HTTP with SSE": (t) => startEverythingServer(t, "sse"),
  };
  for (const [transport, startServer] of Object.entries(startServerByTransport))
    it(`everything works ${transport}: calls, images, progress, resources, prompts, roots and elicitation`, async (t) => {
      const folder = await tempDir(t);
      const openTools = await openToolSource(t, servers.source(await startServer(t)), folder.path);
      for (let i = 0; i < 20; i++) {
        const sumResults = await Promise.all(
          [1, 2, 3, 4].map((b) => call(openTools, "everything__get-sum", { a: i, b })),
        );
        assert.deepEqual(
          sumResults.map(({ text }) => text),
          [1, 2, 3, 4].map((b) => `The sum of ${i} and ${b} is ${i + b}.`),
        );
      }
      const { parts = [] } = await call(openTools, "everything__get-tiny-image");
      assert.deepEqual(
        parts.map((part) => part.mediaType),
        ["image/png"],
      );
      const progressTexts: string[] = [];
      const progress = (text: string) => void progressTexts.push(text);
      await call(openTools, "everything__trigger-long-running-operation", { duration: 0.1, steps: 2 }, { progress });
      assert.deepEqual(progressTexts, ["1/2\n", "2/2\n"]);
      const { text } = await call(openTools, "everything__get-structured-content", { location: "Chicago" });
      assert.deepEqual(Object.keys(JSON.parse(text) as object).sort(), ["conditions", "humidity", "temperature"]);
      assert.match((await call(openTools, "everything__read_resource")).text, /^demo:\/\/resource\//);
      const [prompt] = openTools.prompts?.filter(({ name }) => name === "everything:args-prompt") ?? [];
      assert.equal(prompt?.hint, "<city> [state]");
      const promptResult = await prompt.prompt("Lyon", new AbortController().signal);
      assert.equal(promptResult.text, "What's weather in Lyon?");
      // These tools appear after the server has received the client's capabilities.
      await waitUntil(() => openTools.tools.some(({ name }) => name === "everything__get-roots-list"));
      assert.match((await call(openTools, "everything__get-roots-list")).text, new RegExp(folder.path));
      await waitUntil(() => openTools.tools.some(({ name }) => name === "everything__trigger-elicitation-request"));
      assert.match((await call(openTools, "everything__trigger-elicitation-request")).text, /declined/);
    });
});
