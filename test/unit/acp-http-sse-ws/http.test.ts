import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { callTools } from "gantry/testing";
import { createScriptedAgent } from "../../helpers/acp-agent.js";
import { sendHttp, HttpPeer, startAcpHttp } from "../../helpers/acp-http.js";
import type { Json } from "../../helpers/acp-peer.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { ServerStreams } from "./server-streams.js";

/** The context window is so large that every conversation fits. */
const LARGE_CONTEXT_OPTIONS = {
  provider: { models: [{ id: "m", name: "m", ownedBy: "x", contextWindow: 1_000_000_000 }] },
};

const JSON_HEADERS = { "content-type": "application/json" };
const SSE_HEADERS = { accept: "text/event-stream" };
const LIST_REQUEST = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "session/list" });
const isUpdate = (message: Json) => message.method === "session/update";

describe("HTTP status codes of the ACP endpoint", () => {
  it("returns the status of the first failed check, and 202 for an accepted message or DELETE", async (t) => {
    const { agent } = createScriptedAgent(t);
    const { url } = await startAcpHttp(t, agent, { maxBodyBytes: 4096 });
    const peer = new HttpPeer(url);
    await peer.open();
    const id = peer.connectionId;
    assert.match(id, /^[A-Za-z0-9_-]{43}$/);
    // `code` is the JSON-RPC error code. Default -32600.
    type Case = [
      name: string,
      method: string,
      headers: Record<string, string>,
      body: string | undefined,
      status: number,
      code?: number,
    ];
    const cases: Case[] = [
      ["PUT", "PUT", {}, "x", 405],
      ["OPTIONS", "OPTIONS", {}, undefined, 405],
      ["PATCH with an empty id", "PATCH", { "acp-connection-id": "" }, "x", 405],
      ["no content type", "POST", {}, LIST_REQUEST, 415],
      [
        "content type text/plain",
        "POST",
        { "content-type": "text/plain", "acp-connection-id": "!" },
        LIST_REQUEST,
        415,
      ],
      ["no Accept header", "GET", { "acp-connection-id": "!" }, undefined, 406],
      ["Accept */*", "GET", { accept: "*/*", "acp-connection-id": id }, undefined, 406],
      ["Accept with q=0", "GET", { accept: "text/event-stream;q=0", "acp-connection-id": id }, undefined, 406],
      ["GET without an id", "GET", SSE_HEADERS, undefined, 400],
      ["an empty id", "GET", { ...SSE_HEADERS, "acp-connection-id": "" }, undefined, 400],
      ["an id with other characters", "GET", { ...SSE_HEADERS, "acp-connection-id": "a b" }, undefined, 400],
      ["an id that is too long", "GET", { ...SSE_HEADERS, "acp-connection-id": "a".repeat(201) }, undefined, 400],
      ["an unknown id", "GET", { ...SSE_HEADERS, "acp-connection-id": "a".repeat(200) }, undefined, 404],
      ["POST without an id", "POST", JSON_HEADERS, LIST_REQUEST, 400],
      ["POST with an empty id", "POST", { ...JSON_HEADERS, "acp-connection-id": "" }, "no json", 400, -32600],
      ["POST with an unknown id", "POST", { ...JSON_HEADERS, "acp-connection-id": "x" }, "no json", 404, -32600],
      ["DELETE without an id", "DELETE", {}, undefined, 400],
      ["DELETE of an unknown id", "DELETE", { "acp-connection-id": "x" }, undefined, 404],
      ["invalid JSON", "POST", { ...JSON_HEADERS, "acp-connection-id": id }, "{", 400, -32700],
      ["invalid UTF-8", "POST", { ...JSON_HEADERS, "acp-connection-id": id }, undefined, 400, -32700],
      ["a batch", "POST", { ...JSON_HEADERS, "acp-connection-id": id }, "[]", 400, -32600],
      [
        "nested too deeply",
        "POST",
        { ...JSON_HEADERS, "acp-connection-id": id },
        "[".repeat(100) + "]".repeat(100),
        400,
        -32600,
      ],
      [
        "jsonrpc 1.0",
        "POST",
        { ...JSON_HEADERS, "acp-connection-id": id },
        '{"jsonrpc":"1.0","method":"x"}',
        400,
        -32600,
      ],
      ["too large", "POST", { ...JSON_HEADERS, "acp-connection-id": id }, "x".repeat(5000), 413, -32600],
      [
        "a session id that differs from the header",
        "POST",
        { ...JSON_HEADERS, "acp-connection-id": id, "acp-session-id": "b" },
        '{"jsonrpc":"2.0","id":1,"method":"session/close","params":{"sessionId":"a"}}',
        400,
      ],
      ["an empty session id", "GET", { ...SSE_HEADERS, "acp-connection-id": id, "acp-session-id": "" }, undefined, 400],
      [
        "accepted",
        "POST",
        { "content-type": "Application/JSON; charset=utf-8", "acp-connection-id": id },
        LIST_REQUEST,
        202,
      ],
      ["a notification", "POST", { ...JSON_HEADERS, "acp-connection-id": id }, '{"jsonrpc":"2.0","method":"x"}', 202],
      ["a response", "POST", { ...JSON_HEADERS, "acp-connection-id": id }, '{"jsonrpc":"2.0","id":5,"result":1}', 202],
    ];
    for (const [name, method, headers, body, status, code = -32600] of cases) {
      const bytes = name === "invalid UTF-8" ? Buffer.from([0x22, 0xff, 0x22]) : body;
      const response = await sendHttp(url, method, headers, bytes);
      assert.equal(response.status, status, `${name}: ${response.text}`);
      if (status === 202) assert.equal(response.text, "");
      else {
        assert.equal(response.headers["content-type"], "application/json", name);
        assert.deepEqual(Object.keys(response.json), ["jsonrpc", "id", "error"], name);
        assert.equal(response.json.id, null, name);
        assert.equal(response.json.error.code, code, name);
      }
      if (status === 405) assert.equal(response.headers.allow, "GET, POST, DELETE");
    }
    assert.equal((await peer.closeConnection()).status, 202);
    assert.equal((await peer.closeConnection()).status, 404);
  });

  it("initialize returns 200 with its result; a failed initialize returns 200 with an error and no connection id", async (t) => {
    const { agent } = createScriptedAgent(t);
    const { url } = await startAcpHttp(t, agent);
    const successResponse = await new HttpPeer(url).open();
    assert.equal(successResponse.status, 200);
    assert.equal(successResponse.json.id, 0);
    assert.equal(successResponse.json.result.protocolVersion, 1);
    assert.equal(successResponse.headers["content-type"], "application/json");
    const failureResponse = await new HttpPeer(url).open({ protocolVersion: 0 });
    assert.equal(failureResponse.status, 200);
    assert.equal(failureResponse.json.error.code, -32602);
    assert.equal(failureResponse.headers["acp-connection-id"], undefined);
    assert.equal((await sendHttp(`${url.slice(0, -4)}/any/path?x`, "POST", JSON_HEADERS, "{")).json.error.code, -32700);
  });

  it("rejects a foreign host, a cross-site request, and a missing or invalid required header", async (t) => {
    const { agent } = createScriptedAgent(t);
    const openServer = await startAcpHttp(t, agent);
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: 1 } });
    const foreignHostResponse = await sendHttp(openServer.url, "POST", { ...JSON_HEADERS, host: "evil.example" }, body);
    assert.equal(foreignHostResponse.status, 403);
    assert.equal(foreignHostResponse.json.error.message, "host not allowed");
    const crossSiteHeaders = { ...JSON_HEADERS, "sec-fetch-site": "cross-site", origin: "https://evil.example" };
    assert.equal(
      (await sendHttp(openServer.url, "POST", crossSiteHeaders, body)).json.error.message,
      "cross-site request refused",
    );
    const protectedServer = await startAcpHttp(t, agent, { requiredHeaders: { Authorization: "Bearer Key" } });
    assert.deepEqual((await sendHttp(protectedServer.url, "POST", JSON_HEADERS, body)).json, {
      error: "missing required header: Authorization",
      code: "unauthorized",
    });
    const wrongKeyResponse = await sendHttp(
      protectedServer.url,
      "POST",
      { ...JSON_HEADERS, authorization: "Bearer no" },
      body,
    );
    assert.equal(wrongKeyResponse.status, 401);
    assert.deepEqual(wrongKeyResponse.json, { error: "invalid header: Authorization", code: "unauthorized" });
    assert.equal(
      (await sendHttp(protectedServer.url, "POST", { ...JSON_HEADERS, authorization: "bearer key" }, body)).status,
      200,
    );
  });

  it("returns 503 above the connection limit or the stream limit, until a connection is deleted", async (t) => {
    const { agent } = createScriptedAgent(t);
    const { url } = await startAcpHttp(t, agent, { connections: 3, streams: 1 });
    const peer = new HttpPeer(url);
    await peer.open();
    for (const extraPeer of [new HttpPeer(url), new HttpPeer(url)]) assert.equal((await extraPeer.open()).status, 200);
    const rejectedResponse = await new HttpPeer(url).open();
    assert.equal(rejectedResponse.status, 503);
    assert.equal(rejectedResponse.json.error.message, "too many connections");
    const stream = await peer.openStream();
    const secondStreamResponse = await sendHttp(url, "GET", {
      ...SSE_HEADERS,
      "acp-connection-id": peer.connectionId,
      "acp-session-id": "x",
    });
    assert.equal(secondStreamResponse.status, 503);
    assert.equal(secondStreamResponse.json.error.message, "too many streams");
    stream.close();
    await peer.closeConnection();
    assert.equal((await new HttpPeer(url).open()).status, 200);
  });

  it("replaces connections without a stream when the limit is reached, and keeps a connection with a stream", async (t) => {
    const { agent } = createScriptedAgent(t);
    const { url } = await startAcpHttp(t, agent, { connections: 4, unusedMs: 0 });
    const [streamingPeer, ...abandonedPeers] = [
      new HttpPeer(url),
      new HttpPeer(url),
      new HttpPeer(url),
      new HttpPeer(url),
    ];
    await streamingPeer.open();
    await streamingPeer.openStream();
    for (const peer of abandonedPeers) await peer.open();
    for (const peer of [new HttpPeer(url), new HttpPeer(url), new HttpPeer(url)])
      assert.equal((await peer.open()).status, 200);
    for (const peer of abandonedPeers)
      assert.equal((await peer.post("{}")).status, 404, "the abandoned connection is replaced");
    assert.ok(await streamingPeer.request("session/list", {}));
  });
});

