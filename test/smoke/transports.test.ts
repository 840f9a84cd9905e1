// Tests each transport once, with the built command, a real socket or pipe, and a fake model server.
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { HttpPeer, SocketPeer } from "../helpers/acp-http.js";
import type { AcpPeer } from "../helpers/acp-peer.js";
import { spawnAcp } from "../helpers/acp-process.js";
import { call, say } from "../helpers/fake-model-server.js";
import { ask, lab, labConfig, stream } from "../helpers/lab.js";
import { hostileProgram } from "../helpers/mcp.js";
import { gantryCommand } from "../helpers/node.js";
import { runGantry, startServer } from "../helpers/server.js";
import { tempDir } from "../helpers/temp.js";

const WRITE = call("write", { path: "made.txt", content: "by a tool\n" });

/** Starts a server with the three HTTP transports. */
async function serve(t: TestContext, config: Record<string, unknown> = {}) {
  const models = await lab(t);
  const transports = ["koa-http-api", "acp-http-sse-ws", "web-console"];
  const server = await startServer(t, { config: labConfig(models, { server: { transports }, ...config }) });
  return { models, server };
}

/** Runs one prompt turn with a tool call over any ACP connection. */
async function promptTurn(peer: AcpPeer, session: string) {
  assert.deepEqual(await peer.prompt(session, "write a file"), { stopReason: "end_turn" });
  assert.equal(peer.text(session), "Written.");
  const states = peer
    .updates(session)
    .flatMap(({ sessionUpdate, status }) => (/^tool_call/.test(sessionUpdate) ? status : []));
  assert.equal(states.at(-1), "completed");
  peer.assertClean();
}

describe("smoke: transports", () => {
  it("HTTP: a run with a tool call returns output and token usage; an invalid message returns 400", async (t) => {
    const { models, server } = await serve(t);
    models.enqueue(WRITE, say("Written."));
    const response = await server.fetch("/api/run", { method: "POST", body: JSON.stringify({ message: "write" }) });
    const body = (await response.json()) as { output: string; usage: { total_tokens: number } };
    assert.deepEqual([response.status, body.output], [200, "Written."]);
    assert.ok(body.usage.total_tokens > 0);
    const id = response.headers.get("x-session-id");
    const { messages } = (await (await server.fetch(`/api/sessions/${id}/messages`)).json()) as { messages: object[] };
    assert.ok(messages.length >= 3);
    const { tools } = models.requests[0]!;
    assert.ok(["bash", "edit", "grep", "read", "write"].every((name) => tools.includes(name)));
    const invalidResponse = await server.fetch("/api/run", { method: "POST", body: '{"message": 1}' });
    assert.equal(invalidResponse.status, 400);
  });

  it("HTTP with SSE: a run streams its text, then a done event", async (t) => {
    const { models, server } = await serve(t);
    models.enqueue({ say: [{ text: "first " }, { gate: "more" }, { text: "second" }] });
    const streamed = await stream(server, { message: "talk" });
    await streamed.text("first ".length);
    models.open("more");
    await streamed.ended;
    assert.equal(streamed.pieces.map(({ text }) => text).join(""), "first second");
    assert.equal(streamed.last?.event, "done");
  });

  it("ACP over stdio: a prompt turn completes, and another process loads the session", async (t) => {
    const models = await lab(t);
    models.enqueue(WRITE, say("Written."));
    const config = labConfig(models);
    const home = await tempDir(t);
    const first = await spawnAcp(t, { config, home: home.path });
    await first.peer.initialize();
    const cwd = first.gantry.projectDir;
    const session = await first.peer.newSession(cwd);
    await promptTurn(first.peer, session);
    first.gantry.child.stdin.end();
    assert.deepEqual(await first.gantry.exited, { code: 0, signal: null });
    const second = await spawnAcp(t, { config, home: home.path });
    await second.peer.initialize();
    await second.peer.request("session/load", { sessionId: session, cwd, mcpServers: [] });
    assert.equal(second.peer.text(session), "Written.");
    assert.equal(second.peer.text(session, "user_message_chunk"), "write a file");
  });

  it("ACP over HTTP with SSE and over a WebSocket: a prompt turn with a tool call completes", async (t) => {
    const { models, server } = await serve(t);
    models.enqueue(WRITE, say("Written."), WRITE, say("Written."));
    const http = new HttpPeer(`${server.url}/acp`);
    await http.open();
    await http.stream();
    const session = await http.newSession(server.projectDir);
    await http.stream(session);
    await promptTurn(http, session);
    const socket = new SocketPeer(`${server.url}/acp`);
    await socket.opened();
    await socket.initialize();
    await promptTurn(socket, await socket.newSession(server.projectDir));
  });

  it("console: the page and every file that it references are served", async (t) => {
    const { server } = await serve(t);
    const page = await server.fetch("/console");
    assert.equal(page.status, 200);
    assert.match(page.headers.get("content-security-policy") ?? "", /script-src/);
    const assets = [...(await page.text()).matchAll(/(?:src|href)="(\/console\/[^"]+)"/g)].map(([, file]) => file!);
    assert.ok(assets.some((file) => file.endsWith(".js")) && assets.some((file) => file.endsWith(".css")));
    for (const file of assets) {
      const asset = await server.fetch(file);
      assert.equal(asset.status, 200, file);
      await asset.arrayBuffer();
    }
  });

  it("gantry run: the answer is printed to stdout and the tool calls to stderr", async (t) => {
    const models = await lab(t);
    models.enqueue(WRITE, say("Written."));
    const project = await tempDir(t);
    const result = await runGantry(t, ["run", "write"], { config: labConfig(models), projectDir: project.path });
    assert.deepEqual([result.code, result.stdout], [0, "Written.\n"], result.stderr);
    assert.match(result.stderr, /> Write made\.txt/);
    assert.equal(await project.read("made.txt"), "by a tool\n");
  });

  it("MCP: gantry mcp serve runs a prompt that calls a tool of another MCP server", async (t) => {
    const models = await lab(t);
    const { command, args } = hostileProgram("kind");
    const home = await tempDir(t, {
      "config.json": JSON.stringify(labConfig(models, { mcp_servers: { lab: { command, args } } })),
    });
    models.enqueue(call("lab__echo", { text: "through two servers" }), say("Echoed."));
    const client = new Client({ name: "smoke", version: "1" });
    const env = { PATH: process.env["PATH"] ?? "", GANTRY_HOME: home.path };
    await client.connect(
      new StdioClientTransport({
        command: process.execPath,
        args: [...gantryCommand(), "mcp", "serve"],
        env,
        cwd: home.path,
        stderr: "ignore",
      }),
    );
    t.after(() => client.close());
    const result = await client.callTool({ name: "run", arguments: { prompt: "echo" } });
    assert.equal((result.structuredContent as { output: string }).output, "Echoed.");
    assert.match(JSON.stringify(models.lastOfRun!.body), /through two servers/);
  });

  it("HTTP: a page of another origin gets 403, and a request without a required header 401", async (t) => {
    const body = JSON.stringify({ message: "x" });
    const open = await serve(t);
    const page = { origin: "http://evil.example", "content-type": "application/json" };
    assert.equal((await open.server.fetch("/api/run", { method: "POST", body, headers: page })).status, 403);
    const locked = await serve(t, { server: { required_headers: { "x-key": "k1" } } });
    assert.equal((await locked.server.fetch("/api/run", { method: "POST", body })).status, 401);
    assert.equal((await ask(locked.server, { message: "x" }, { "x-key": "k1" })).status, 200);
    assert.equal(open.models.requests.length, 0);
  });
});
