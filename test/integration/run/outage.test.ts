import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, StoreError } from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import type { Message } from "gantry";
import type { SessionChange, SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider, say, type ScriptedStep } from "gantry/testing";
import { notifierOf } from "../../../src/sessions/polling-notifier.js";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { pause, waitUntil } from "../../helpers/server-runs.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

/**
 * State of the connection to the store: with `up` a call succeeds, with `fails` a call throws at once, with `hangs` a
 * call throws after a delay, and with `heals` a call waits until the state is different.
 */
type ConnectionState = "up" | "fails" | "hangs" | "heals";

/** A driver whose store can become unreachable. */
class UnreliableDriver {
  connection: ConnectionState = "up";
  /** Number of calls while `connection` was not `up`. */
  outageCallCount = 0;
  /** Whether the response to this change is lost, although the change is stored. Default: false for all changes. */
  losesResponse: (change: SessionChange) => boolean = () => false;
  readonly driver: SessionDriver;

  constructor(store: MemoryDocuments) {
    const memoryDriver = new MemoryDriver(store);
    this.driver = new Proxy(memoryDriver, {
      get: (target, name): unknown => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        if (name === "open" || name === "close") return value.bind(target) as unknown;
        return async (...args: unknown[]): Promise<unknown> => {
          const { connection } = this;
          if (connection !== "up") this.outageCallCount += 1;
          // Time: a call on a dead connection fails after a delay.
          if (connection === "hangs") await pause(20);
          if (connection === "fails" || connection === "hangs")
            throw new StoreError("no connection", { isUnavailable: true });
          if (connection === "heals") await waitUntil(() => this.connection !== "heals");
          const result: unknown = await Reflect.apply(value, target, args);
          if (name === "write" && this.losesResponse(args[1] as SessionChange))
            throw new StoreError("connection lost", { isUnavailable: true });
          return result;
        };
      },
    });
  }
}

const WAIT_STEP: ScriptedStep = callTools(["wait", {}]);
const toText = ({ role, parts }: Message): string =>
  `${role}: ${parts.map((part) => ("text" in part ? part.text : part.type)).join("|")}`;

/**
 * Creates an agent whose store can become unreachable, an agent with direct access to the same store, and a session
 * with one turn.
 */
async function startAgents(t: Hooks, script: readonly ScriptedStep[]) {
  const { path: projectDir } = await tempDir(t);
  const store = new MemoryDocuments();
  const unreliableDriver = new UnreliableDriver(store);
  const toolGate = createGate();
  const provider = new ScriptedProvider([say("one"), ...script]);
  const createAgent = (driver: SessionDriver) =>
    new Agent({ driver, providers: [provider], tools: [createWaitTool(toolGate)], projectDir, concurrentRuns: 1 });
  const [agent, directAgent] = [createAgent(unreliableDriver.driver), createAgent(new MemoryDriver(store))];
  t.after(async () => {
    unreliableDriver.connection = "up";
    toolGate.open();
    await Promise.all([agent.close(), directAgent.close()]);
  });
  const firstRun = await agent.run({ message: "first" });
  await firstRun.result;
  const { sessionId } = firstRun;
  await waitUntil(async () => (await directAgent.sessions.get(sessionId))?.hasFinalTitle === true);
  const startRun = (message: string) => agent.run({ message, sessionId });
  const readTexts = async () => (await directAgent.sessions.messages(sessionId)).map(toText);
  const readState = async (id: string) => (await directAgent.runs.get(id))?.state;
  return { agent, directAgent, unreliableDriver, toolGate, provider, startRun, readTexts, readState };
}

