import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { builtinTools, ProviderError } from "gantry";
import { callTools } from "gantry/testing";
import { InProcessAcp, createScriptedAgent, createTestTool } from "../../helpers/acp-agent.js";
import type { Json } from "../../helpers/acp-peer.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** A client that follows the specification strictly, a known editor, and an unknown client. Editors receive more updates. */
const CLIENTS: readonly [name: string, params: Json, isEditor: boolean][] = [
  ["strict", { clientInfo: { name: "mine", version: "1" } }, false],
  ["zed", { clientInfo: { name: "zed", version: "1" } }, true],
  ["unnamed", { clientCapabilities: { terminal: true } }, true],
];

const TODOS = [
  { content: "look", status: "completed", priority: "low" },
  { content: "mend\u001b[0m", status: "in_progress", priority: "high" },
  { content: "rest", status: "pending", priority: "urgent" },
  { content: "test", status: "pending" },
  { content: "dream", status: "cancelled" },
];
const PLAN = {
  sessionUpdate: "plan",
  entries: [
    { content: "look", priority: "low", status: "completed" },
    { content: "mend\\e[0m", priority: "high", status: "in_progress" },
    { content: "rest", priority: "medium", status: "pending" },
    { content: "test", priority: "medium", status: "pending" },
  ],
};

const createProviderError = () => new ProviderError("scripted", "authentication", "bad key", { status: 401 });

for (const [name, params, isEditor] of CLIENTS) {
  describe(`editor updates (client: ${name})`, () => {
    it("send todos to editors as a plan, live and on session/load, except todos of a failed call", async (t) => {
      const { path: cwd } = await tempDir(t);
      const steps = [
        callTools(["todowrite", { todos: TODOS }], ["todowrite", { todos: [{ content: "x", status: "odd" }] }]),
        "done",
      ];
      const { agent } = createScriptedAgent(t, steps, { tools: builtinTools() });
      const peer = new InProcessAcp(t, agent, {}).connect();
      await peer.initialize(params);
      peer.profile = name === "zed" ? "official" : "spec";
      const session = await peer.newSession(cwd);
      await peer.prompt(session, "x");
      const getPlans = () => peer.getUpdates(session).filter(({ sessionUpdate }) => sessionUpdate === "plan");
      assert.deepEqual(getPlans(), isEditor ? [PLAN] : []);
      await peer.request("session/load", { sessionId: session, cwd });
      assert.deepEqual(getPlans(), isEditor ? [PLAN, PLAN] : []);
      peer.assertNoValidationErrors();
    });

    it("report a running tool call to editors as in_progress", async (t) => {
      const { path: cwd } = await tempDir(t);
      let finishTool: () => void = () => undefined;
      // The promise exists before the tool runs, because a client can be notified of a call before the call starts.
      const toolFinished = new Promise<void>((resolve) => (finishTool = resolve));
      const slowTool = createTestTool("slow", () => toolFinished.then(() => ({ text: "done" })));
      const { agent } = createScriptedAgent(t, [callTools(["slow", {}]), "done"], { tools: [slowTool] });
      const peer = new InProcessAcp(t, agent, {}).connect();
      await peer.initialize(params);
      const session = await peer.newSession(cwd);
      const result = peer.prompt(session, "x");
      await peer.waitForMessage(({ params }) => params?.update?.status === (isEditor ? "in_progress" : "pending"));
      finishTool();
      await result;
      const states = peer.getUpdates(session).flatMap(({ status }) => (status === undefined ? [] : [status]));
      assert.deepEqual(states, isEditor ? ["pending", "in_progress", "completed"] : ["pending", "completed"]);
    });

    it("report a retried model call to editors as a thought", async (t) => {
      const { path: cwd } = await tempDir(t);
      const overloadedError = new ProviderError("scripted", "overloaded", "try\u0007 later", {
        status: 503,
        retryAfterMs: 1,
      });
      const { agent } = createScriptedAgent(t, [overloadedError, "done"], { provider: { maxRetries: 1 } });
      const peer = new InProcessAcp(t, agent, {}).connect();
      await peer.initialize(params);
      const session = await peer.newSession(cwd);
      assert.deepEqual(await peer.prompt(session, "x"), { stopReason: "end_turn" });
      const thoughts = peer.getText(session, "agent_thought_chunk");
      if (isEditor) assert.match(thoughts, /^\[scripted: 503: try\S* later; retrying in 1 s\]\n$/);
      else assert.equal(thoughts, "");
      assert.equal(peer.getText(session), "done");
    });

    it("report the wait for a model to editors as a thought", async (t) => {
      const { path: cwd } = await tempDir(t);
      const list = () => new Promise<never>(() => undefined);
      const { agent } = createScriptedAgent(t, [], { provider: { models: [], list }, modelTimeoutMs: 1500 });
      const peer = new InProcessAcp(t, agent, {}).connect();
      await peer.initialize(params);
      const session = await peer.newSession(cwd);
      await peer.prompt(session, "x").catch(() => undefined);
      const thoughts = peer.getText(session, "agent_thought_chunk");
      if (isEditor) assert.match(thoughts, /^\[waiting for a model: scripted: .*\]\n$/);
      else assert.equal(thoughts, "");
    });

    it("report the usage of failed and cancelled runs before the result, and none for a run without usage", async (t) => {
      const { path: cwd } = await tempDir(t);
      const tool = createTestTool("look", () => ({ text: "seen" }));
      let signalModelCalled: () => void = () => undefined;
      const modelCalled = new Promise<void>((resolve) => (signalModelCalled = resolve));
      const { agent } = createScriptedAgent(
        t,
        [
          callTools(["look", {}]),
          createProviderError(),
          callTools(["look", {}]),
          () => (signalModelCalled(), { hang: true }),
          createProviderError(),
        ],
        { tools: [tool] },
      );
      const peer = new InProcessAcp(t, agent, {}).connect();
      await peer.initialize(params);
      const session = await peer.newSession(cwd);
      const getUsages = () => peer.getUpdates(session).filter(({ sessionUpdate }) => sessionUpdate === "usage_update");
      const sendPrompt = () =>
        peer.call("session/prompt", { sessionId: session, prompt: [{ type: "text", text: "x" }] });
      const failedResponse = await sendPrompt();
      assert.ok(failedResponse.error ?? failedResponse.result.stopReason === "error");
      assert.equal(getUsages().length, 1);
      assert.ok(Number.isInteger(getUsages()[0].used) && getUsages()[0].used > 0);
      assert.equal(getUsages()[0].size, name === "zed" ? 128_000 : 200_000);
      assert.equal(
        peer.receivedMessages.indexOf(failedResponse as Json),
        peer.receivedMessages.length - 1,
        "the result is the last message",
      );
      const cancelledResponse = sendPrompt();
      await modelCalled;
      peer.notify("session/cancel", { sessionId: session });
      assert.deepEqual((await cancelledResponse).result, { stopReason: "cancelled" });
      assert.equal(getUsages().length, 2);
      await sendPrompt();
      assert.equal(getUsages().length, 2, "a run without usage sends no usage update");
    });
  });
}

