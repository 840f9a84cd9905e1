// Tests each transport once, with the built command, a real socket or pipe, and a fake model server.
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { HttpPeer, SocketPeer } from "../helpers/acp-http.js";
import type { AcpPeer } from "../helpers/acp-peer.js";
import { spawnAcpServer } from "../helpers/acp-process.js";
import { callStep, textStep } from "../helpers/fake-model-server.js";
import { runPrompt, startModelServer, createServerConfig, startStreamedRun } from "../helpers/server-runs.js";
import { createFaultyStdioServer } from "../helpers/mcp-servers.js";
import { gantryCommand } from "../helpers/source-paths.js";
import { runGantry, startServer } from "../helpers/server.js";
import { tempDir } from "../helpers/temp-dir.js";

const WRITE_CALL = callStep("write", { path: "made.txt", content: "by a tool\n" });

/** Starts a server with the three HTTP transports. */
async function startHttpServer(t: TestContext, config: Record<string, unknown> = {}) {
  const modelServer = await startModelServer(t);
  const transports = ["koa-http-api", "acp-http-sse-ws", "web-console"];
  const server = await startServer(t, {
    config: createServerConfig(modelServer, { server: { transports }, ...config }),
  });
  return { modelServer, server };
}

/** Runs one prompt turn with a tool call over any ACP connection. */
async function runPromptTurn(peer: AcpPeer, session: string) {
  assert.deepEqual(await peer.prompt(session, "write a file"), { stopReason: "end_turn" });
  assert.equal(peer.getText(session), "Written.");
  const toolStates = peer
    .getUpdates(session)
    .flatMap(({ sessionUpdate, status }) => (/^tool_call/.test(sessionUpdate) ? status : []));
  assert.equal(toolStates.at(-1), "completed");
  peer.assertNoValidationErrors();
}

describe("smoke: transports", () => {
  it("HTTP: a run with a tool call returns output and token usage; an invalid message returns 400", async (t) => {
    const { modelServer, server } = await startHttpServer(t);
    modelServer.enqueue(WRITE_CALL, textStep("Written."));
    const response = await server.fetch("/api/run", { method: "POST", body: JSON.stringify({ message: "write" }) });
    const body = (await response.json()) as { output: string; usage: { total_tokens: number } };
    assert.deepEqual([response.status, body.output], [200, "Written."]);
    assert.ok(body.usage.total_tokens > 0);
    const id = response.headers.get("x-session-id");
    const { messages } = (await (await server.fetch(`/api/sessions/${id}/messages`)).json()) as { messages: object[] };
    assert.ok(messages.length >= 3);
    const { tools } = modelServer.requests[0]!;
    assert.ok(["bash", "edit", "grep", "read", "write"].every((name) => tools.includes(name)));
    const invalidResponse = await server.fetch("/api/run", { method: "POST", body: '{"message": 1}' });
    assert.equal(invalidResponse.status, 400);
  });

  it("HTTP with SSE: a run streams its text, then a done event", async (t) => {
    const { modelServer, server } = await startHttpServer(t);
    modelServer.enqueue({ say: [{ text: "first " }, { gate: "more" }, { text: "second" }] });
    const runStream = await startStreamedRun(server, { message: "talk" });
    await runStream.waitForCharacters("first ".length);
    modelServer.openGate("more");
    await runStream.ended;
    assert.equal(runStream.pieces.map(({ text }) => text).join(""), "first second");
    assert.equal(runStream.latestEvent?.event, "done");
  });

  it("ACP over stdio: a prompt turn completes, and another process loads the session", async (t) => {
    const modelServer = await startModelServer(t);
    modelServer.enqueue(WRITE_CALL, textStep("Written."));
    const config = createServerConfig(modelServer);
    const home = await tempDir(t);
    const firstProcess = await spawnAcpServer(t, { config, home: home.path });
    await firstProcess.peer.initialize();
    const cwd = firstProcess.gantry.projectDir;
    const session = await firstProcess.peer.newSession(cwd);
    await runPromptTurn(firstProcess.peer, session);
    firstProcess.gantry.child.stdin.end();
    assert.deepEqual(await firstProcess.gantry.exited, { code: 0, signal: null });
    const secondProcess = await spawnAcpServer(t, { config, home: home.path });
    await secondProcess.peer.initialize();
    await secondProcess.peer.request("session/load", { sessionId: session, cwd, mcpServers: [] });
    assert.equal(secondProcess.peer.getText(session), "Written.");
    assert.equal(secondProcess.peer.getText(session, "user_message_chunk"), "write a file");
  });

  it("ACP over HTTP with SSE and over a WebSocket: a prompt turn with a tool call completes", async (t) => {
    const { modelServer, server } = await startHttpServer(t);
    modelServer.enqueue(WRITE_CALL, textStep("Written."), WRITE_CALL, textStep("Written."));
    const httpPeer = new HttpPeer(`${server.url}/acp`);
    await httpPeer.open();
    await httpPeer.openStream();
    const session = await httpPeer.newSession(server.projectDir);
    await httpPeer.openStream(session);
    await runPromptTurn(httpPeer, session);
    const socketPeer = new SocketPeer(`${server.url}/acp`);
    await socketPeer.waitUntilOpen();
    await socketPeer.initialize();
    await runPromptTurn(socketPeer, await socketPeer.newSession(server.projectDir));
  });

  it("console: the page and every file that it references are served", async (t) => {
    const { server } = await startHttpServer(t);
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
    const modelServer = await startModelServer(t);
    modelServer.enqueue(WRITE_CALL, textStep("Written."));
    const project = await tempDir(t);
    const result = await runGantry(t, ["run", "write"], {
      config: createServerConfig(modelServer),
      projectDir: project.path,
    });
    assert.deepEqual([result.code, result.stdout], [0, "Written.\n"], result.stderr);
    assert.match(result.stderr, /> Write made\.txt/);
    assert.equal(await project.read("made.txt"), "by a tool\n");
  });

  it("MCP: gantry mcp serve runs a prompt that calls a tool of another MCP server", async (t) => {
    const modelServer = await startModelServer(t);
    const { command, args } = createFaultyStdioServer("kind");
    const home = await tempDir(t, {
      "config.json": JSON.stringify(createServerConfig(modelServer, { mcp_servers: { lab: { command, args } } })),
    });
    modelServer.enqueue(callStep("lab__echo", { text: "through two servers" }), textStep("Echoed."));
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
    assert.match(JSON.stringify(modelServer.lastRunRequest!.body), /through two servers/);
  });

  it("HTTP: a page of another origin gets 403, and a request without a required header 401", async (t) => {
    const body = JSON.stringify({ message: "x" });
    const openSetup = await startHttpServer(t);
    const pageHeaders = { origin: "http://evil.example", "content-type": "application/json" };
    assert.equal(
      (await openSetup.server.fetch("/api/run", { method: "POST", body, headers: pageHeaders })).status,
      403,
    );
    const lockedSetup = await startHttpServer(t, { server: { required_headers: { "x-key": "k1" } } });
    assert.equal((await lockedSetup.server.fetch("/api/run", { method: "POST", body })).status, 401);
    assert.equal((await runPrompt(lockedSetup.server, { message: "x" }, { "x-key": "k1" })).status, 200);
    assert.equal(openSetup.modelServer.requests.length, 0);
  });
});
