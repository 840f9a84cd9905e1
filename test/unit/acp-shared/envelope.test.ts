import assert from "node:assert/strict";
import { stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { describe, it } from "node:test";
import { InProcessAcp, createScriptedAgent } from "../../helpers/acp-agent.js";
import type { Json } from "../../helpers/acp-peer.js";
import { createRecordingLogger } from "../../helpers/mcp-servers.js";
import type { Hooks } from "../../helpers/temp-dir.js";

/** Sends one raw frame on a new, initialized connection. Returns the next message. */
async function sendFrame(t: Hooks, frame: string): Promise<Json> {
  const { agent } = createScriptedAgent(t);
  const peer = new InProcessAcp(t, agent).connect();
  await peer.initialize();
  const nextMessage = peer.waitForNext(() => true);
  peer.sendText(frame);
  const message = await nextMessage;
  peer.assertNoValidationErrors();
  return message;
}

describe("JSON-RPC frames over ACP", () => {
  const cases: [name: string, frame: string, code: number, id: unknown][] = [
    ["text that is not JSON", "hello", -32700, null],
    ["an incomplete object", '{"jsonrpc":"2.0","id":1', -32700, null],
    ["a batch", '[{"jsonrpc":"2.0","id":1,"method":"session/list"}]', -32600, null],
    ["an empty batch", "[]", -32600, null],
    ["a number", "5", -32600, null],
    ["a string", '"x"', -32600, null],
    ["null", "null", -32600, null],
    ["true", "true", -32600, null],
    ["arrays 10,000 deep", "[".repeat(10_000) + "]".repeat(10_000), -32600, null],
    ["an object 10,000 deep", '{"a":'.repeat(10_000) + "1" + "}".repeat(10_000), -32600, null],
    ["an empty object", "{}", -32600, null],
    ["a request without jsonrpc", '{"id":1,"method":"session/list"}', -32600, 1],
    ["a request with jsonrpc 1.0", '{"jsonrpc":"1.0","id":"a","method":"session/list"}', -32600, "a"],
    ["a request with jsonrpc as a number", '{"jsonrpc":2.0,"id":7,"method":"session/list"}', -32600, 7],
    ["a method that is not a string", '{"jsonrpc":"2.0","id":3,"method":5}', -32600, 3],
    ["a fractional id", '{"jsonrpc":"2.0","id":1.5,"method":"session/list"}', -32600, null],
    ["an id that is an object", '{"jsonrpc":"2.0","id":{},"method":"session/list"}', -32600, null],
    ["an id that is true", '{"jsonrpc":"2.0","id":true,"method":"session/list"}', -32600, null],
    ["an id beyond 2^53", '{"jsonrpc":"2.0","id":9007199254740993,"method":"session/list"}', -32600, null],
    ["a message that is neither request nor response", '{"jsonrpc":"2.0","id":9}', -32600, 9],
    [
      "a response with result and error",
      '{"jsonrpc":"2.0","id":9,"result":{},"error":{"code":1,"message":"x"}}',
      -32600,
      9,
    ],
    ["an error that is not an object", '{"jsonrpc":"2.0","id":9,"error":"x"}', -32600, 9],
  ];
  for (const [name, frame, code, id] of cases) {
    it(`${name} receives error ${code}`, async (t) => {
      const response = await sendFrame(t, frame);
      assert.equal(response.error.code, code);
      assert.equal(response.id, id);
    });
  }

  it("responses repeat the request id, for ids of every type", async (t) => {
    const { agent } = createScriptedAgent(t);
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize();
    for (const id of [0, -1, 1, "1", "", "ü\u2028", null, Number.MAX_SAFE_INTEGER]) {
      const response = await peer.call("session/list", {}, id);
      assert.equal(response.id, id);
      assert.ok(response.result);
    }
    peer.assertNoValidationErrors();
  });

  it("notifications and responses receive no response", async (t) => {
    const { agent } = createScriptedAgent(t);
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize();
    const messageCount = peer.receivedMessages.length;
    peer.notify("no/such");
    peer.notify("session/prompt", {});
    peer.notify("session/cancel", {});
    peer.notify("$/cancelRequest");
    peer.notify("$/cancel_request", { requestId: 99 });
    peer.send({ jsonrpc: "2.0", id: 77, result: {} });
    peer.send({ jsonrpc: "2.0", id: 78, error: { code: 1, message: "x" } });
    await peer.request("session/list", {});
    assert.equal(peer.receivedMessages.length, messageCount + 1);
  });

  it("a notification that the end of the connection interrupts is no logged error", async (t) => {
    const { agent } = createScriptedAgent(t);
    const logger = createRecordingLogger();
    const acp = new InProcessAcp(t, agent, {}, logger);
    const peer = acp.connect();
    await peer.initialize();
    const sessionId = await peer.newSession(tmpdir());
    await peer.prompt(sessionId, "hi");
    peer.notify("session/load", { sessionId, cwd: tmpdir(), mcpServers: [] });
    acp.server.disconnect(peer.connection);
    // The load checks the folder before it stops.
    for (let n = 0; n < 100; n++) await stat(tmpdir());
    assert.deepEqual(
      logger.lines.filter(([level]) => level === "error"),
      [],
    );
  });

  it("the connection stays usable after every invalid frame", async (t) => {
    const { agent } = createScriptedAgent(t);
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize();
    for (const [, frame] of cases) peer.sendText(frame);
    assert.ok((await peer.newSession(tmpdir())).length > 0);
    peer.assertNoValidationErrors();
  });
});

describe("JSON-RPC methods and params over ACP", () => {
  it("a method before initialize receives -32600, and an unknown method always receives -32601", async (t) => {
    const { agent } = createScriptedAgent(t);
    const peer = new InProcessAcp(t, agent).connect();
    assert.equal((await peer.call("session/list")).error?.code, -32600);
    assert.equal((await peer.call("no/such")).error?.code, -32601);
    await peer.initialize();
    assert.equal((await peer.call("no/such")).error?.code, -32601);
    assert.equal((await peer.call("_x", { a: 1 })).error?.code, -32601);
    assert.equal((await peer.call("__proto__")).error?.code, -32601);
  });

  it("initialize accepts protocol versions 1 and 65535, returns version 1, and rejects invalid params", async (t) => {
    const { agent } = createScriptedAgent(t);
    const peer = new InProcessAcp(t, agent).connect();
    for (const params of [
      undefined,
      {},
      [],
      { protocolVersion: 0 },
      { protocolVersion: "1" },
      { protocolVersion: 1.5 },
      { protocolVersion: null },
    ]) {
      assert.equal((await peer.call("initialize", params)).error?.code, -32602, JSON.stringify(params));
    }
    const invalidResponse = await peer.call("initialize", { protocolVersion: 1, clientInfo: 5 });
    assert.match(invalidResponse.error?.message ?? "", /clientInfo/);
    assert.equal((await peer.request("initialize", { protocolVersion: 65535 })).protocolVersion, 1);
    const result = await peer.request("initialize", { protocolVersion: 1 });
    assert.deepEqual(result, {
      protocolVersion: 1,
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true, audio: false, embeddedContext: true },
        mcpCapabilities: { http: true, sse: false },
        sessionCapabilities: { list: {}, delete: {}, resume: {}, close: {}, additionalDirectories: {} },
      },
      agentInfo: { name: "gantry", title: "Gantry", version: agent.version },
      authMethods: [],
    });
    peer.assertNoValidationErrors();
  });

  const cases: [method: string, params: Json, field: string][] = [
    ["session/new", {}, "cwd"],
    ["session/new", { cwd: 5 }, "cwd"],
    ["session/new", { cwd: "relative" }, "cwd"],
    ["session/new", { cwd: "/no/such/folder" }, "cwd"],
    ["session/new", { cwd: tmpdir(), mcpServers: {} }, "mcpServers"],
    ["session/new", [], "params"],
    ["session/load", { cwd: tmpdir() }, "sessionId"],
    ["session/load", { sessionId: "x" }, "cwd"],
    ["session/resume", { sessionId: 5, cwd: tmpdir() }, "sessionId"],
    ["session/prompt", { prompt: [] }, "sessionId"],
    ["session/prompt", { sessionId: "x" }, "prompt"],
    ["session/prompt", { sessionId: "x", prompt: [] }, "prompt"],
    ["session/prompt", { sessionId: "x", prompt: [5] }, "prompt[0]"],
    ["session/prompt", { sessionId: "x", prompt: [{ type: "text" }] }, "prompt[0].text"],
    ["session/prompt", { sessionId: "x", prompt: [{ type: "image", data: "", mimeType: "image/png" }] }, "prompt"],
    ["session/close", {}, "sessionId"],
    ["session/delete", {}, "sessionId"],
    ["session/list", { cursor: 5 }, "cursor"],
    ["session/list", { cursor: "!!" }, "cursor"],
    ["session/list", { cwd: {} }, "cwd"],
  ];
  for (const [method, params, field] of cases) {
    it(`${method} ${JSON.stringify(params)} is rejected with -32602 and field ${field}`, async (t) => {
      const response = await sendFrame(t, JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }));
      assert.equal(response.error.code, -32602);
      assert.deepEqual(response.error.data, { field });
      assert.ok(response.error.message.includes(field), response.error.message);
    });
  }

  for (const method of [
    "session/load",
    "session/resume",
    "session/prompt",
    "session/close",
    "session/delete",
    "session/set_config_option",
  ]) {
    it(`${method} of an unknown session fails with "session not found"`, async (t) => {
      const params = {
        sessionId: "nope",
        cwd: tmpdir(),
        prompt: [{ type: "text", text: "x" }],
        configId: "model",
        value: "a/b",
      };
      const response = await sendFrame(t, JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }));
      assert.deepEqual(response.error, { code: -32602, message: "session not found", data: { sessionId: "nope" } });
    });
  }
});