const NEEDS_SECOND_ADDRESS = { skip: process.platform === "linux" ? false : "needs a second loopback address" };

describe("connection limit for several client addresses", NEEDS_SECOND_ADDRESS, () => {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: 1 } });

  it("an address that holds all slots loses slots to another address and cannot regain them", async (t) => {
    const { agent } = createScriptedAgent(t);
    const { url } = await startAcpHttp(t, agent, { connections: 8 });
    const openConnection = (localAddress: string) => sendHttp(url, "POST", JSON_HEADERS, body, localAddress);
    const openConnections = async (count: number) => {
      const statuses = [];
      for (let i = 0; i < count; i++) statuses.push((await openConnection("127.0.0.1")).status);
      return statuses;
    };
    assert.deepEqual(await openConnections(9), [...Array<number>(8).fill(200), 503]);
    const otherResponses = [];
    for (let i = 0; i < 3; i++) otherResponses.push(await openConnection("127.0.0.2"));
    assert.deepEqual(
      otherResponses.map(({ status }) => status),
      [200, 200, 200],
    );
    assert.deepEqual(await openConnections(8), Array<number>(8).fill(503));
    for (const { headers } of otherResponses) {
      const id = String(headers["acp-connection-id"]);
      const response = await sendHttp(url, "POST", { ...JSON_HEADERS, "acp-connection-id": id }, "{}");
      assert.notEqual(response.status, 404, "the connection stays open");
    }
  });
});

