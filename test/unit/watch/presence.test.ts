import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, defineTool, MemoryDriver, type AgentEvent } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { PollingClients } from "../../../adapters/koa-http-api/asks.js";
import { Presence } from "../../../src/watch/presence.js";
import { fakeTime, turns, untilTurn } from "../../helpers/fake-time.js";
import type { Hooks } from "../../helpers/temp.js";

const LEAVE_DELAY_MS = 60_000;

/** An agent whose runs each ask for permission once. */
function askingAgent(t: Hooks, runs = 1) {
  const act = defineTool({ name: "act", description: "Acts.", kind: "execute", run: () => "done" });
  const steps = Array.from({ length: runs }, () => [callTools(["act", {}]), "end"]).flat();
  const agent = new Agent({ providers: [new ScriptedProvider(steps)], driver: new MemoryDriver(), tools: [act] });
  t.after(() => agent.close());
  /** Starts a run in a new session and waits for its ask. */
  const ask = async () => {
    const { id } = await agent.sessions.create();
    const events: AgentEvent[] = [];
    const opened = new Promise<string>((resolve) => agent.on("ask.opened", ({ ask: { id: askId } }) => resolve(askId)));
    const run = await agent.run({ message: "x", sessionId: id, mode: "ask" });
    const ended = (async () => {
      for await (const event of run) events.push(event);
    })();
    return { run, events, ended, askId: await opened, output: () => outputOf(events) };
  };
  return { agent, ask };
}

function outputOf(events: readonly AgentEvent[]): string | undefined {
  return events.find((event) => event.type === "tool_result")?.output;
}

/** A client that shows a session of its own and can answer. */
async function watching(agent: Agent): Promise<{ leave: () => Promise<void> }> {
  const { id } = await agent.sessions.create();
  const over = new AbortController();
  const events = agent.sessions.watch(id, { canAnswer: true, signal: over.signal })[Symbol.asyncIterator]();
  await events.next();
  return {
    leave: async () => {
      over.abort();
      await events.return?.();
    },
  };
}

describe("clients that can answer", () => {
  it("count for all sessions or for the given ones, and for a delay after they leave", (t) => {
    const { pass } = fakeTime(t);
    const presence = new Presence(LEAVE_DELAY_MS);
    assert.equal(presence.canAnswer("a"), false);
    const leave = presence.connect(() => true, "b");
    const leaveOne = presence.connect((id) => id === "c", "c");
    assert.deepEqual([presence.canAnswer("a"), presence.isShown("a"), presence.isShown("b")], [true, false, true]);
    leave();
    pass(LEAVE_DELAY_MS + 1);
    // Only a watch that ends restarts the delay. Ending the same watch twice counts once.
    leave();
    assert.deepEqual([presence.canAnswer("a"), presence.canAnswer("c")], [false, true]);
    leaveOne();
    pass(LEAVE_DELAY_MS - 1);
    assert.equal(presence.canAnswer("a"), true);
    pass(2);
    assert.equal(presence.canAnswer("a"), false);
  });

  it("cause no delay if they could answer nothing", () => {
    const presence = new Presence(LEAVE_DELAY_MS);
    presence.connect(() => false)();
    assert.equal(presence.canAnswer("a"), false);
  });

  it("keep an ask of another session open until 60 s after the last client leaves", async (t) => {
    const { pass } = fakeTime(t);
    const { agent, ask } = askingAgent(t);
    const client = await watching(agent);
    const { ended, output, askId } = await ask();
    pass(3_600_000);
    await turns();
    assert.equal((await agent.asks.get(askId))?.state, "open");
    await client.leave();
    pass(LEAVE_DELAY_MS - 1);
    await turns();
    assert.equal((await agent.asks.get(askId))?.state, "open");
    pass(1_000);
    await untilTurn(() => output() !== undefined);
    assert.match(output() ?? "", /no client could answer/);
    await ended;
  });

  it("answer an ask after they reconnect within the delay", async (t) => {
    const { pass } = fakeTime(t);
    const { agent, ask } = askingAgent(t);
    const client = await watching(agent);
    const { ended, output, askId } = await ask();
    await client.leave();
    pass(LEAVE_DELAY_MS - 1);
    await turns();
    await watching(agent);
    pass(3_600_000);
    await turns();
    await agent.asks.answer(askId, { choice: "allow" });
    await ended;
    assert.equal(output(), "done");
  });

  it("do not delay the close of an agent after they leave", async (t) => {
    fakeTime(t);
    const { agent, ask } = askingAgent(t);
    const client = await watching(agent);
    const { run, ended, askId } = await ask();
    await client.leave();
    const closed: string[] = [];
    agent.on("ask.closed", ({ ask: { id } }) => closed.push(id));
    // No timer is due at this point.
    await agent.close();
    await assert.rejects(run.result, { code: "shutting_down" });
    await ended.catch(() => undefined);
    assert.deepEqual(closed, [askId]);
  });

  it("without a stream count for 90 s after each poll for asks", (t) => {
    const { pass } = fakeTime(t);
    const presence = new Presence(0);
    const agent = { addResponder: (answers = () => true) => presence.connect(answers) };
    const polling = new PollingClients(agent as unknown as Agent);
    assert.equal(presence.canAnswer("a"), false);
    polling.recordPoll();
    pass(60_000);
    polling.recordPoll();
    pass(89_999);
    assert.equal(presence.canAnswer("a"), true);
    pass(1);
    assert.equal(presence.canAnswer("a"), false);
  });
});