describe("notices for a client that declares them", () => {
  const NOTICES = { session: { notices: {} } };

  for (const params of [{ clientCapabilities: NOTICES }, { ...CLIENTS[1]![1], clientCapabilities: NOTICES }])
    it(`report retries, missing models and missing tools instead of thoughts (${JSON.stringify(params)})`, async (t) => {
      const { path: cwd } = await tempDir(t);
      const overloadedError = new ProviderError("scripted", "overloaded", "try\u0007 later", {
        status: 503,
        retryAfterMs: 1,
      });
      const source = { name: "mcp:files", open: () => Promise.reject(new Error("no such\u0007 program")) };
      const { agent } = createScriptedAgent(t, [overloadedError, "done"], {
        provider: { maxRetries: 1 },
        tools: [source],
      });
      const peer = new InProcessAcp(t, agent).connect();
      await peer.initialize(params);
      const session = await peer.newSession(cwd);
      assert.deepEqual(await peer.prompt(session, "x"), { stopReason: "end_turn" });
      const notices = peer.getUpdates(session).filter(({ sessionUpdate }) => sessionUpdate === "notice");
      assert.deepEqual(
        notices.map(({ severity, title }) => [severity, title]),
        [
          ["warning", "Tools of mcp:files are unavailable"],
          ["warning", "The model call failed; retrying in 1 s"],
        ],
      );
      assert.match(notices[0].description, /no such\\\S* program/);
      assert.match(notices[1].description, /^scripted: 503: try\S* later$/);
      assert.equal(peer.getText(session, "agent_thought_chunk"), "");
      peer.assertNoValidationErrors();
    });

  it("report a retry of another client's run once", async (t) => {
    const { path: cwd } = await tempDir(t);
    const error = new ProviderError("scripted", "overloaded", "later", { status: 503, retryAfterMs: 60_000 });
    const { agent } = createScriptedAgent(t, [error], { provider: { maxRetries: 1 } });
    const peer = new InProcessAcp(t, agent).connect();
    await peer.initialize({ clientCapabilities: NOTICES });
    const { id } = await agent.sessions.create({ projectDir: cwd });
    await peer.request("session/load", { sessionId: id, cwd });
    const run = await agent.run({ message: "x", sessionId: id });
    const { params } = await peer.waitForMessage(({ params }) => params?.update?.sessionUpdate === "notice");
    assert.match(params.update.title, /^The model call failed; retrying in \d+ s$/);
    await agent.runs.cancel(run.id);
    await run.result.catch(() => undefined);
    peer.assertNoValidationErrors();
  });
});
