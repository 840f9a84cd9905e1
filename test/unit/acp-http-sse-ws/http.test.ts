import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { callTools } from "gantry/testing";
import { scriptedAgent } from "../../helpers/acp-agent.js";
import { http, HttpPeer, serveHttp } from "../../helpers/acp-http.js";
import type { Json } from "../../helpers/acp-peer.js";
import { until } from "../../helpers/lab.js";
import { tempDir } from "../../helpers/temp.js";
import { ServerStreams } from "./server-streams.js";

/** The context window is so large that every conversation fits. */
const WIDE = { provider: { models: [{ id: "m", name: "m", ownedBy: "x", contextWindow: 1_000_000_000 }] } };

const JSON_TYPE = { "content-type": "application/json" };
const STREAM = { accept: "text/event-stream" };
const list = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "session/list" });
const isUpdate = (message: Json) => message.method === "session/update";

describe("HTTP status codes of the ACP endpoint", () => {
  it("returns the status of the first failed check, and 202 for an accepted message or DELETE", async (t) => {
    const { agent } = scriptedAgent(t);
    const { url } = await serveHttp(t, agent, { maxBodyBytes: 4096 });
    const peer = new HttpPeer(url);
    await peer.open();
    const id = peer.id;
    assert.match(id, /^[A-Za-z0-9_-]{43}$/);
    type Row = [
      name: string,
      method: string,
      headers: Record<string, string>,
      body: string | undefined,
      status: number,
      code?: number,
    ];
    const rows: Row[] = [
      ["PUT", "PUT", {}, "x", 405],
      ["OPTIONS", "OPTIONS", {}, undefined, 405],
      ["PATCH with an empty id", "PATCH", { "acp-connection-id": "" }, "x", 405],
      ["no content type", "POST", {}, list, 415],
      ["content type text/plain", "POST", { "content-type": "text/plain", "acp-connection-id": "!" }, list, 415],
      ["no Accept header", "GET", { "acp-connection-id": "!" }, undefined, 406],
      ["Accept */*", "GET", { accept: "*/*", "acp-connection-id": id }, undefined, 406],
      ["Accept with q=0", "GET", { accept: "text/event-stream;q=0", "acp-connection-id": id }, undefined, 406],
      ["GET without an id", "GET", STREAM, undefined, 400],
      ["an empty id", "GET", { ...STREAM, "acp-connection-id": "" }, undefined, 400],
      ["an id with other characters", "GET", { ...STREAM, "acp-connection-id": "a b" }, undefined, 400],
      ["an id that is too long", "GET", { ...STREAM, "acp-connection-id": "a".repeat(201) }, undefined, 400],
      ["an unknown id", "GET", { ...STREAM, "acp-connection-id": "a".repeat(200) }, undefined, 404],
      ["POST without an id", "POST", JSON_TYPE, list, 400],
      ["POST with an empty id", "POST", { ...JSON_TYPE, "acp-connection-id": "" }, "no json", 400, -32600],
      ["POST with an unknown id", "POST", { ...JSON_TYPE, "acp-connection-id": "x" }, "no json", 404, -32600],
      ["DELETE without an id", "DELETE", {}, undefined, 400],
      ["DELETE of an unknown id", "DELETE", { "acp-connection-id": "x" }, undefined, 404],
      ["invalid JSON", "POST", { ...JSON_TYPE, "acp-connection-id": id }, "{", 400, -32700],
      ["invalid UTF-8", "POST", { ...JSON_TYPE, "acp-connection-id": id }, undefined, 400, -32700],
      ["a batch", "POST", { ...JSON_TYPE, "acp-connection-id": id }, "[]", 400, -32600],
      [
        "nested too deeply",
        "POST",
        { ...JSON_TYPE, "acp-connection-id": id },
        "[".repeat(100) + "]".repeat(100),
        400,
        -32600,
      ],
      ["jsonrpc 1.0", "POST", { ...JSON_TYPE, "acp-connection-id": id }, '{"jsonrpc":"1.0","method":"x"}', 400, -32600],
      ["too large", "POST", { ...JSON_TYPE, "acp-connection-id": id }, "x".repeat(5000), 413, -32600],
      [
        "a session id that differs from the header",
        "POST",
        { ...JSON_TYPE, "acp-connection-id": id, "acp-session-id": "b" },
        '{"jsonrpc":"2.0","id":1,"method":"session/close","params":{"sessionId":"a"}}',
        400,
      ],
      ["an empty session id", "GET", { ...STREAM, "acp-connection-id": id, "acp-session-id": "" }, undefined, 400],
      ["accepted", "POST", { "content-type": "Application/JSON; charset=utf-8", "acp-connection-id": id }, list, 202],
      ["a notification", "POST", { ...JSON_TYPE, "acp-connection-id": id }, '{"jsonrpc":"2.0","method":"x"}', 202],
      ["a response", "POST", { ...JSON_TYPE, "acp-connection-id": id }, '{"jsonrpc":"2.0","id":5,"result":1}', 202],
    ];
    for (const [name, method, headers, body, status, code = -32600] of rows) {
      const bytes = name === "invalid UTF-8" ? Buffer.from([0x22, 0xff, 0x22]) : body;
      const answer = await http(url, method, headers, bytes);
      assert.equal(answer.status, status, `${name}: ${answer.text}`);
      if (status === 202) assert.equal(answer.text, "");
      else {
        assert.equal(answer.headers["content-type"], "application/json", name);
        assert.deepEqual(Object.keys(answer.json), ["jsonrpc", "id", "error"], name);
        assert.equal(answer.json.id, null, name);
        assert.equal(answer.json.error.code, code, name);
      }
      if (status === 405) assert.equal(answer.headers.allow, "GET, POST, DELETE");
    }
    assert.equal((await peer.remove()).status, 202);
    assert.equal((await peer.remove()).status, 404);
  });

  it("initialize returns 200 with its result; a failed initialize returns 200 with an error and no connection id", async (t) => {
    const { agent } = scriptedAgent(t);
    const { url } = await serveHttp(t, agent);
    const successAnswer = await new HttpPeer(url).open();
    assert.equal(successAnswer.status, 200);
    assert.equal(successAnswer.json.id, 0);
    assert.equal(successAnswer.json.result.protocolVersion, 1);
    assert.equal(successAnswer.headers["content-type"], "application/json");
    const failureAnswer = await new HttpPeer(url).open({ protocolVersion: 0 });
    assert.equal(failureAnswer.status, 200);
    assert.equal(failureAnswer.json.error.code, -32602);
    assert.equal(failureAnswer.headers["acp-connection-id"], undefined);
    assert.equal((await http(`${url.slice(0, -4)}/any/path?x`, "POST", JSON_TYPE, "{")).json.error.code, -32700);
  });

  it("rejects a foreign host, a cross-site request, and a missing or invalid required header", async (t) => {
    const { agent } = scriptedAgent(t);
    const open = await serveHttp(t, agent);
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: 1 } });
    const host = await http(open.url, "POST", { ...JSON_TYPE, host: "evil.example" }, body);
    assert.equal(host.status, 403);
    assert.equal(host.json.error.message, "host not allowed");
    const site = { ...JSON_TYPE, "sec-fetch-site": "cross-site", origin: "https://evil.example" };
    assert.equal((await http(open.url, "POST", site, body)).json.error.message, "cross-site request refused");
    const closed = await serveHttp(t, agent, { requiredHeaders: { Authorization: "Bearer Key" } });
    assert.deepEqual((await http(closed.url, "POST", JSON_TYPE, body)).json, {
      error: "missing required header: Authorization",
      code: "unauthorized",
    });
    const wrong = await http(closed.url, "POST", { ...JSON_TYPE, authorization: "Bearer no" }, body);
    assert.equal(wrong.status, 401);
    assert.deepEqual(wrong.json, { error: "invalid header: Authorization", code: "unauthorized" });
    assert.equal((await http(closed.url, "POST", { ...JSON_TYPE, authorization: "bearer key" }, body)).status, 200);
  });

  it("returns 503 above the connection limit or the stream limit, until a connection is deleted", async (t) => {
    const { agent } = scriptedAgent(t);
    const { url } = await serveHttp(t, agent, { connections: 3, streams: 1 });
    const peer = new HttpPeer(url);
    await peer.open();
    for (const extraPeer of [new HttpPeer(url), new HttpPeer(url)]) assert.equal((await extraPeer.open()).status, 200);
    const rejectedAnswer = await new HttpPeer(url).open();
    assert.equal(rejectedAnswer.status, 503);
    assert.equal(rejectedAnswer.json.error.message, "too many connections");
    const stream = await peer.stream();
    const second = await http(url, "GET", { ...STREAM, "acp-connection-id": peer.id, "acp-session-id": "x" });
    assert.equal(second.status, 503);
    assert.equal(second.json.error.message, "too many streams");
    stream.close();
    await peer.remove();
    assert.equal((await new HttpPeer(url).open()).status, 200);
  });

  it("replaces connections without a stream when the limit is reached, and keeps a connection with a stream", async (t) => {
    const { agent } = scriptedAgent(t);
    const { url } = await serveHttp(t, agent, { connections: 4, unusedMs: 0 });
    const [streaming, ...abandonedPeers] = [new HttpPeer(url), new HttpPeer(url), new HttpPeer(url), new HttpPeer(url)];
    await streaming.open();
    await streaming.stream();
    for (const peer of abandonedPeers) await peer.open();
    for (const peer of [new HttpPeer(url), new HttpPeer(url), new HttpPeer(url)])
      assert.equal((await peer.open()).status, 200);
    for (const peer of abandonedPeers) assert.equal((await peer.post("{}")).status, 404, "made room");
    assert.ok(await streaming.request("session/list", {}));
  });
});

