import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ProviderError } from "gantry";
import { callTools, finish, say } from "gantry/testing";
import { acpClient, type Profile } from "../../../adapters/acp-shared/index.js";
import { toRunUpdates } from "../../../adapters/acp-shared/updates.js";
import { assertValidMessage } from "../../helpers/acp-schema.js";
import { MemoryAcp, scriptedAgent, testTool } from "../../helpers/acp-agent.js";
import type { Json } from "../../helpers/acp-peer.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

const PROFILES: readonly Profile[] = ["spec", "official"];

/** An agent whose model first hangs. `modelCalled` resolves when the model has been called. */
function hanging(t: Hooks, ...laterSteps: string[]) {
  let signalModelCalled: () => void = () => undefined;
  const modelCalled = new Promise<void>((resolve) => (signalModelCalled = resolve));
  return { ...scriptedAgent(t, [() => (signalModelCalled(), { hang: true }), ...laterSteps]), modelCalled };
}

for (const profile of PROFILES) {
  describe(`session/prompt (profile ${profile})`, () => {
    it("streams text, thoughts and tool calls, then usage, then the result as the last message", async (t) => {
      const { path: cwd } = await tempDir(t);
      const edit = testTool(
        "edit",
        () => ({
          text: "edited",
          diff: [{ path: "/tmp/a", oldText: null, newText: "new" }],
          locations: [{ path: "/tmp/a", line: 2 }],
        }),
        { kind: "edit" },
      );
      const fail = testTool("fail", () => Promise.reject(new Error("broken pipe")), { kind: "execute" });
      const { agent } = scriptedAgent(
        t,
        [
          [
            { type: "reasoning", block: "r", text: "I think" },
            { type: "text", block: "t", text: "First " },
            { type: "text", block: "t", text: "this." },
            ...callTools(["edit", { a: 1 }], ["fail", { b: 2 }]),
          ],
          say("Done.", { inputTokens: 100, outputTokens: 20 }),
        ],
        { tools: [edit, fail] },
      );
      const peer = new MemoryAcp(t, agent, { profile }).connect();
      await peer.initialize();
      const session = await peer.newSession(cwd);
      assert.deepEqual(await peer.prompt(session, "go"), { stopReason: "end_turn" });
      const count = peer.received.length;
      const updates = peer.updates(session);
      const thought = updates.find((update) => update.sessionUpdate === "agent_thought_chunk");
      assert.deepEqual(thought.content, { type: "text", text: "I think" });
      assert.equal(peer.text(session), "First this.Done.");
      const calls = updates.filter((update) => update.sessionUpdate === "tool_call");
      assert.deepEqual(calls[0], {
        sessionUpdate: "tool_call",
        toolCallId: calls[0].toolCallId,
        title: 'edit {"a":1}',
        kind: profile === "spec" ? "other" : "edit",
        status: "pending",
        locations: [{ path: "/tmp/place", line: 3 }],
        rawInput: { a: 1 },
      });
      const states = updates.filter((update) => update.sessionUpdate === "tool_call_update");
      const startedCallIds = states
        .filter(({ status }) => status === "in_progress")
        .map(({ toolCallId }) => toolCallId);
      assert.deepEqual(startedCallIds, profile === "spec" ? [] : calls.map(({ toolCallId }) => toolCallId));
      const ends = states.filter(({ status }) => status !== "in_progress");
      assert.deepEqual(ends[0], {
        sessionUpdate: "tool_call_update",
        toolCallId: calls[0].toolCallId,
        status: "completed",
        content: [{ type: "diff", path: "/tmp/a", oldText: null, newText: "new" }],
        locations: [{ path: "/tmp/a", line: 2 }],
        rawOutput: "edited",
      });
      assert.equal(ends[1].status, "failed");
      assert.equal(ends[1].toolCallId, calls[1].toolCallId);
      assert.match(ends[1].content[0].content.text, /broken pipe/);
      const size = profile === "spec" ? 200_000 : 128_000;
      assert.deepEqual(updates.at(-1), {
        sessionUpdate: "usage_update",
        used: 120,
        size,
        cost: { amount: 0, currency: "USD" },
      });
      const stored = await agent.sessions.messages(session);
      const ids = new Set(stored.map(({ id }) => id));
      for (const update of updates) if (update.messageId !== undefined) assert.ok(ids.has(update.messageId));
      assert.equal(
        peer.received.findIndex((message) => message.result?.stopReason),
        count - 1,
      );
      peer.assertClean();
    });

    it("sends the session's earlier messages to the model", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent, provider } = scriptedAgent(t, ["one", "two"]);
      const peer = new MemoryAcp(t, agent, { profile }).connect();
      await peer.initialize();
      const session = await peer.newSession(cwd);
      await peer.prompt(session, "first");
      await peer.prompt(session, "second");
      assert.deepEqual(
        provider.requests[1]?.messages.map(({ role }) => role),
        ["user", "assistant", "user"],
      );
      peer.assertClean();
    });

    it("reports why a run failed, and the session stays usable", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent } = scriptedAgent(t, [new ProviderError("scripted", "authentication", "bad key", { status: 401 })]);
      const peer = new MemoryAcp(t, agent, { profile }).connect();
      await peer.initialize();
      const session = await peer.newSession(cwd);
      const answer = await peer.call("session/prompt", { sessionId: session, prompt: [{ type: "text", text: "x" }] });
      if (profile === "spec") {
        assert.equal(answer.result.stopReason, "error");
        assert.equal(answer.result._meta.error.message, "scripted: 401: bad key");
        assert.equal(peer.text(session), "scripted: 401: bad key");
      } else {
        assert.deepEqual(answer.error, { code: -32603, message: "scripted: 401: bad key" });
        assert.equal(peer.text(session), "");
      }
      assert.ok(await peer.prompt(session, "again"), "the session goes on");
      peer.assertClean();
    });

    it("maps length, content filter and iteration limit to stop reasons, or to end_turn in profile spec", async (t) => {
      const { path: cwd } = await tempDir(t);
      const loop = testTool("again", () => ({ text: "more" }));
      const cases: [Json, string][] = [
        [[{ type: "text", block: "t", text: "cut" }, finish("length")], "max_tokens"],
        [[{ type: "text", block: "t", text: "no" }, finish("content_filter")], "refusal"],
        [callTools(["again", {}]), "max_turn_requests"],
      ];
      for (const [step, official] of cases) {
        const { agent } = scriptedAgent(t, [step], { tools: [loop], maxIterations: 1 });
        const peer = new MemoryAcp(t, agent, { profile }).connect();
        await peer.initialize();
        const { stopReason } = await peer.prompt(await peer.newSession(cwd), "x");
        assert.equal(stopReason, profile === "spec" ? "end_turn" : official);
        peer.assertClean();
      }
    });

    it("accepts mixed blocks: official reads text, image, link and resource, spec reads the first text", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent, provider } = scriptedAgent(t, [], {});
      const peer = new MemoryAcp(t, agent, { profile }).connect();
      await peer.initialize();
      const session = await peer.newSession(cwd);
      const prompt = [
        { type: "text", text: "look" },
        { type: "image", data: "aGk=", mimeType: "image/png" },
        { type: "resource_link", uri: "file:///x/y.ts", name: "y.ts" },
        { type: "resource", resource: { uri: "file:///x/z.ts", text: "content of z" } },
        { type: "audio", data: "aGk=", mimeType: "audio/wav" },
        { type: "text", text: "well" },
      ];
      assert.equal((await peer.request("session/prompt", { sessionId: session, prompt })).stopReason, "end_turn");
      const [user] = await agent.sessions.messages(session, { limit: 1 });
      assert.ok(user && provider.requests.length === 1);
      const text = user.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
      if (profile === "spec") {
        assert.equal(text, "look");
        assert.equal(user.parts.length, 1);
      } else {
        assert.equal(
          text,
          'look\n[@y.ts](file:///x/y.ts)\n<context ref="file:///x/z.ts">\ncontent of z\n</context>\nwell',
        );
        assert.deepEqual(
          user.parts.find((part) => part.type === "image"),
          { type: "image", mediaType: "image/png", data: "aGk=" },
        );
      }
      peer.assertClean();
    });
  });
}

