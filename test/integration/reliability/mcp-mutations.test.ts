// Mutated messages of MCP servers, each followed by the correct message. FRAMES extends the test.
import assert from "node:assert/strict";
import { writeFile, stat } from "node:fs/promises";
import { it, type TestContext } from "node:test";
import type { McpServer, OpenTools } from "gantry/plugin";
import { McpServers } from "gantry/adapters/mcp-tools";
import { createFaultyStdioServer, PATH_ENV, startFaultyHttpServer } from "../../helpers/mcp-servers.js";
import { measureOwnHeapMb } from "../../helpers/process-usage.js";
import { readSeed } from "../../helpers/random.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { callTool, createToolContext } from "../../helpers/tool-context.js";

const FRAME_COUNT = Number(process.env["FRAMES"] ?? 250);
/** Maximum growth of the heap between a fifth of the frames and the end. */
const MAX_GROWTH_MB = 16;
/** Calls of all tools between two starts of the server. */
const ROUND_COUNT = Math.min(20, Math.ceil(FRAME_COUNT / 50));
/** These tools end the server, never return, or return far more than a message. */
const EXCLUDED_TOOLS = /die|hang|nag|flood|endless|big|sample/;

const START_SERVER: Record<string, (t: TestContext, env: Record<string, string>) => Promise<McpServer>> = {
  stdio: (_t, env) => Promise.resolve(createFaultyStdioServer("mutated", env)),
  HTTP: async (t, env) => (await startFaultyHttpServer(t, "mutated", env)).server,
};

/** Calls all tools and prompts at the same time. Returns the number of successful calls. */
async function callAll({ tools, prompts = [] }: OpenTools): Promise<number> {
  const createContext = () => createToolContext("/", { askUser: () => Promise.resolve("blue") });
  const calls = [
    ...tools
      .filter(({ name }) => !EXCLUDED_TOOLS.test(name))
      .map((tool) => callTool(tool, { text: "hi", uri: "h://a" }, createContext())),
    ...prompts.map(({ prompt }) => prompt("a b", new AbortController().signal)),
  ];
  return (await Promise.allSettled(calls)).filter(({ status }) => status === "fulfilled").length;
}

for (const [transport, startServer] of Object.entries(START_SERVER))
  it(`mutated messages of an MCP server over ${transport} fail only their calls`, async (t) => {
    const [seed, folder] = [readSeed(), await tempDir(t)];
    t.diagnostic(`SEED=${seed} FRAMES=${FRAME_COUNT}`);
    const framesFile = folder.at("frames");
    await writeFile(framesFile, "");
    const countFrames = async () => (await stat(framesFile)).size;
    const server = await startServer(t, { FRAMES_FILE: framesFile, SEED: String(seed) });
    const counts = { sessions: 0, failedSessions: 0, calls: 0 };
    const runSession = async () => {
      counts.sessions++;
      const source = new McpServers({ env: PATH_ENV }).source(server);
      const openTools = await source
        .open({ sessionId: "session", projectDir: "/" }, new AbortController().signal)
        .catch(() => undefined);
      if (!openTools) return void counts.failedSessions++;
      for (let n = 0; n < ROUND_COUNT; n++) counts.calls += await callAll(openTools);
      await openTools.close();
    };
    while ((await countFrames()) < FRAME_COUNT / 5) await runSession();
    const [firstCount, firstMb] = [await countFrames(), measureOwnHeapMb()];
    while ((await countFrames()) < FRAME_COUNT) await runSession();
    const lastMb = measureOwnHeapMb();
    t.diagnostic(
      `${JSON.stringify(counts)}; heap after ${firstCount} frames: ${firstMb.toFixed(1)} MB, after ${await countFrames()}: ${lastMb.toFixed(1)} MB`,
    );
    assert.ok(counts.calls > counts.sessions, "the tools of most sessions are usable");
    assert.ok(lastMb - firstMb < MAX_GROWTH_MB, `the heap grows from ${firstMb} to ${lastMb} MB`);
  });
