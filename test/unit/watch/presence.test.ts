import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, defineTool, MemoryDriver, type AgentEvent } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { PollingClients } from "../../../adapters/koa-http-api/asks.js";
import { Presence } from "../../../src/watch/presence.js";
import { mockTime, waitTurns, waitForConditionInTurns } from "../../helpers/fake-time.js";
import type { Hooks } from "../../helpers/temp-dir.js";

const LEAVE_DELAY_MS = 60_000;

/** Creates an agent whose runs each request permission once. */
function createAskingAgent(t: Hooks, runCount = 1) {
  const actTool = defineTool({ name: "act", description: "Acts.", kind: "execute", run: () => "done" });
  const steps = Array.from({ length: runCount }, () => [callTools(["act", {}]), "end"]).flat();
  const agent = new Agent({ providers: [new ScriptedProvider(steps)], driver: new MemoryDriver(), tools: [actTool] });
  t.after(() => agent.close());
  /** Starts a run in a new session and waits for its ask. */
  const startAskingRun = async () => {
    const { id } = await agent.sessions.create();
    const events: AgentEvent[] = [];
    const askIdPromise = new Promise<string>((resolve) =>
      agent.on("ask.opened", ({ ask: { id: askId } }) => resolve(askId)),
    );
    const run = await agent.run({ message: "x", sessionId: id, mode: "ask" });
    const readPromise = (async () => {
      for await (const event of run) events.push(event);
    })();
    return { run, events, readPromise, askId: await askIdPromise, getOutput: () => findOutput(events) };
  };
  return { agent, startAskingRun };
}

function findOutput(events: readonly AgentEvent[]): string | undefined {
  return events.find((event) => event.type === "tool_result")?.output;
}

/** Connects a client that watches a new session and can answer. */
async function connectWatcher(agent: Agent): Promise<{ disconnect: () => Promise<void> }> {
  const { id } = await agent.sessions.create();
  const watchController = new AbortController();
  const events = agent.sessions.watch(id, { canAnswer: true, signal: watchController.signal })[Symbol.asyncIterator]();
  await events.next();
  return {
    disconnect: async () => {
      watchController.abort();
      await events.return?.();
    },
  };
}

describe("clients that can answer", () => {
  it("are present for all sessions or for selected sessions, until a delay after they disconnect", (t) => {
    const { advance } = mockTime(t);
    const presence = new Presence(LEAVE_DELAY_MS);
    assert.equal(presence.canAnswer("a"), false);
    const disconnect = presence.connect(() => true, "b");
    const disconnectSecond = presence.connect((id) => id === "c", "c");
    assert.deepEqual([presence.canAnswer("a"), presence.isShown("a"), presence.isShown("b")], [true, false, true]);
    disconnect();
    advance(LEAVE_DELAY_MS + 1);
    // A second call of `disconnect` does not restart the delay.
    disconnect();
    assert.deepEqual([presence.canAnswer("a"), presence.canAnswer("c")], [false, true]);
    disconnectSecond();
    advance(LEAVE_DELAY_MS - 1);
    assert.equal(presence.canAnswer("a"), true);
    advance(2);
    assert.equal(presence.canAnswer("a"), false);
  });

  it("cause no delay if they cannot answer any session", () => {
    const presence = new Presence(LEAVE_DELAY_MS);
    presence.connect(() => false)();
    assert.equal(presence.canAnswer("a"), false);
  });

  it("keep an ask of another session open until 60 s after the last client disconnects", async (t) => {
    const { advance } = mockTime(t);
    const { agent, startAskingRun } = createAskingAgent(t);
    const client = await connectWatcher(agent);
    const { readPromise, getOutput, askId } = await startAskingRun();
    advance(3_600_000);
    await waitTurns();
    assert.equal((await agent.asks.get(askId))?.state, "open");
    await client.disconnect();
    advance(LEAVE_DELAY_MS - 1);
    await waitTurns();
    assert.equal((await agent.asks.get(askId))?.state, "open");
    advance(1_000);
    await waitForConditionInTurns(() => getOutput() !== undefined);
    assert.match(getOutput() ?? "", /no client could answer/);
    await readPromise;
  });

  it("answer an ask after they reconnect within the delay", async (t) => {
    const { advance } = mockTime(t);
    const { agent, startAskingRun } = createAskingAgent(t);
    const client = await connectWatcher(agent);
    const { readPromise, getOutput, askId } = await startAskingRun();
    await client.disconnect();
    advance(LEAVE_DELAY_MS - 1);
    await waitTurns();
    await connectWatcher(agent);
    advance(3_600_000);
    await waitTurns();
    await agent.asks.answer(askId, { choice: "allow" });
    await readPromise;
    assert.equal(getOutput(), "done");
  });

  it("do not delay the close of an agent after they disconnect", async (t) => {
    mockTime(t);
    const { agent, startAskingRun } = createAskingAgent(t);
    const client = await connectWatcher(agent);
    const { run, readPromise, askId } = await startAskingRun();
    await client.disconnect();
    const closedAskIds: string[] = [];
    agent.on("ask.closed", ({ ask: { id } }) => closedAskIds.push(id));
    // No timer is due at this point.
    await agent.close();
    await assert.rejects(run.result, { code: "shutting_down" });
    await readPromise.catch(() => undefined);
    assert.deepEqual(closedAskIds, [askId]);
  });

  it("are present without a stream for 90 s after each poll for asks", (t) => {
    const { advance } = mockTime(t);
    const presence = new Presence(0);
    const agent = { addResponder: (answers = () => true) => presence.connect(answers) };
    const polling = new PollingClients(agent as unknown as Agent);
    assert.equal(presence.canAnswer("a"), false);
    polling.recordPoll();
    advance(60_000);
    polling.recordPoll();
    advance(89_999);
    assert.equal(presence.canAnswer("a"), true);
    advance(1);
    assert.equal(presence.canAnswer("a"), false);
  });
});