describe("message delivery over SSE", () => {
  it("sends session messages to the session's stream, other responses to the connection's; DELETE ends both", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, ["hello"]);
    const { url } = await startAcpHttp(t, agent);
    const peer = new HttpPeer(url);
    await peer.open();
    const connectionStream = await peer.openStream();
    const session = await peer.newSession(cwd);
    assert.equal(
      connectionStream.messages.length,
      1,
      "responses without a session are sent to the connection's stream",
    );
    const sessionStream = await peer.openStream(session);
    assert.deepEqual(await peer.prompt(session, "x"), { stopReason: "end_turn" });
    assert.equal(connectionStream.messages.length, 1);
    assert.ok(sessionStream.messages.some(isUpdate));
    // The title of the session is generated after the run, so its update can arrive later.
    const sessionMessages = sessionStream.messages.filter(
      ({ params }) => params?.update?.sessionUpdate !== "session_info_update",
    );
    assert.equal(sessionMessages.at(-1).result.stopReason, "end_turn");
    assert.equal((await peer.closeConnection()).status, 202);
    await Promise.all([connectionStream.ended, sessionStream.ended]);
    peer.assertNoValidationErrors();
  });

  it("sends to the connection's stream if the session has no stream, and buffers messages without any stream", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, ["one", "two"]);
    const { url } = await startAcpHttp(t, agent);
    const peer = new HttpPeer(url);
    await peer.open();
    const pendingSession = peer.newSession(cwd);
    await Promise.all(peer.postResponses);
    const streams = new ServerStreams(t);
    const connectionStream = await peer.openStream();
    const session = await pendingSession;
    await peer.prompt(session, "x");
    assert.equal(peer.getText(session), "one");
    connectionStream.close();
    await streams.waitForLastClose();
    const result = peer.prompt(session, "y");
    const runFinished = new Promise((resolve) => agent.on("run.finished", resolve));
    await runFinished;
    const sessionStream = await peer.openStream(session);
    assert.deepEqual(await result, { stopReason: "end_turn" });
    assert.equal(peer.getText(session), "onetwo");
    assert.ok(sessionStream.messages.length >= 2);
    peer.assertNoValidationErrors();
  });

  it("a second GET for a stream ends the first stream, and no message is lost or repeated", async (t) => {
    const { path: cwd } = await tempDir(t);
    const texts = Array.from({ length: 40 }, (_, i) => `${i} `);
    let signalReplaced: (() => void) | undefined;
    const streamReplaced = new Promise<void>((resolve) => (signalReplaced = resolve));
    const steps = texts.flatMap((text) => [2, { type: "text" as const, block: "t", text }]);
    const { agent } = createScriptedAgent(t, [[...steps.slice(0, -1), streamReplaced, ...steps.slice(-1)]]);
    const { url } = await startAcpHttp(t, agent);
    const peer = new HttpPeer(url);
    await peer.open();
    await peer.openStream();
    const session = await peer.newSession(cwd);
    const firstStream = await peer.openStream(session);
    const result = peer.prompt(session, "x");
    await peer.waitForMessage(isUpdate);
    const secondStream = await peer.openStream(session);
    await firstStream.ended;
    signalReplaced?.();
    assert.deepEqual(await result, { stopReason: "end_turn" });
    assert.ok(secondStream.messages.length > 0);
    assert.equal(peer.getText(session), texts.join(""));
    peer.assertNoValidationErrors();
  });

  it("opens a stream for an unknown session id and delivers the session's error there", async (t) => {
    const { agent } = createScriptedAgent(t);
    const { url } = await startAcpHttp(t, agent);
    const peer = new HttpPeer(url);
    await peer.open();
    const stream = await peer.openStream("never-heard-of");
    assert.equal(stream.response.headers["content-type"], "text/event-stream");
    const response = peer.call("session/close", { sessionId: "never-heard-of" });
    assert.equal((await response).error?.message, "session not found");
    assert.equal(stream.messages.length, 1);
  });

  it("sends heartbeat comments on an idle stream", async (t) => {
    const { agent } = createScriptedAgent(t);
    const { url } = await startAcpHttp(t, agent, { heartbeatMs: 5 });
    const peer = new HttpPeer(url);
    await peer.open();
    const stream = await peer.openStream();
    await waitUntil(() => stream.commentCount >= 3);
  });

  it("closes a connection whose client reads none of 1,040 responses", async (t) => {
    const { agent } = createScriptedAgent(t);
    const { url } = await startAcpHttp(t, agent);
    const peer = new HttpPeer(url);
    await peer.open();
    const statuses = new Set<number>();
    const sendListRequests = async () => {
      for (let i = 0; i < 130; i += 1) statuses.add((await peer.post(LIST_REQUEST)).status);
    };
    await Promise.all(Array.from({ length: 8 }, sendListRequests));
    assert.deepEqual([...statuses].sort(), [202, 404]);
  });

  it("closes an idle connection after 500 ms; each request and an open stream keep it open", async (t) => {
    const { agent } = createScriptedAgent(t);
    const { url } = await startAcpHttp(t, agent, { idleMs: 500 });
    const [idlePeer, usedPeer] = [new HttpPeer(url), new HttpPeer(url)];
    // The session id is too long: the status is 400 while the connection exists, then 404.
    const getStreamStatus = async ({ connectionId }: HttpPeer) =>
      (
        await sendHttp(url, "GET", {
          ...SSE_HEADERS,
          "acp-connection-id": connectionId,
          "acp-session-id": "x".repeat(201),
        })
      ).status;
    t.mock.timers.enable({ apis: ["setTimeout"] });
    await Promise.all([idlePeer.open(), usedPeer.open()]);
    await usedPeer.openStream();
    t.mock.timers.tick(499);
    // Each request restarts the idle timer.
    assert.equal(await getStreamStatus(idlePeer), 400);
    t.mock.timers.tick(499);
    assert.equal(await getStreamStatus(idlePeer), 400);
    t.mock.timers.tick(500);
    assert.equal(await getStreamStatus(idlePeer), 404);
    t.mock.timers.reset();
    assert.ok(await usedPeer.request("session/list", {}));
  });

  it("DELETE during a prompt cancels the prompt, delivers its result and ends the streams", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, [{ chunks: [{ type: "text", block: "t", text: "half" }], hang: true }]);
    const { url } = await startAcpHttp(t, agent);
    const peer = new HttpPeer(url);
    await peer.open();
    const stream = await peer.openStream();
    const session = await peer.newSession(cwd);
    const result = peer.prompt(session, "x");
    await peer.waitForMessage(isUpdate);
    assert.equal((await peer.closeConnection()).status, 202);
    assert.equal((await peer.post(LIST_REQUEST)).status, 404);
    assert.deepEqual(await result, { stopReason: "cancelled" });
    await stream.ended;
    assert.equal((await agent.sessions.messages(session)).at(-1)?.parts.length, 1);
    peer.assertNoValidationErrors();
  });

  it("a client that does not read delays no other client and loses no text", async (t) => {
    const { path: cwd } = await tempDir(t);
    const chunkText = "x".repeat(10_000);
    // The text is split into two answers, because the length of one answer is limited. The tool does not exist, so the
    // model is called again.
    const halfAnswer = Array.from({ length: 300 }, () => ({ type: "text" as const, block: "t", text: chunkText }));
    const { agent } = createScriptedAgent(
      t,
      [[...halfAnswer, ...callTools(["none", {}])], halfAnswer, "quick"],
      LARGE_CONTEXT_OPTIONS,
    );
    const { url } = await startAcpHttp(t, agent);
    const [slowPeer, quickPeer] = [new HttpPeer(url), new HttpPeer(url)];
    await Promise.all([slowPeer.open(), quickPeer.open()]);
    const stream = await slowPeer.openStream();
    const session = await slowPeer.newSession(cwd);
    stream.response.pause();
    const result = slowPeer.prompt(session, "x");
    await new Promise((resolve) => agent.on("run.finished", resolve));
    await quickPeer.openStream();
    assert.deepEqual(await quickPeer.prompt(await quickPeer.newSession(cwd), "y"), { stopReason: "end_turn" });
    stream.response.resume();
    assert.deepEqual(await result, { stopReason: "end_turn" });
    assert.equal(slowPeer.getText(session).length, 6_000_000);
    assert.ok(slowPeer.getUpdates(session).length < 600, "adjacent chunks are joined");
    slowPeer.assertNoValidationErrors();
  });
});