describe("cancellation over ACP", () => {
  it("session/cancel resolves the prompt as cancelled while a tool still runs, and reports its call as failed", async (t) => {
    const { path: cwd } = await tempDir(t);
    let ended: () => void = () => undefined;
    const stubborn = testTool("stubborn", () => new Promise((resolve) => (ended = () => resolve({ text: "late" }))));
    const { agent } = scriptedAgent(t, [callTools(["stubborn", {}]), "next"], { tools: [stubborn] });
    const peer = new MemoryAcp(t, agent).connect();
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const result = peer.prompt(session, "go");
    await peer.seen((message) => message.params?.update?.sessionUpdate === "tool_call");
    peer.notify("session/cancel", { sessionId: session });
    assert.deepEqual(await result, { stopReason: "cancelled" });
    const [last, usage] = peer.updates(session).slice(-2);
    assert.equal(last.status, "failed");
    assert.equal(usage.sessionUpdate, "usage_update", "the model's first answer was paid for");
    ended();
    assert.deepEqual(await peer.prompt(session, "go on"), { stopReason: "end_turn" });
    peer.assertClean();
  });

  it("session/cancel right after the prompt cancels it before the model is called", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent, provider } = scriptedAgent(t);
    const peer = new MemoryAcp(t, agent).connect();
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const result = peer.prompt(session, "go");
    peer.notify("session/cancel", { sessionId: session });
    assert.deepEqual(await result, { stopReason: "cancelled" });
    assert.equal(provider.requests.length, 0);
  });

  it("$/cancel_request cancels the request that it names; $/cancelRequest has no effect", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, [{ chunks: [{ type: "text", block: "t", text: "hm" }], hang: true }]);
    const peer = new MemoryAcp(t, agent).connect();
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const result = peer.call("session/prompt", { sessionId: session, prompt: [{ type: "text", text: "x" }] }, "p1");
    await peer.seen((message) => message.params?.update?.sessionUpdate === "agent_message_chunk");
    peer.notify("$/cancelRequest", { id: "p1", requestId: "p1" });
    peer.notify("$/cancel_request", { requestId: "other" });
    await peer.request("session/list", {});
    peer.notify("$/cancel_request", { requestId: "p1" });
    assert.deepEqual((await result).result, { stopReason: "cancelled" });
    const list = peer.call("session/list", {}, 50);
    peer.notify("$/cancel_request", { requestId: 50 });
    assert.equal((await list).error?.code, -32800);
    peer.assertClean();
  });

  it("a second prompt fails with -32600 while one runs; a prompt sent after a cancel waits for its end", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent, modelCalled } = hanging(t, "second");
    const acp = new MemoryAcp(t, agent);
    const peer = acp.connect();
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const first = peer.prompt(session, "one");
    await modelCalled;
    const busy = await peer.call("session/prompt", { sessionId: session, prompt: [{ type: "text", text: "two" }] });
    assert.deepEqual(busy.error, { code: -32600, message: "session is busy", data: { sessionId: session } });
    const secondPeer = acp.connect();
    await secondPeer.initialize();
    const { id } = (await agent.sessions.get(session))!;
    const otherClientAnswer = await secondPeer.call("session/prompt", {
      sessionId: id,
      prompt: [{ type: "text", text: "two" }],
    });
    assert.equal(otherClientAnswer.error?.code, -32600);
    assert.equal(otherClientAnswer.error?.message, "session is busy");
    peer.notify("session/cancel", { sessionId: session });
    const second = peer.prompt(session, "three");
    assert.deepEqual(await first, { stopReason: "cancelled" });
    assert.deepEqual(await second, { stopReason: "end_turn" });
    peer.assertClean();
  });

  it("session/close and session/delete resolve a running prompt as cancelled before they answer", async (t) => {
    const { path: cwd } = await tempDir(t);
    for (const method of ["session/close", "session/delete"]) {
      const { agent, modelCalled } = hanging(t);
      const peer = new MemoryAcp(t, agent).connect();
      await peer.initialize();
      const session = await peer.newSession(cwd);
      const result = peer.prompt(session, "x");
      await modelCalled;
      const answer = await peer.call(method, { sessionId: session });
      assert.deepEqual(answer.result, method === "session/close" ? {} : null);
      assert.deepEqual(await result, { stopReason: "cancelled" });
      const order = peer.received.flatMap((message) => ("result" in message ? [message.result] : []));
      assert.equal(order.at(-2)?.stopReason, "cancelled", "the prompt is answered before the close");
      const laterAnswer = await peer.call("session/prompt", {
        sessionId: session,
        prompt: [{ type: "text", text: "x" }],
      });
      assert.equal(laterAnswer.error === undefined, method === "session/close");
      peer.assertClean();
    }
  });

  it("a lost connection cancels its prompts and keeps the partial answer", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, [{ chunks: [{ type: "text", block: "t", text: "half a" }], hang: true }]);
    const acp = new MemoryAcp(t, agent);
    const peer = acp.connect();
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const failed = new Promise((resolve) => agent.on("run.failed", resolve));
    peer.notify("session/prompt", { sessionId: session, prompt: [{ type: "text", text: "x" }] });
    await peer.seen((message) => message.params?.update?.sessionUpdate === "agent_message_chunk");
    const count = peer.received.length;
    acp.server.disconnect(peer.connection);
    await failed;
    const messages = await agent.sessions.messages(session);
    assert.deepEqual(messages.at(-1)?.parts, [{ type: "text", text: "half a" }]);
    assert.equal(peer.received.length, count);
  });
});