describe("a run whose store becomes unavailable", { concurrency: 4 }, () => {
  it("continues if the store is back before the next write", async (t) => {
    const { unreliableDriver, toolGate, startRun, readTexts } = await startAgents(t, [WAIT_STEP, "done"]);
    const activeRun = await startRun("hi");
    await toolGate.firstWait;
    unreliableDriver.connection = "fails";
    // The run fails to read its instructions, and reads them again after the next notification.
    notifierOf(unreliableDriver.driver).publish(activeRun.sessionId);
    await waitUntil(() => unreliableDriver.outageCallCount > 0);
    unreliableDriver.connection = "up";
    toolGate.open();
    assert.equal((await activeRun.result).output, "done");
    assert.deepEqual((await readTexts()).slice(2), [
      "user: hi",
      "assistant: tool_call",
      "tool: waited",
      "assistant: done",
    ]);
  });

  it("continues without losing a token if the driver waits until the store is back", async (t) => {
    const pieceTexts = Array.from({ length: 200 }, (_, i) => `${i} `);
    const textChunks = pieceTexts.map((piece) => ({ type: "text" as const, block: "0", text: piece }));
    const middleGate = createGate();
    const chunks = [...textChunks.slice(0, 100), middleGate.wait(), ...textChunks.slice(100)];
    const { unreliableDriver, startRun, readTexts } = await startAgents(t, [{ chunks }, "next"]);
    unreliableDriver.connection = "heals";
    const runPromise = startRun("hi");
    await waitUntil(() => unreliableDriver.outageCallCount > 0);
    unreliableDriver.connection = "up";
    const startedRun = await runPromise;
    await waitUntil(async () => (await readTexts()).length === 4);
    unreliableDriver.outageCallCount = 0;
    unreliableDriver.connection = "heals";
    middleGate.open();
    await waitUntil(() => unreliableDriver.outageCallCount > 0);
    unreliableDriver.connection = "up";
    assert.equal((await startedRun.result).output, pieceTexts.join(""));
    assert.equal((await readTexts()).at(-1), `assistant: ${pieceTexts.join("")}`);
  });

  for (const failureKind of ["fails", "hangs"] as const)
    it(`fails at the next write, keeps the stored messages, and is then listed as interrupted (${failureKind})`, async (t) => {
      const { agent, directAgent, unreliableDriver, toolGate, provider, startRun, readTexts, readState } =
        await startAgents(t, [WAIT_STEP, "again", "more"]);
      const failureNames: string[] = [];
      agent.on("run.failed", ({ error }) => void failureNames.push(error.name));
      const activeRun = await startRun("hi");
      await toolGate.firstWait;
      unreliableDriver.connection = failureKind;
      toolGate.open();
      await assert.rejects(activeRun.result, { code: "store", isUnavailable: true });
      assert.deepEqual(failureNames, ["StoreError"]);
      await assert.rejects(startRun("while it is away"), { code: "store" });
      unreliableDriver.connection = "up";
      assert.deepEqual((await readTexts()).slice(2), ["user: hi", "assistant: tool_call"]);
      assert.equal(await readState(activeRun.id), "interrupted");
      // The failed run blocks neither its slot nor the session in this process.
      const nextRun = await startRun("again");
      assert.equal((await nextRun.result).output, "again");
      const roles = provider.requests.at(-1)?.messages.map(({ role }) => role);
      assert.deepEqual(
        roles,
        ["user", "assistant", "user", "assistant", "tool", "user"],
        "the next request has a valid order of roles",
      );
      const interruptedRuns = await directAgent.runs.list({ states: ["interrupted"] });
      assert.deepEqual(
        interruptedRuns.map(({ id }) => id),
        [activeRun.id],
      );
    });

  it("is finished if only the response to its last write is lost, and the next run starts at once", async (t) => {
    const { unreliableDriver, startRun, readTexts, readState } = await startAgents(t, ["done", "next"]);
    unreliableDriver.losesResponse = ({ release }) => release === true;
    const activeRun = await startRun("hi");
    await assert.rejects(activeRun.result, { code: "store" });
    unreliableDriver.losesResponse = () => false;
    assert.equal(await readState(activeRun.id), "finished");
    assert.equal((await (await startRun("again")).result).output, "next");
    assert.deepEqual((await readTexts()).slice(2), ["user: hi", "assistant: done", "user: again", "assistant: next"]);
  });
});