describe("AcpHttpTransport start and stop", () => {
  it("stop resolves a running prompt as cancelled, ends its stream and closes the port", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, [{ chunks: [{ type: "text", block: "t", text: "half" }], hang: true }]);
    const listening = await startAcpHttp(t, agent);
    const peer = new HttpPeer(listening.url);
    await peer.open();
    const stream = await peer.openStream();
    const result = peer.prompt(await peer.newSession(cwd), "x");
    await peer.waitForMessage(isUpdate);
    const stopPromise = listening.stop(AbortSignal.timeout(50));
    assert.deepEqual(await result, { stopReason: "cancelled" });
    await Promise.all([stopPromise, stream.ended, listening.ended]);
    await assert.rejects(sendHttp(listening.url, "DELETE"));
    peer.assertNoValidationErrors();
  });

  it("start rejects a port in use, and host 0.0.0.0 without requiredHeaders", async (t) => {
    const { agent } = createScriptedAgent(t);
    const firstServer = await startAcpHttp(t, agent);
    const port = Number(new URL(firstServer.url).port);
    await assert.rejects(startAcpHttp(t, agent, { port }), { code: "listen" });
    await assert.rejects(startAcpHttp(t, agent, { host: "0.0.0.0" }), /set requiredHeaders/);
  });
});
