import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ProviderError } from "gantry";
import { callTools, finish, say } from "gantry/testing";
import { acpClient, type Profile } from "../../../adapters/acp-shared/index.js";
import { toRunUpdates } from "../../../adapters/acp-shared/updates.js";
import { assertValidMessage } from "../../helpers/acp-schema.js";
import { InProcessAcp, createScriptedAgent, createTestTool } from "../../helpers/acp-agent.js";
import type { Json } from "../../helpers/acp-peer.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

const PROFILES: readonly Profile[] = ["spec", "official"];

/** Creates an agent whose first model call hangs. `modelCalled` resolves at that call. */
function createHangingAgent(t: Hooks, ...laterSteps: string[]) {
  let signalModelCalled: () => void = () => undefined;
  const modelCalled = new Promise<void>((resolve) => (signalModelCalled = resolve));
  return { ...createScriptedAgent(t, [() => (signalModelCalled(), { hang: true }), ...laterSteps]), modelCalled };
}

for (const profile of PROFILES) {
  describe(`session/prompt (profile ${profile})`, () => {
    it("streams text, thoughts and tool calls, then usage, then the result as the last message", async (t) => {
      const { path: cwd } = await tempDir(t);
      const editTool = createTestTool(
        "edit",
        () => ({
          text: "edited",
          diff: [{ path: "/tmp/a", oldText: null, newText: "new" }],
          locations: [{ path: "/tmp/a", line: 2 }],
        }),
        { kind: "edit" },
      );
      const failTool = createTestTool("fail", () => Promise.reject(new Error("broken pipe")), { kind: "execute" });
      const { agent } = createScriptedAgent(
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
        { tools: [editTool, failTool] },
      );
      const peer = new InProcessAcp(t, agent, { profile }).connect();
      await peer.initialize();
      const session = await peer.newSession(cwd);
      assert.deepEqual(await peer.prompt(session, "go"), { stopReason: "end_turn" });
      const messageCount = peer.receivedMessages.length;
      const updates = peer.getUpdates(session);
      const thoughtUpdate = updates.find((update) => update.sessionUpdate === "agent_thought_chunk");
      assert.deepEqual(thoughtUpdate.content, { type: "text", text: "I think" });
      assert.equal(peer.getText(session), "First this.Done.");
      const toolCalls = updates.filter((update) => update.sessionUpdate === "tool_call");
      assert.deepEqual(toolCalls[0], {
        sessionUpdate: "tool_call",
        toolCallId: toolCalls[0].toolCallId,
        title: 'edit {"a":1}',
        kind: profile === "spec" ? "other" : "edit",
        status: "pending",
        locations: [{ path: "/tmp/place", line: 3 }],
        rawInput: { a: 1 },
      });
      const callUpdates = updates.filter((update) => update.sessionUpdate === "tool_call_update");
      const startedCallIds = callUpdates
        .filter(({ status }) => status === "in_progress")
        .map(({ toolCallId }) => toolCallId);
      assert.deepEqual(startedCallIds, profile === "spec" ? [] : toolCalls.map(({ toolCallId }) => toolCallId));
      const endUpdates = callUpdates.filter(({ status }) => status !== "in_progress");
      assert.deepEqual(endUpdates[0], {
        sessionUpdate: "tool_call_update",
        toolCallId: toolCalls[0].toolCallId,
        status: "completed",
        content: [{ type: "diff", path: "/tmp/a", oldText: null, newText: "new" }],
        locations: [{ path: "/tmp/a", line: 2 }],
        rawOutput: "edited",
      });
      assert.equal(endUpdates[1].status, "failed");
      assert.equal(endUpdates[1].toolCallId, toolCalls[1].toolCallId);
      assert.match(endUpdates[1].content[0].content.text, /broken pipe/);
      const contextSize = profile === "spec" ? 200_000 : 128_000;
      assert.deepEqual(updates.at(-1), {
        sessionUpdate: "usage_update",
        used: 120,
        size: contextSize,
        cost: { amount: 0, currency: "USD" },
      });
      const storedMessages = await agent.sessions.messages(session);
      const ids = new Set(storedMessages.map(({ id }) => id));
      for (const update of updates) if (update.messageId !== undefined) assert.ok(ids.has(update.messageId));
      assert.equal(
        peer.receivedMessages.findIndex((message) => message.result?.stopReason),
        messageCount - 1,
      );
      peer.assertNoValidationErrors();
    });

    it("sends the session's earlier messages to the model", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent, provider } = createScriptedAgent(t, ["one", "two"]);
      const peer = new InProcessAcp(t, agent, { profile }).connect();
      await peer.initialize();
      const session = await peer.newSession(cwd);
      await peer.prompt(session, "first");
      await peer.prompt(session, "second");
      assert.deepEqual(
        provider.requests[1]?.messages.map(({ role }) => role),
        ["user", "assistant", "user"],
      );
      peer.assertNoValidationErrors();
    });

    it("reports the error of a failed run, and the session stays usable", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent } = createScriptedAgent(t, [
        new ProviderError("scripted", "authentication", "bad key", { status: 401 }),
      ]);
      const peer = new InProcessAcp(t, agent, { profile }).connect();
      await peer.initialize();
      const session = await peer.newSession(cwd);
      const response = await peer.call("session/prompt", { sessionId: session, prompt: [{ type: "text", text: "x" }] });
      if (profile === "spec") {
        assert.equal(response.result.stopReason, "error");
        assert.equal(response.result._meta.error.message, "scripted: 401: bad key");
        assert.equal(peer.getText(session), "scripted: 401: bad key");
      } else {
        assert.deepEqual(response.error, { code: -32603, message: "scripted: 401: bad key" });
        assert.equal(peer.getText(session), "");
      }
      assert.ok(await peer.prompt(session, "again"), "the session accepts a prompt");
      peer.assertNoValidationErrors();
    });

    it("maps length, content filter and iteration limit to stop reasons, or to end_turn in profile spec", async (t) => {
      const { path: cwd } = await tempDir(t);
      const loopTool = createTestTool("again", () => ({ text: "more" }));
      const cases: [step: Json, stopReason: string][] = [
        [[{ type: "text", block: "t", text: "cut" }, finish("length")], "max_tokens"],
        [[{ type: "text", block: "t", text: "no" }, finish("content_filter")], "refusal"],
        [callTools(["again", {}]), "max_turn_requests"],
      ];
      for (const [step, officialStopReason] of cases) {
        const { agent } = createScriptedAgent(t, [step], { tools: [loopTool], maxIterations: 1 });
        const peer = new InProcessAcp(t, agent, { profile }).connect();
        await peer.initialize();
        const { stopReason } = await peer.prompt(await peer.newSession(cwd), "x");
        assert.equal(stopReason, profile === "spec" ? "end_turn" : officialStopReason);
        peer.assertNoValidationErrors();
      }
    });

    it("accepts mixed blocks, and reads text, image, link and resource, or the first text in profile spec", async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent, provider } = createScriptedAgent(t, [], {});
      const peer = new InProcessAcp(t, agent, { profile }).connect();
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
      const [userMessage] = await agent.sessions.messages(session, { limit: 1 });
      assert.ok(userMessage && provider.requests.length === 1);
      const text = userMessage.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
      if (profile === "spec") {
        assert.equal(text, "look");
        assert.equal(userMessage.parts.length, 1);
      } else {
        assert.equal(
          text,
          'look\n[@y.ts](file:///x/y.ts)\n<context ref="file:///x/z.ts">\ncontent of z\n</context>\nwell',
        );
        assert.deepEqual(
          userMessage.parts.find((part) => part.type === "image"),
          { type: "image", mediaType: "image/png", data: "aGk=" },
        );
      }
      peer.assertNoValidationErrors();
    });
  });
}

