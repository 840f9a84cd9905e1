import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { callTools } from "gantry/testing";
import { echoLastMessage, createScriptedAgent } from "../../helpers/acp-agent.js";
import { sendHttp, HttpPeer, startAcpHttp, SocketPeer } from "../../helpers/acp-http.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";
import { ServerStreams } from "./server-streams.js";

/** The context window is so large that every conversation fits. */
const LARGE_CONTEXT_OPTIONS = {
  provider: { models: [{ id: "m", name: "m", ownedBy: "x", contextWindow: 1_000_000_000 }] },
};

async function connectPeer(
  t: Hooks,
  url: string,
  options?: ConstructorParameters<typeof SocketPeer>[1],
): Promise<SocketPeer> {
  const peer = new SocketPeer(url, options);
  t.after(() => peer.socket.terminate());
  await peer.waitUntilOpen();
  return peer;
}

/** Opens an SSE stream on the connection of a WebSocket. */
async function openSseStream(url: string, connectionId: string, sessionId?: string) {
  const peer = new HttpPeer(url);
  peer.connectionId = connectionId;
  return { peer, stream: await peer.openStream(sessionId) };
}

describe("ACP over WebSocket", () => {
  it("transports initialize, session/new and a prompt with its updates, without an SSE stream", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, ["hello"]);
    const { url } = await startAcpHttp(t, agent);
    const peer = await connectPeer(t, url);
    assert.match(peer.connectionId, /^[A-Za-z0-9_-]{43}$/);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    assert.deepEqual(await peer.prompt(session, "x"), { stopReason: "end_turn" });
    assert.equal(peer.getText(session), "hello");
    peer.assertNoValidationErrors();
  });

  it("sends a session's updates to its SSE stream until the stream closes; responses stay on the socket", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, ["one", "two", "three"]);
    const { url } = await startAcpHttp(t, agent);
    const peer = await connectPeer(t, url);
    await peer.initialize();
    const [streamedSession, socketSession] = [await peer.newSession(cwd), await peer.newSession(cwd)];
    const streams = new ServerStreams(t);
    const sseClient = await openSseStream(url, peer.connectionId, streamedSession);
    await peer.prompt(streamedSession, "x");
    await sseClient.peer.waitForMessage((message) => message.params?.update?.sessionUpdate === "usage_update");
    assert.equal(sseClient.peer.getText(streamedSession), "one");
    assert.equal(peer.getText(streamedSession), "");
    await peer.prompt(socketSession, "y");
    assert.equal(peer.getText(socketSession), "two");
    sseClient.stream.close();
    await streams.waitForLastClose();
    await peer.prompt(streamedSession, "z");
    assert.equal(peer.getText(streamedSession), "three");
    peer.assertNoValidationErrors();
  });

  it("sends updates only to an SSE stream with websocketUpdates: false", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, ["one", "two"]);
    const { url } = await startAcpHttp(t, agent, { websocketUpdates: false });
    const peer = await connectPeer(t, url);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    assert.deepEqual(await peer.prompt(session, "x"), { stopReason: "end_turn" });
    assert.equal(peer.getUpdates().length, 0);
    const sseClient = await openSseStream(url, peer.connectionId, session);
    await peer.prompt(session, "y");
    await sseClient.peer.waitForMessage((message) => message.params?.update?.sessionUpdate === "usage_update");
    assert.equal(sseClient.peer.getText(session), "two");
    assert.equal(peer.getUpdates().length, 0);
  });

  it("accepts binary UTF-8 frames, rejects invalid UTF-8 with -32700, and closes with 1009 above the frame limit", async (t) => {
    const { agent } = createScriptedAgent(t);
    const { url } = await startAcpHttp(t, agent, { frameBytes: 4096 });
    const peer = await connectPeer(t, url);
    const invalidResponse = peer.waitForNext(() => true);
    peer.socket.send(Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), { binary: true });
    assert.equal((await invalidResponse).error.code, -32700);
    const binaryResponse = peer.waitForNext(() => true);
    const initializeFrame = '{"jsonrpc":"2.0","id":"\u00e9","method":"initialize","params":{"protocolVersion":1}}\n';
    peer.socket.send(Buffer.from(initializeFrame, "utf8"), { binary: true });
    const { id, result } = await binaryResponse;
    assert.deepEqual([id, result.protocolVersion], ["\u00e9", 1]);
    peer.socket.send(`"${"x".repeat(5000)}"`);
    assert.equal(await peer.closed, 1009);
    peer.assertNoValidationErrors();
  });

  it("sends each message as one text frame that ends with a line feed", async (t) => {
    const { agent } = createScriptedAgent(t);
    const { url } = await startAcpHttp(t, agent);
    const peer = await connectPeer(t, url);
    const frames: [text: string, isBinary: boolean][] = [];
    peer.socket.on("message", (data: Buffer, isBinary) => frames.push([data.toString("utf8"), isBinary]));
    await peer.initialize();
    await peer.request("session/list", {});
    assert.equal(frames.length, 2);
    for (const [text, isBinary] of frames) {
      assert.match(text, /^\{.*\}\n$/);
      assert.equal(isBinary, false);
    }
  });

  it("returns 400 or 403 with a JSON-RPC error for a rejected handshake", async (t) => {
    const { agent } = createScriptedAgent(t);
    const { url } = await startAcpHttp(t, agent);
    const sendHandshake = (headers: Record<string, string>) =>
      sendHttp(url, "GET", { connection: "Upgrade", upgrade: "websocket", ...headers });
    const keyHeaders = { "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==", "sec-websocket-version": "13" };
    const cases: [status: number, headers: Record<string, string>][] = [
      [400, { "sec-websocket-version": "13" }],
      [400, { ...keyHeaders, "sec-websocket-version": "99" }],
      [403, { ...keyHeaders, origin: "https://evil.example" }],
      [403, { ...keyHeaders, origin: "https://evil.example", "sec-fetch-site": "cross-site" }],
      [403, { ...keyHeaders, host: "evil.example" }],
    ];
    for (const [status, headers] of cases) {
      const response = await sendHandshake(headers);
      assert.deepEqual([response.status, response.headers["content-type"]], [status, "application/json"]);
      assert.deepEqual(Object.keys(response.json), ["jsonrpc", "id", "error"]);
      assert.equal(response.json.error.code, -32600);
    }
  });

  it("accepts own, loopback and allowed origins; rejects others with 403, a missing required header with 401", async (t) => {
    const { agent } = createScriptedAgent(t);
    const { url } = await startAcpHttp(t, agent, { allowedOrigins: ["https://editor.example"] });
    const { host, port } = new URL(url);
    for (const origin of [
      `http://${host}`,
      "http://localhost:3000",
      `http://[::1]:${port}`,
      "https://editor.example",
    ]) {
      await connectPeer(t, url, { headers: { origin } });
      // The headers that browsers send when a page opens a socket.
      await connectPeer(t, url, { headers: { origin, "sec-fetch-site": "cross-site", "sec-fetch-mode": "websocket" } });
    }
    for (const origin of [
      "https://evil.example",
      "null",
      "http://127.evil.com",
      "https://editor.example.evil.com",
      "http://localhost.evil.com",
    ]) {
      await assert.rejects(connectPeer(t, url, { headers: { origin } }), /403/, origin);
    }
    await assert.rejects(
      connectPeer(t, url, { headers: { host: "evil.example", origin: "http://evil.example" } }),
      /403/,
    );
    const protectedServer = await startAcpHttp(t, agent, { requiredHeaders: { "X-Key": "k" } });
    await assert.rejects(connectPeer(t, protectedServer.url), /401/);
    await connectPeer(t, protectedServer.url, { headers: { "x-key": "K" } });
  });

  it("a socket that closes during a prompt cancels the run, keeps the partial answer and ends the connection", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, [{ chunks: [{ type: "text", block: "t", text: "half" }], hang: true }]);
    const { url } = await startAcpHttp(t, agent);
    const peer = await connectPeer(t, url);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const runFailed = new Promise((resolve) => agent.on("run.failed", resolve));
    peer.notify("session/prompt", { sessionId: session, prompt: [{ type: "text", text: "x" }] });
    await peer.waitForMessage((message) => message.method === "session/update");
    peer.socket.terminate();
    await runFailed;
    assert.deepEqual((await agent.sessions.messages(session)).at(-1)?.parts, [{ type: "text", text: "half" }]);
    const closedPeer = new HttpPeer(url);
    closedPeer.connectionId = peer.connectionId;
    assert.equal((await closedPeer.post("{}")).status, 404);
  });

  it("stop resolves a running prompt as cancelled and closes the socket with 1001", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, [{ chunks: [{ type: "text", block: "t", text: "half" }], hang: true }]);
    const listening = await startAcpHttp(t, agent);
    const peer = await connectPeer(t, listening.url);
    await peer.initialize();
    const result = peer.prompt(await peer.newSession(cwd), "x");
    await peer.waitForMessage((message) => message.method === "session/update");
    const stopPromise = listening.stop(AbortSignal.abort());
    assert.deepEqual(await result, { stopReason: "cancelled" });
    assert.equal(await peer.closed, 1001);
    await stopPromise;
    peer.assertNoValidationErrors();
  });

  it("a client that does not read its socket delays no run and loses no text", async (t) => {
    const { path: cwd } = await tempDir(t);
    const chunkText = "x".repeat(10_000);
    // The text is split into two answers, because the length of one answer is limited. The tool does not exist, so the
    // model is called again.
    const halfAnswer = Array.from({ length: 300 }, () => ({ type: "text" as const, block: "t", text: chunkText }));
    const { agent } = createScriptedAgent(
      t,
      [[...halfAnswer, ...callTools(["none", {}])], halfAnswer],
      LARGE_CONTEXT_OPTIONS,
    );
    const { url } = await startAcpHttp(t, agent);
    const peer = await connectPeer(t, url);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const runFinished = new Promise((resolve) => agent.on("run.finished", resolve));
    const result = peer.prompt(session, "x");
    peer.socket.pause();
    await runFinished;
    peer.socket.resume();
    assert.deepEqual(await result, { stopReason: "end_turn" });
    assert.equal(peer.getText(session).length, 6_000_000);
    assert.ok(peer.getUpdates(session).length < 600);
  });

  it("two sockets with equal request ids and 50 sessions each receive only their own updates", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, [], { provider: { fallback: echoLastMessage } });
    const { url } = await startAcpHttp(t, agent);
    const peers = [await connectPeer(t, url), await connectPeer(t, url)];
    await Promise.all(peers.map((peer) => peer.initialize()));
    await Promise.all(
      peers.map(async (peer, peerIndex) => {
        const sessions = await Promise.all(Array.from({ length: 50 }, () => peer.newSession(cwd)));
        const results = await Promise.all(
          sessions.map((session, sessionIndex) => peer.prompt(session, `${peerIndex}-${sessionIndex}`)),
        );
        assert.ok(results.every(({ stopReason }) => stopReason === "end_turn"));
        for (const [sessionIndex, session] of sessions.entries())
          assert.equal(peer.getText(session), `echo ${peerIndex}-${sessionIndex}`);
        for (const { params } of peer.receivedMessages.filter((message) => message.method === "session/update")) {
          assert.ok(sessions.includes(params.sessionId));
        }
        peer.assertNoValidationErrors();
      }),
    );
  });
});