const otherAddress = { skip: process.platform === "linux" ? false : "needs a second loopback address" };

describe("connection limit for several client addresses", otherAddress, () => {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: 1 } });

  it("an address that holds all slots yields slots to another address and cannot take them back", async (t) => {
    const { agent } = scriptedAgent(t);
    const { url } = await serveHttp(t, agent, { connections: 8 });
    const open = (localAddress: string) => http(url, "POST", JSON_TYPE, body, localAddress);
    const flood = async (count: number) => {
      const answers = [];
      for (let i = 0; i < count; i++) answers.push((await open("127.0.0.1")).status);
      return answers;
    };
    assert.deepEqual(await flood(9), [...Array<number>(8).fill(200), 503]);
    const otherAnswers = [];
    for (let i = 0; i < 3; i++) otherAnswers.push(await open("127.0.0.2"));
    assert.deepEqual(
      otherAnswers.map(({ status }) => status),
      [200, 200, 200],
    );
    assert.deepEqual(await flood(8), Array<number>(8).fill(503));
    for (const { headers } of otherAnswers) {
      const id = String(headers["acp-connection-id"]);
      const answer = await http(url, "POST", { ...JSON_TYPE, "acp-connection-id": id }, "{}");
      assert.notEqual(answer.status, 404, "its connection is still there");
    }
  });
});