describe("cancellation over ACP", () => {
  it("session/cancel resolves the prompt as cancelled while a tool runs, and reports the tool call as failed", async (t) => {
    const { path: cwd } = await tempDir(t);
    let finishTool: () => void = () => undefined;
    const stubbornTool = createTestTool(
      "stubborn",
      () => new Promise((resolve) => (finishTool = () => resolve({ text: "late" }))),
    );
    const { agent } = createScriptedAgent(t, [callTools(["stubborn", {}]), "next"], { tools: [stubbornTool] });
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const result = peer.prompt(session, "go");
    await peer.waitForMessage((message) => message.params?.update?.sessionUpdate === "tool_call");
    peer.notify("session/cancel", { sessionId: session });
    assert.deepEqual(await result, { stopReason: "cancelled" });
    const [callUpdate, usageUpdate] = peer.getUpdates(session).slice(-2);
    assert.equal(callUpdate.status, "failed");
    assert.equal(usageUpdate.sessionUpdate, "usage_update", "the usage of the first model call is reported");
    finishTool();
    assert.deepEqual(await peer.prompt(session, "go on"), { stopReason: "end_turn" });
    peer.assertNoValidationErrors();
  });

  it("session/cancel directly after a prompt cancels the prompt before the model is called", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent, provider } = createScriptedAgent(t);
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const result = peer.prompt(session, "go");
    peer.notify("session/cancel", { sessionId: session });
    assert.deepEqual(await result, { stopReason: "cancelled" });
    assert.equal(provider.requests.length, 0);
  });

  it("$/cancel_request cancels the request with its requestId; $/cancelRequest has no effect", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, [{ chunks: [{ type: "text", block: "t", text: "hm" }], hang: true }]);
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const result = peer.call("session/prompt", { sessionId: session, prompt: [{ type: "text", text: "x" }] }, "p1");
    await peer.waitForMessage((message) => message.params?.update?.sessionUpdate === "agent_message_chunk");
    peer.notify("$/cancelRequest", { id: "p1", requestId: "p1" });
    peer.notify("$/cancel_request", { requestId: "other" });
    await peer.request("session/list", {});
    peer.notify("$/cancel_request", { requestId: "p1" });
    assert.deepEqual((await result).result, { stopReason: "cancelled" });
    const listResponse = peer.call("session/list", {}, 50);
    peer.notify("$/cancel_request", { requestId: 50 });
    assert.equal((await listResponse).error?.code, -32800);
    peer.assertNoValidationErrors();
  });

  it("a second prompt fails with -32600 while a prompt runs; after session/cancel it waits until that prompt ends", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent, modelCalled } = createHangingAgent(t, "second");
    const acp = new InProcessAcp(t, agent);
    const peer = acp.connect();
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const firstPrompt = peer.prompt(session, "one");
    await modelCalled;
    const busyResponse = await peer.call("session/prompt", {
      sessionId: session,
      prompt: [{ type: "text", text: "two" }],
    });
    assert.deepEqual(busyResponse.error, { code: -32600, message: "session is busy", data: { sessionId: session } });
    const secondPeer = acp.connect();
    await secondPeer.initialize();
    const { id } = (await agent.sessions.get(session))!;
    const otherClientResponse = await secondPeer.call("session/prompt", {
      sessionId: id,
      prompt: [{ type: "text", text: "two" }],
    });
    assert.equal(otherClientResponse.error?.code, -32600);
    assert.equal(otherClientResponse.error?.message, "session is busy");
    peer.notify("session/cancel", { sessionId: session });
    const secondPrompt = peer.prompt(session, "three");
    assert.deepEqual(await firstPrompt, { stopReason: "cancelled" });
    assert.deepEqual(await secondPrompt, { stopReason: "end_turn" });
    peer.assertNoValidationErrors();
  });

  it("session/close and session/delete resolve a running prompt as cancelled before they respond", async (t) => {
    const { path: cwd } = await tempDir(t);
    for (const method of ["session/close", "session/delete"]) {
      const { agent, modelCalled } = createHangingAgent(t);
      const peer = new InProcessAcp(t, agent).connect();
      await peer.initialize();
      const session = await peer.newSession(cwd);
      const result = peer.prompt(session, "x");
      await modelCalled;
      const response = await peer.call(method, { sessionId: session });
      assert.deepEqual(response.result, method === "session/close" ? {} : null);
      assert.deepEqual(await result, { stopReason: "cancelled" });
      const results = peer.receivedMessages.flatMap((message) => ("result" in message ? [message.result] : []));
      assert.equal(results.at(-2)?.stopReason, "cancelled", "the prompt is resolved before the close");
      const laterResponse = await peer.call("session/prompt", {
        sessionId: session,
        prompt: [{ type: "text", text: "x" }],
      });
      assert.equal(laterResponse.error === undefined, method === "session/close");
      peer.assertNoValidationErrors();
    }
  });

  it("a lost connection cancels its prompts and keeps the partial answer", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, [{ chunks: [{ type: "text", block: "t", text: "half a" }], hang: true }]);
    const acp = new InProcessAcp(t, agent);
    const peer = acp.connect();
    await peer.initialize();
    const session = await peer.newSession(cwd);
    const runFailed = new Promise((resolve) => agent.on("run.failed", resolve));
    peer.notify("session/prompt", { sessionId: session, prompt: [{ type: "text", text: "x" }] });
    await peer.waitForMessage((message) => message.params?.update?.sessionUpdate === "agent_message_chunk");
    const messageCount = peer.receivedMessages.length;
    acp.server.disconnect(peer.connection);
    await runFailed;
    const messages = await agent.sessions.messages(session);
    assert.deepEqual(messages.at(-1)?.parts, [{ type: "text", text: "half a" }]);
    assert.equal(peer.receivedMessages.length, messageCount);
  });
});

