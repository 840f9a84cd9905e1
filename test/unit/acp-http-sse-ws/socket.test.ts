import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { callTools } from "gantry/testing";
import { echo, scriptedAgent } from "../../helpers/acp-agent.js";
import { http, HttpPeer, serveHttp, SocketPeer } from "../../helpers/acp-http.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";
import { ServerStreams } from "./server-streams.js";

/** The context window is so large that every conversation fits. */
const WIDE = { provider: { models: [{ id: "m", name: "m", ownedBy: "x", contextWindow: 1_000_000_000 }] } };

async function connectPeer(
  t: Hooks,
  url: string,
  options?: ConstructorParameters<typeof SocketPeer>[1],
): Promise<SocketPeer> {
  const peer = new SocketPeer(url, options);
  t.after(() => peer.socket.terminate());
  await peer.opened();
  return peer;
}

/** Opens a stream for an SSE client that joins the connection of a socket. */
async function joinStream(url: string, id: string, sessionId?: string) {
  const peer = new HttpPeer(url);
  peer.id = id;
  return { peer, stream: await peer.stream(sessionId) };
}

describe("ACP over WebSocket", () => {
  it("carries initialize, session/new and a prompt with its updates, without an SSE stream", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, ["hello"]);
    const { url } = await serveHttp(t, agent);
    const peer = await connectPeer(t, url);
    assert.match(peer.id, /^[A-Za-z0-9_-]{43}$/);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    assert.deepEqual(await peer.prompt(session, "x"), { stopReason: "end_turn" });
    assert.equal(peer.text(session), "hello");
    peer.assertClean();
  });

  it("an SSE stream of a session receives its updates until the stream closes; responses stay on the socket", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, ["one", "two", "three"]);
    const { url } = await serveHttp(t, agent);
    const peer = await connectPeer(t, url);
    await peer.initialize();
    const [a, b] = [await peer.newSession(cwd), await peer.newSession(cwd)];
    const streams = new ServerStreams(t);
    const sse = await joinStream(url, peer.id, a);
    await peer.prompt(a, "x");
    await sse.peer.seen((message) => message.params?.update?.sessionUpdate === "usage_update");
    assert.equal(sse.peer.text(a), "one");
    assert.equal(peer.text(a), "");
    await peer.prompt(b, "y");
    assert.equal(peer.text(b), "two");
    sse.stream.close();
    await streams.lastClosed();
    await peer.prompt(a, "z");
    assert.equal(peer.text(a), "three");
    peer.assertClean();
  });

  it("sends no updates on the socket with websocketUpdates: false; an SSE stream receives them", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, ["one", "two"]);
    const { url } = await serveHttp(t, agent, { websocketUpdates: false });
    const peer = await connectPeer(t, url);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    assert.deepEqual(await peer.prompt(session, "x"), { stopReason: "end_turn" });
    assert.equal(peer.updates().length, 0);
    const sse = await joinStream(url, peer.id, session);
    await peer.prompt(session, "y");
    await sse.peer.seen((message) => message.params?.update?.sessionUpdate === "usage_update");
    assert.equal(sse.peer.text(session), "two");
    assert.equal(peer.updates().length, 0);
  });

  it("accepts binary UTF-8 frames, answers invalid UTF-8 with -32700, and closes with 1009 above the frame limit", async (t) => {
    const { agent } = scriptedAgent(t);
    const { url } = await serveHttp(t, agent, { frameBytes: 4096 });
    const peer = await connectPeer(t, url);
    const answer = peer.next(() => true);
    peer.socket.send(Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), { binary: true });
    assert.equal((await answer).error.code, -32700);
    const binaryAnswer = peer.next(() => true);
    const initialize = '{"jsonrpc":"2.0","id":"\u00e9","method":"initialize","params":{"protocolVersion":1}}\n';
    peer.socket.send(Buffer.from(initialize, "utf8"), { binary: true });
    const { id, result } = await binaryAnswer;
    assert.deepEqual([id, result.protocolVersion], ["\u00e9", 1]);
    peer.socket.send(`"${"x".repeat(5000)}"`);
    assert.equal(await peer.closed, 1009);
    peer.assertClean();
  });

  it("sends each message as one text frame that ends with a line feed", async (t) => {
    const { agent } = scriptedAgent(t);
    const { url } = await serveHttp(t, agent);
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

  it("answers a rejected handshake with 400 or 403 and a JSON-RPC error", async (t) => {
    const { agent } = scriptedAgent(t);
    const { url } = await serveHttp(t, agent);
    const handshake = (headers: Record<string, string>) =>
      http(url, "GET", { connection: "Upgrade", upgrade: "websocket", ...headers });
    const key = { "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==", "sec-websocket-version": "13" };
    const rows: [status: number, headers: Record<string, string>][] = [
      [400, { "sec-websocket-version": "13" }],
      [400, { ...key, "sec-websocket-version": "99" }],
      [403, { ...key, origin: "https://evil.example" }],
      [403, { ...key, origin: "https://evil.example", "sec-fetch-site": "cross-site" }],
      [403, { ...key, host: "evil.example" }],
    ];
    for (const [status, headers] of rows) {
      const answer = await handshake(headers);
      assert.deepEqual([answer.status, answer.headers["content-type"]], [status, "application/json"]);
      assert.deepEqual(Object.keys(answer.json), ["jsonrpc", "id", "error"]);
      assert.equal(answer.json.error.code, -32600);
    }
  });

  it("accepts own, loopback and allowed origins; rejects other origins with 403 and a missing required header with 401", async (t) => {
    const { agent } = scriptedAgent(t);
    const { url } = await serveHttp(t, agent, { allowedOrigins: ["https://editor.example"] });
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
    const locked = await serveHttp(t, agent, { requiredHeaders: { "X-Key": "k" } });
    await assert.rejects(connectPeer(t, locked.url), /401/);
    await connectPeer(t, locked.url, { headers: { "x-key": "K" } });
  });

  it("a socket that closes during a prompt cancels the run, keeps the partial answer and ends the connection", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, [{ chunks: [{ type: "text", block: "t", text: "half" }], hang: true }]);
    const { url } = await serveHttp(t, agent);
    const peer = await connectPeer(t, url);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const failed = new Promise((resolve) => agent.on("run.failed", resolve));
    peer.notify("session/prompt", { sessionId: session, prompt: [{ type: "text", text: "x" }] });
    await peer.seen((message) => message.method === "session/update");
    peer.socket.terminate();
    await failed;
    assert.deepEqual((await agent.sessions.messages(session)).at(-1)?.parts, [{ type: "text", text: "half" }]);
    const closedPeer = new HttpPeer(url);
    closedPeer.id = peer.id;
    assert.equal((await closedPeer.post("{}")).status, 404);
  });

  it("stop resolves a running prompt as cancelled and closes the socket with 1001", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, [{ chunks: [{ type: "text", block: "t", text: "half" }], hang: true }]);
    const listening = await serveHttp(t, agent);
    const peer = await connectPeer(t, listening.url);
    await peer.initialize();
    const result = peer.prompt(await peer.newSession(cwd), "x");
    await peer.seen((message) => message.method === "session/update");
    const stopped = listening.stop(AbortSignal.abort());
    assert.deepEqual(await result, { stopReason: "cancelled" });
    assert.equal(await peer.closed, 1001);
    await stopped;
    peer.assertClean();
  });

  it("a client that does not read its socket delays no run and loses no text", async (t) => {
    const { path: cwd } = await tempDir(t);
    const piece = "x".repeat(10_000);
    // Split into two answers, because one answer is limited in length. The tool does not exist, so the model is called
    // again.
    const half = Array.from({ length: 300 }, () => ({ type: "text" as const, block: "t", text: piece }));
    const { agent } = scriptedAgent(t, [[...half, ...callTools(["none", {}])], half], WIDE);
    const { url } = await serveHttp(t, agent);
    const peer = await connectPeer(t, url);
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const finished = new Promise((resolve) => agent.on("run.finished", resolve));
    const result = peer.prompt(session, "x");
    peer.socket.pause();
    await finished;
    peer.socket.resume();
    assert.deepEqual(await result, { stopReason: "end_turn" });
    assert.equal(peer.text(session).length, 6_000_000);
    assert.ok(peer.updates(session).length < 600);
  });

  it("two sockets with equal request ids and 50 sessions each receive only their own updates", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, [], { provider: { fallback: echo } });
    const { url } = await serveHttp(t, agent);
    const peers = [await connectPeer(t, url), await connectPeer(t, url)];
    await Promise.all(peers.map((peer) => peer.initialize()));
    await Promise.all(
      peers.map(async (peer, p) => {
        const sessions = await Promise.all(Array.from({ length: 50 }, () => peer.newSession(cwd)));
        const results = await Promise.all(sessions.map((session, s) => peer.prompt(session, `${p}-${s}`)));
        assert.ok(results.every(({ stopReason }) => stopReason === "end_turn"));
        for (const [s, session] of sessions.entries()) assert.equal(peer.text(session), `echo ${p}-${s}`);
        for (const { params } of peer.received.filter((message) => message.method === "session/update")) {
          assert.ok(sessions.includes(params.sessionId));
        }
        peer.assertClean();
      }),
    );
  });
});