describe("message delivery over SSE", () => {
  it("sends session messages to the session's stream and other responses to the connection's; DELETE ends both", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, ["hello"]);
    const { url } = await serveHttp(t, agent);
    const peer = new HttpPeer(url);
    await peer.open();
    const connection = await peer.stream();
    const session = await peer.newSession(cwd);
    assert.equal(connection.messages.length, 1, "answers that name no session come on the connection's stream");
    const sessionStream = await peer.stream(session);
    assert.deepEqual(await peer.prompt(session, "x"), { stopReason: "end_turn" });
    assert.equal(connection.messages.length, 1);
    assert.ok(sessionStream.messages.some(isUpdate));
    // The title of the session is generated after the run, so its update can arrive later.
    const sessionMessages = sessionStream.messages.filter(
      ({ params }) => params?.update?.sessionUpdate !== "session_info_update",
    );
    assert.equal(sessionMessages.at(-1).result.stopReason, "end_turn");
    assert.equal((await peer.remove()).status, 202);
    await Promise.all([connection.ended, sessionStream.ended]);
    peer.assertClean();
  });

  it("sends to the connection's stream if the session has none, and buffers messages while no stream is open", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, ["one", "two"]);
    const { url } = await serveHttp(t, agent);
    const peer = new HttpPeer(url);
    await peer.open();
    const pendingSession = peer.newSession(cwd);
    await Promise.all(peer.posts);
    const streams = new ServerStreams(t);
    const connection = await peer.stream();
    const session = await pendingSession;
    await peer.prompt(session, "x");
    assert.equal(peer.text(session), "one");
    connection.close();
    await streams.lastClosed();
    const result = peer.prompt(session, "y");
    const finished = new Promise((resolve) => agent.on("run.finished", resolve));
    await finished;
    const sessionStream = await peer.stream(session);
    assert.deepEqual(await result, { stopReason: "end_turn" });
    assert.equal(peer.text(session), "onetwo");
    assert.ok(sessionStream.messages.length >= 2);
    peer.assertClean();
  });

  it("a second GET for a stream ends the first, and no message is lost or repeated", async (t) => {
    const { path: cwd } = await tempDir(t);
    const words = Array.from({ length: 40 }, (_, i) => `${i} `);
    let replace: (() => void) | undefined;
    const replaced = new Promise<void>((resolve) => (replace = resolve));
    const steps = words.flatMap((text) => [2, { type: "text" as const, block: "t", text }]);
    const { agent } = scriptedAgent(t, [[...steps.slice(0, -1), replaced, ...steps.slice(-1)]]);
    const { url } = await serveHttp(t, agent);
    const peer = new HttpPeer(url);
    await peer.open();
    await peer.stream();
    const session = await peer.newSession(cwd);
    const first = await peer.stream(session);
    const result = peer.prompt(session, "x");
    await peer.seen(isUpdate);
    const second = await peer.stream(session);
    await first.ended;
    replace?.();
    assert.deepEqual(await result, { stopReason: "end_turn" });
    assert.ok(second.messages.length > 0);
    assert.equal(peer.text(session), words.join(""));
    peer.assertClean();
  });

  it("opens a stream for an unknown session id and delivers the session's error there", async (t) => {
    const { agent } = scriptedAgent(t);
    const { url } = await serveHttp(t, agent);
    const peer = new HttpPeer(url);
    await peer.open();
    const stream = await peer.stream("never-heard-of");
    assert.equal(stream.response.headers["content-type"], "text/event-stream");
    const answer = peer.call("session/close", { sessionId: "never-heard-of" });
    assert.equal((await answer).error?.message, "session not found");
    assert.equal(stream.messages.length, 1);
  });

  it("sends heartbeat comments on an idle stream", async (t) => {
    const { agent } = scriptedAgent(t);
    const { url } = await serveHttp(t, agent, { heartbeatMs: 5 });
    const peer = new HttpPeer(url);
    await peer.open();
    const stream = await peer.stream();
    await until(() => stream.comments >= 3);
  });

  it("closes a connection whose client reads none of 1,040 responses", async (t) => {
    const { agent } = scriptedAgent(t);
    const { url } = await serveHttp(t, agent);
    const peer = new HttpPeer(url);
    await peer.open();
    const status = new Set<number>();
    const send = async () => {
      for (let i = 0; i < 130; i += 1) status.add((await peer.post(list)).status);
    };
    await Promise.all(Array.from({ length: 8 }, send));
    assert.deepEqual([...status].sort(), [202, 404]);
  });

  it("closes an idle connection after 500 ms; each request and an open stream keep it open", async (t) => {
    const { agent } = scriptedAgent(t);
    const { url } = await serveHttp(t, agent, { idleMs: 500 });
    const [idle, used] = [new HttpPeer(url), new HttpPeer(url)];
    const statusOf = async ({ id }: HttpPeer) =>
      (await http(url, "GET", { ...STREAM, "acp-connection-id": id, "acp-session-id": "x".repeat(201) })).status;
    t.mock.timers.enable({ apis: ["setTimeout"] });
    await Promise.all([idle.open(), used.open()]);
    await used.stream();
    t.mock.timers.tick(499);
    // Each request counts as use.
    assert.equal(await statusOf(idle), 400);
    t.mock.timers.tick(499);
    assert.equal(await statusOf(idle), 400);
    t.mock.timers.tick(500);
    assert.equal(await statusOf(idle), 404);
    t.mock.timers.reset();
    assert.ok(await used.request("session/list", {}));
  });

  it("DELETE during a prompt cancels the prompt, delivers its result and ends the streams", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, [{ chunks: [{ type: "text", block: "t", text: "half" }], hang: true }]);
    const { url } = await serveHttp(t, agent);
    const peer = new HttpPeer(url);
    await peer.open();
    const stream = await peer.stream();
    const session = await peer.newSession(cwd);
    const result = peer.prompt(session, "x");
    await peer.seen(isUpdate);
    assert.equal((await peer.remove()).status, 202);
    assert.equal((await peer.post(list)).status, 404);
    assert.deepEqual(await result, { stopReason: "cancelled" });
    await stream.ended;
    assert.equal((await agent.sessions.messages(session)).at(-1)?.parts.length, 1);
    peer.assertClean();
  });

  it("a client that does not read delays no other client and loses no text", async (t) => {
    const { path: cwd } = await tempDir(t);
    const piece = "x".repeat(10_000);
    // Split into two answers, because one answer is limited in length. The tool does not exist, so the model is called
    // again.
    const half = Array.from({ length: 300 }, () => ({ type: "text" as const, block: "t", text: piece }));
    const { agent } = scriptedAgent(t, [[...half, ...callTools(["none", {}])], half, "quick"], WIDE);
    const { url } = await serveHttp(t, agent);
    const [slow, quick] = [new HttpPeer(url), new HttpPeer(url)];
    await Promise.all([slow.open(), quick.open()]);
    const stream = await slow.stream();
    const session = await slow.newSession(cwd);
    stream.response.pause();
    const result = slow.prompt(session, "x");
    await new Promise((resolve) => agent.on("run.finished", resolve));
    await quick.stream();
    assert.deepEqual(await quick.prompt(await quick.newSession(cwd), "y"), { stopReason: "end_turn" });
    stream.response.resume();
    assert.deepEqual(await result, { stopReason: "end_turn" });
    assert.equal(slow.text(session).length, 6_000_000);
    assert.ok(slow.updates(session).length < 600, "adjacent chunks were joined");
    slow.assertClean();
  });
});

describe("AcpHttpTransport start and stop", () => {
  it("stop resolves a running prompt as cancelled, ends its stream and closes the port", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, [{ chunks: [{ type: "text", block: "t", text: "half" }], hang: true }]);
    const listening = await serveHttp(t, agent);
    const peer = new HttpPeer(listening.url);
    await peer.open();
    const stream = await peer.stream();
    const result = peer.prompt(await peer.newSession(cwd), "x");
    await peer.seen(isUpdate);
    const stopped = listening.stop(AbortSignal.timeout(50));
    assert.deepEqual(await result, { stopReason: "cancelled" });
    await Promise.all([stopped, stream.ended, listening.ended]);
    await assert.rejects(http(listening.url, "DELETE"));
    peer.assertClean();
  });

  it("start rejects a port in use, and host 0.0.0.0 without requiredHeaders", async (t) => {
    const { agent } = scriptedAgent(t);
    const first = await serveHttp(t, agent);
    const port = Number(new URL(first.url).port);
    await assert.rejects(serveHttp(t, agent, { port }), { code: "listen" });
    await assert.rejects(serveHttp(t, agent, { host: "0.0.0.0" }), /set requiredHeaders/);
  });
});