describe("compaction updates", () => {
  const compactionEvent = { type: "compaction", strategy: "sliding-window", messages: 7, tokens: 900 } as const;

  it("are sent as a text chunk, after a compaction_update if the client supports compactions", () => {
    const text = "[Context compacted (sliding-window) — 7 messages, 900 tokens]";
    const [textUpdate, ...otherUpdates] = toRunUpdates(compactionEvent, "spec", false) as Json[];
    assert.deepEqual(otherUpdates, []);
    assert.equal(textUpdate.sessionUpdate, "agent_message_chunk");
    assert.deepEqual(textUpdate.content, { type: "text", text });
    const officialUpdates = toRunUpdates(compactionEvent, "official", true) as Json[];
    assert.deepEqual(
      officialUpdates.map(({ sessionUpdate }) => sessionUpdate),
      ["compaction_update", "agent_message_chunk"],
    );
    for (const update of [textUpdate, ...officialUpdates]) {
      const message = { jsonrpc: "2.0", method: "session/update", params: { sessionId: "s", update } };
      assertValidMessage(message, undefined, "official");
    }
  });
});

describe("requests to the ACP client", () => {
  it("session/cancel withdraws an open permission request with $/cancel_request", async (t) => {
    const { path: cwd } = await tempDir(t);
    const riskyTool = createTestTool("risky", () => ({ text: "ran" }), { needsPermission: true });
    const { agent } = createScriptedAgent(t, [callTools(["risky", {}])], { tools: [riskyTool] });
    const peer = new InProcessAcp(t, agent, { requestPermission: true }).connect();
    await peer.initialize();
    const session = await peer.newSession(cwd);
    peer.onRequest = () => undefined;
    const result = peer.prompt(session, "x");
    const permissionRequest = await peer.waitForMessage((message) => message.method === "session/request_permission");
    peer.notify("session/cancel", { sessionId: session });
    assert.deepEqual(await result, { stopReason: "cancelled" });
    const cancelRequest = await peer.waitForMessage((message) => message.method === "$/cancel_request");
    assert.equal(cancelRequest.params.requestId, permissionRequest.id);
    const storedMessage = (await agent.sessions.messages(session)).at(-1);
    assert.deepEqual(
      storedMessage?.parts,
      [{ type: "text", text: "[cancelled before it ran]" }],
      "the result says that the tool did not run",
    );
    peer.assertNoValidationErrors();
  });

  it("no permission is requested without acp.request_permission", async (t) => {
    const { path: cwd } = await tempDir(t);
    const riskyTool = createTestTool("risky", () => ({ text: "ran" }), { needsPermission: true });
    const { agent } = createScriptedAgent(t, [callTools(["risky", {}]), "done"], { tools: [riskyTool] });
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize();
    const session = await peer.newSession(cwd);
    await peer.prompt(session, "x");
    assert.ok(!peer.receivedMessages.some((message) => message.method === "session/request_permission"));
  });

  it("acpClient lets a plugin's tool read and write the client's files, only while a prompt runs", async (t) => {
    const { path: cwd } = await tempDir(t);
    const tool = createTestTool("client", async (_args, { sessionId, signal }) => {
      const client = acpClient(sessionId);
      assert.ok(client);
      assert.deepEqual(client.capabilities, { readTextFile: true, writeTextFile: false });
      await client.writeTextFile({ path: "/a", content: "x" }, { signal });
      return { text: await client.readTextFile({ path: "/a", line: 1, limit: 2 }, { signal, timeoutMs: 5_000 }) };
    });
    const { agent } = createScriptedAgent(t, [callTools(["client", {}]), "done", callTools(["client", {}]), "done"], {
      tools: [tool],
    });
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize({ clientCapabilities: { fs: { readTextFile: true, writeTextFile: false } } });
    const session = await peer.newSession(cwd);
    const requests: Json[] = [];
    peer.onRequest = (method, params) => {
      requests.push([method, params]);
      return method === "fs/read_text_file" ? { content: "unsaved" } : {};
    };
    await peer.prompt(session, "x");
    assert.equal(peer.getUpdates(session).find(({ status }) => status === "completed").rawOutput, "unsaved");
    assert.deepEqual(requests, [
      ["fs/write_text_file", { sessionId: session, path: "/a", content: "x" }],
      ["fs/read_text_file", { sessionId: session, path: "/a", line: 1, limit: 2 }],
    ]);
    peer.onRequest = undefined;
    await peer.prompt(session, "y");
    const callUpdate = peer
      .getUpdates(session)
      .filter((update) => update.sessionUpdate === "tool_call_update")
      .at(-1);
    assert.equal(callUpdate.status, "failed");
    assert.match(callUpdate.rawOutput, /method not found/);
    const { chain } = (await agent.sessions.get(session))!;
    assert.equal(acpClient(chain.root), undefined, "no client is available after the prompt");
    peer.assertNoValidationErrors();
  });
});
