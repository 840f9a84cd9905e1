import assert from "node:assert/strict";
import { it } from "node:test";
import { GantryClient } from "gantry/client";
import { spawnAcpServer } from "../../helpers/acp-process.js";
import { startFakeModelServer, textStep, type FakeRequest } from "../../helpers/fake-model-server.js";
import { parseSseEvents } from "../../helpers/raw-http.js";
import { runGantry, spawnGantry, startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** Answers a summary request with the user's wish, so that the view shows which request wrote the summary. */
function answerSummary({ body }: FakeRequest) {
  const system = (body as { messages: { content: string }[] }).messages[0]?.content ?? "";
  return textStep(`NOTES ${/keep above all: (.*)$/.exec(system)?.[1] ?? "none"}`);
}

it("a session is compacted on request over HTTP, with the client, on the command line, over ACP and over MCP", async (t) => {
  const home = await tempDir(t);
  const project = await tempDir(t, {});
  const options = { home: home.path, projectDir: project.path };
  const modelServer = await startFakeModelServer({
    toolFreeAnswer: answerSummary,
    fallback: () => textStep(`Noted. ${"Considered. ".repeat(300)}`),
  });
  t.after(() => modelServer.close());
  const models = [{ id: "m1", context_window: 100_000, max_output: 4_000 }];
  const config = {
    providers: [{ name: "lab", driver: "openai", base_url: modelServer.baseUrl, api_key: "x", models }],
  };
  const server = await startServer(t, { ...options, config });
  const post = async (body: object) => {
    const response = await server.fetch("/api/run", { method: "POST", body: JSON.stringify(body) });
    assert.equal(response.status, 200);
    return { id: response.headers.get("x-session-id") ?? "", text: await response.text() };
  };
  const { id } = await post({ message: "Begin." });
  /** Extends the conversation, compacts it with `compact`, and checks the view. */
  const check = async (wish: string, compact: () => Promise<unknown>) => {
    for (const message of ["More.", "And more.", "On."]) await post({ message, session_id: id });
    await compact();
    const view = await (await server.fetch(`/api/sessions/${id}/messages?view=model`)).text();
    assert.ok(view.includes(`NOTES ${wish}`), `${wish}: ${view.slice(0, 2_000)}`);
  };

  await check("the river", async () => {
    const { text } = await post({ message: "the river", session_id: id, compact: true, stream: true });
    const events = parseSseEvents(text).map(({ data }) => data as { type?: string });
    const compaction = events.find(({ type }) => type === "compaction");
    assert.deepEqual(Object.keys(compaction ?? {}).sort(), ["messages", "strategy", "tokens", "type"]);
  });
  await check("the bank", () => post({ message: "/compact the bank", session_id: id, commands: true }));
  await check("the arch", async () => {
    const client = new GantryClient({ url: server.url });
    await client.run({ message: "the arch", session_id: id, compact: true });
  });
  await check("the pier", async () => {
    const { code, stderr } = await runGantry(t, ["run", "--session", id, "/compact the pier"], options);
    assert.equal(code, 0, stderr);
    assert.match(stderr, /conversation compacted \(summary\)/);
  });
  await check("the deck", async () => {
    const { gantry, peer } = await spawnAcpServer(t, {
      ...options,
      profile: "official",
      args: ["--acp-profile", "official"],
    });
    await peer.initialize();
    await peer.request("session/resume", { sessionId: id, cwd: project.path, mcpServers: [] });
    await peer.prompt(id, "/compact the deck");
    assert.match(peer.getText(id), /\[Context compacted \(summary\) — \d+ messages, \d+ tokens\]/);
    gantry.child.stdin.end();
    await gantry.exited;
  });
  await check("the rail", async () => {
    const mcp = await spawnGantry(t, { ...options, args: ["mcp", "serve"] });
    const send = (message: object) => mcp.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    const clientInfo = { name: "test", version: "1" };
    send({ id: 1, method: "initialize", params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo } });
    await mcp.waitForOutput(/"id":1/);
    send({ method: "notifications/initialized" });
    const args = { prompt: "/compact the rail", session: id };
    send({ id: 2, method: "tools/call", params: { name: "run", arguments: args } });
    await mcp.waitForOutput(/"id":2/);
    mcp.child.stdin.end();
    await mcp.exited;
  });
  assert.deepEqual(modelServer.violations, []);
});
