import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { builtinTools, ProviderError } from "gantry";
import { callTools } from "gantry/testing";
import { MemoryAcp, scriptedAgent, testTool } from "../../helpers/acp-agent.js";
import type { Json } from "../../helpers/acp-peer.js";
import { tempDir } from "../../helpers/temp.js";

/** Clients: strict to the specification, a known editor, an unknown client. */
const CLIENTS: readonly [name: string, params: Json, editor: boolean][] = [
  ["strict", { clientInfo: { name: "mine", version: "1" } }, false],
  ["zed", { clientInfo: { name: "zed", version: "1" } }, true],
  ["unnamed", { clientCapabilities: { terminal: true } }, true],
];

const TODOS = [
  { content: "look", status: "completed" },
  { content: "mend\u001b[0m", status: "in_progress" },
  { content: "test", status: "pending" },
  { content: "dream", status: "cancelled" },
];
const PLAN = {
  sessionUpdate: "plan",
  entries: [
    { content: "look", priority: "medium", status: "completed" },
    { content: "mend\\e[0m", priority: "medium", status: "in_progress" },
    { content: "test", priority: "medium", status: "pending" },
  ],
};

const failing = () => new ProviderError("scripted", "authentication", "bad key", { status: 401 });

for (const [name, params, isEditor] of CLIENTS) {
  describe(`editor updates (client: ${name})`, () => {
    it("send todos to editors as a plan, live and on session/load, except those of a failed call", async (t) => {
      const { path: cwd } = await tempDir(t);
      const steps = [
        callTools(["todowrite", { todos: TODOS }], ["todowrite", { todos: [{ content: "x", status: "odd" }] }]),
        "done",
      ];
      const { agent } = scriptedAgent(t, steps, { tools: builtinTools() });
      const peer = new MemoryAcp(t, agent, {}).connect();
      await peer.initialize(params);
      peer.profile = name === "zed" ? "official" : "spec";
      const session = await peer.newSession(cwd);
      await peer.prompt(session, "x");
      const plans = () => peer.updates(session).filter(({ sessionUpdate }) => sessionUpdate === "plan");
      assert.deepEqual(plans(), isEditor ? [PLAN] : []);
      await peer.request("session/load", { sessionId: session, cwd });
      assert.deepEqual(plans(), isEditor ? [PLAN, PLAN] : []);
      peer.assertClean();
    });

    it("report a running tool call to editors as in_progress", async (t) => {
      const { path: cwd } = await tempDir(t);
      let end: () => void = () => undefined;
      // Created before the tool runs: a client can be notified of a call before it starts.
      const ended = new Promise<void>((resolve) => (end = resolve));
      const slow = testTool("slow", () => ended.then(() => ({ text: "done" })));
      const { agent } = scriptedAgent(t, [callTools(["slow", {}]), "done"], { tools: [slow] });
      const peer = new MemoryAcp(t, agent, {}).connect();
      await peer.initialize(params);
      const session = await peer.newSession(cwd);
      const result = peer.prompt(session, "x");
      await peer.seen(({ params }) => params?.update?.status === (isEditor ? "in_progress" : "pending"));
      end();
      await result;
      const states = peer.updates(session).flatMap(({ status }) => (status === undefined ? [] : [status]));
      assert.deepEqual(states, isEditor ? ["pending", "in_progress", "completed"] : ["pending", "completed"]);
    });

    it("report a retried model call to editors as a thought", async (t) => {
      const { path: cwd } = await tempDir(t);
      const overloaded = new ProviderError("scripted", "overloaded", "try\u0007 later", {
        status: 503,
        retryAfterMs: 1,
      });
      const { agent } = scriptedAgent(t, [overloaded, "done"], { provider: { maxRetries: 1 } });
      const peer = new MemoryAcp(t, agent, {}).connect();
      await peer.initialize(params);
      const session = await peer.newSession(cwd);
      assert.deepEqual(await peer.prompt(session, "x"), { stopReason: "end_turn" });
      const thoughts = peer.text(session, "agent_thought_chunk");
      if (isEditor) assert.match(thoughts, /^\[scripted: 503: try\S* later; retrying in 1 s\]\n$/);
      else assert.equal(thoughts, "");
      assert.equal(peer.text(session), "done");
    });

    it("report the wait for a model to editors as a thought", async (t) => {
      const { path: cwd } = await tempDir(t);
      const list = () => new Promise<never>(() => undefined);
      const { agent } = scriptedAgent(t, [], { provider: { models: [], list }, modelTimeoutMs: 1500 });
      const peer = new MemoryAcp(t, agent, {}).connect();
      await peer.initialize(params);
      const session = await peer.newSession(cwd);
      await peer.prompt(session, "x").catch(() => undefined);
      const thoughts = peer.text(session, "agent_thought_chunk");
      if (isEditor) assert.match(thoughts, /^\[waiting for a model: scripted: .*\]\n$/);
      else assert.equal(thoughts, "");
    });

    it("report the usage of a failed and of a cancelled run before the result, and none for a run without usage", async (t) => {
      const { path: cwd } = await tempDir(t);
      const tool = testTool("look", () => ({ text: "seen" }));
      let signalModelCalled: () => void = () => undefined;
      const modelCalled = new Promise<void>((resolve) => (signalModelCalled = resolve));
      const { agent } = scriptedAgent(
        t,
        [
          callTools(["look", {}]),
          failing(),
          callTools(["look", {}]),
          () => (signalModelCalled(), { hang: true }),
          failing(),
        ],
        { tools: [tool] },
      );
      const peer = new MemoryAcp(t, agent, {}).connect();
      await peer.initialize(params);
      const session = await peer.newSession(cwd);
      const usages = () => peer.updates(session).filter(({ sessionUpdate }) => sessionUpdate === "usage_update");
      const prompt = () => peer.call("session/prompt", { sessionId: session, prompt: [{ type: "text", text: "x" }] });
      const failed = await prompt();
      assert.ok(failed.error ?? failed.result.stopReason === "error");
      assert.equal(usages().length, 1);
      assert.ok(Number.isInteger(usages()[0].used) && usages()[0].used > 0);
      assert.equal(usages()[0].size, name === "zed" ? 128_000 : 200_000);
      assert.equal(peer.received.indexOf(failed as Json), peer.received.length - 1, "nothing behind the result");
      const cancelled = prompt();
      await modelCalled;
      peer.notify("session/cancel", { sessionId: session });
      assert.deepEqual((await cancelled).result, { stopReason: "cancelled" });
      assert.equal(usages().length, 2);
      await prompt();
      assert.equal(usages().length, 2, "a run that used nothing tells nothing");
    });
  });
}