describe("compaction updates", () => {
  const event = { type: "compaction", strategy: "sliding-window", messages: 7, tokens: 900 } as const;

  it("are a text chunk, after a compaction_update if the client supports compactions", () => {
    const text = "[Context compacted (sliding-window) — 7 messages, 900 tokens]";
    const [chunk, ...otherUpdates] = toRunUpdates(event, "spec", false) as Json[];
    assert.deepEqual(otherUpdates, []);
    assert.equal(chunk.sessionUpdate, "agent_message_chunk");
    assert.deepEqual(chunk.content, { type: "text", text });
    const both = toRunUpdates(event, "official", true) as Json[];
    assert.deepEqual(
      both.map(({ sessionUpdate }) => sessionUpdate),
      ["compaction_update", "agent_message_chunk"],
    );
    for (const update of [chunk, ...both]) {
      const message = { jsonrpc: "2.0", method: "session/update", params: { sessionId: "s", update } };
      assertValidMessage(message, undefined, "official");
    }
  });
});

describe("requests to the ACP client", () => {
  it("session/cancel withdraws an open permission request with $/cancel_request", async (t) => {
    const { path: cwd } = await tempDir(t);
    const risky = testTool("risky", () => ({ text: "ran" }), { needsPermission: true });
    const { agent } = scriptedAgent(t, [callTools(["risky", {}])], { tools: [risky] });
    const peer = new MemoryAcp(t, agent, { requestPermission: true }).connect();
    await peer.initialize();
    const session = await peer.newSession(cwd);
    peer.onRequest = () => undefined;
    const result = peer.prompt(session, "x");
    const question = await peer.seen((message) => message.method === "session/request_permission");
    peer.notify("session/cancel", { sessionId: session });
    assert.deepEqual(await result, { stopReason: "cancelled" });
    const cancelRequest = await peer.seen((message) => message.method === "$/cancel_request");
    assert.equal(cancelRequest.params.requestId, question.id);
    const stored = (await agent.sessions.messages(session)).at(-1);
    assert.deepEqual(
      stored?.parts,
      [{ type: "text", text: "[cancelled before it ran]" }],
      "it is known not to have run",
    );
    peer.assertClean();
  });

  it("no permission is requested without acp.request_permission", async (t) => {
    const { path: cwd } = await tempDir(t);
    const risky = testTool("risky", () => ({ text: "ran" }), { needsPermission: true });
    const { agent } = scriptedAgent(t, [callTools(["risky", {}]), "done"], { tools: [risky] });
    const peer = new MemoryAcp(t, agent).connect();
    await peer.initialize();
    const session = await peer.newSession(cwd);
    await peer.prompt(session, "x");
    assert.ok(!peer.received.some((message) => message.method === "session/request_permission"));
  });

  it("a plugin's tool reads and writes files of the client through acpClient, only while a prompt runs", async (t) => {
    const { path: cwd } = await tempDir(t);
    const tool = testTool("client", async (_args, { sessionId, signal }) => {
      const client = acpClient(sessionId);
      assert.ok(client);
      assert.deepEqual(client.capabilities, { readTextFile: true, writeTextFile: false });
      await client.writeTextFile({ path: "/a", content: "x" }, { signal });
      return { text: await client.readTextFile({ path: "/a", line: 1, limit: 2 }, { signal, timeoutMs: 5_000 }) };
    });
    const { agent } = scriptedAgent(t, [callTools(["client", {}]), "done", callTools(["client", {}]), "done"], {
      tools: [tool],
    });
    const peer = new MemoryAcp(t, agent).connect();
    await peer.initialize({ clientCapabilities: { fs: { readTextFile: true, writeTextFile: false } } });
    const session = await peer.newSession(cwd);
    const requests: Json[] = [];
    peer.onRequest = (method, params) => {
      requests.push([method, params]);
      return method === "fs/read_text_file" ? { content: "unsaved" } : {};
    };
    await peer.prompt(session, "x");
    assert.equal(peer.updates(session).find(({ status }) => status === "completed").rawOutput, "unsaved");
    assert.deepEqual(requests, [
      ["fs/write_text_file", { sessionId: session, path: "/a", content: "x" }],
      ["fs/read_text_file", { sessionId: session, path: "/a", line: 1, limit: 2 }],
    ]);
    peer.onRequest = undefined;
    await peer.prompt(session, "y");
    const last = peer
      .updates(session)
      .filter((update) => update.sessionUpdate === "tool_call_update")
      .at(-1);
    assert.equal(last.status, "failed");
    assert.match(last.rawOutput, /method not found/);
    const { chain } = (await agent.sessions.get(session))!;
    assert.equal(acpClient(chain.root), undefined, "gone with the prompt");
    peer.assertClean();
  });
});
