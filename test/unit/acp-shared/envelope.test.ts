import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { describe, it } from "node:test";
import { MemoryAcp, scriptedAgent } from "../../helpers/acp-agent.js";
import type { Json } from "../../helpers/acp-peer.js";

/** The answer of a new, initialized connection to one raw frame. */
async function answerTo(t: { after(run: () => Promise<void> | void): void }, frame: string): Promise<Json> {
  const { agent } = scriptedAgent(t);
  const peer = new MemoryAcp(t, agent).connect();
  await peer.initialize();
  const answer = peer.next(() => true);
  peer.raw(frame);
  const message = await answer;
  peer.assertClean();
  return message;
}

describe("JSON-RPC frames over ACP", () => {
  const rows: [name: string, frame: string, code: number, id: unknown][] = [
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
  for (const [name, frame, code, id] of rows) {
    it(`${name} is answered with ${code}`, async (t) => {
      const answer = await answerTo(t, frame);
      assert.equal(answer.error.code, code);
      assert.equal(answer.id, id);
    });
  }

  it("request ids of every type are echoed", async (t) => {
    const { agent } = scriptedAgent(t);
    const peer = new MemoryAcp(t, agent).connect();
    await peer.initialize();
    for (const id of [0, -1, 1, "1", "", "ü\u2028", null, Number.MAX_SAFE_INTEGER]) {
      const answer = await peer.call("session/list", {}, id);
      assert.equal(answer.id, id);
      assert.ok(answer.result);
    }
    peer.assertClean();
  });

  it("notifications and responses are never answered", async (t) => {
    const { agent } = scriptedAgent(t);
    const peer = new MemoryAcp(t, agent).connect();
    await peer.initialize();
    const before = peer.received.length;
    peer.notify("no/such");
    peer.notify("session/prompt", {});
    peer.notify("session/cancel", {});
    peer.notify("$/cancelRequest");
    peer.notify("$/cancel_request", { requestId: 99 });
    peer.send({ jsonrpc: "2.0", id: 77, result: {} });
    peer.send({ jsonrpc: "2.0", id: 78, error: { code: 1, message: "x" } });
    await peer.request("session/list", {});
    assert.equal(peer.received.length, before + 1);
  });

  it("the connection stays usable after every invalid frame", async (t) => {
    const { agent } = scriptedAgent(t);
    const peer = new MemoryAcp(t, agent).connect();
    await peer.initialize();
    for (const [, frame] of rows) peer.raw(frame);
    assert.ok((await peer.newSession(tmpdir())).length > 0);
    peer.assertClean();
  });
});

describe("JSON-RPC methods and params over ACP", () => {
  it("a method before initialize is answered with -32600, an unknown method always with -32601", async (t) => {
    const { agent } = scriptedAgent(t);
    const peer = new MemoryAcp(t, agent).connect();
    assert.equal((await peer.call("session/list")).error?.code, -32600);
    assert.equal((await peer.call("no/such")).error?.code, -32601);
    await peer.initialize();
    assert.equal((await peer.call("no/such")).error?.code, -32601);
    assert.equal((await peer.call("_x", { a: 1 })).error?.code, -32601);
    assert.equal((await peer.call("__proto__")).error?.code, -32601);
  });

  it("initialize accepts protocol versions 1 and 65535, answers version 1, and rejects invalid params", async (t) => {
    const { agent } = scriptedAgent(t);
    const peer = new MemoryAcp(t, agent).connect();
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
    const invalidAnswer = await peer.call("initialize", { protocolVersion: 1, clientInfo: 5 });
    assert.match(invalidAnswer.error?.message ?? "", /clientInfo/);
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
    peer.assertClean();
  });

  const rows: [method: string, params: Json, field: string][] = [
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
  for (const [method, params, field] of rows) {
    it(`${method} ${JSON.stringify(params)} is rejected with -32602 and field ${field}`, async (t) => {
      const answer = await answerTo(t, JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }));
      assert.equal(answer.error.code, -32602);
      assert.deepEqual(answer.error.data, { field });
      assert.ok(answer.error.message.includes(field), answer.error.message);
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
      const answer = await answerTo(t, JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }));
      assert.deepEqual(answer.error, { code: -32602, message: "session not found", data: { sessionId: "nope" } });
    });
  }
});
