import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, StoreError } from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import type { Message } from "gantry";
import type { SessionChange, SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider, say, type ScriptedStep } from "gantry/testing";
import { notifierOf } from "../../../src/sessions/polling-notifier.js";
import { gate, waitTool } from "../../helpers/gate.js";
import { pause, until } from "../../helpers/lab.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

/**
 * Result of a call to the store: `up` succeeds, `fails` throws at once, `hangs` throws after a delay, `heals` waits
 * until the store is back.
 */
type Connection = "up" | "fails" | "hangs" | "heals";

/** A driver whose store can become unreachable. */
class FarDriver {
  connection: Connection = "up";
  /** Number of calls while the store was unreachable. */
  refused = 0;
  /** Whether the response to this change is lost, although the change is stored. */
  isLost: (change: SessionChange) => boolean = () => false;
  readonly driver: SessionDriver;

  constructor(store: MemoryDocuments) {
    const inner = new MemoryDriver(store);
    this.driver = new Proxy(inner, {
      get: (target, name): unknown => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        if (name === "open" || name === "close") return value.bind(target) as unknown;
        return async (...args: unknown[]): Promise<unknown> => {
          const { connection } = this;
          if (connection !== "up") this.refused += 1;
          // Time: a call on a dead connection fails after a delay.
          if (connection === "hangs") await pause(20);
          if (connection === "fails" || connection === "hangs")
            throw new StoreError("no connection", { unavailable: true });
          if (connection === "heals") await until(() => this.connection !== "heals");
          const done: unknown = await Reflect.apply(value, target, args);
          if (name === "write" && this.isLost(args[1] as SessionChange))
            throw new StoreError("connection lost", { unavailable: true });
          return done;
        };
      },
    });
  }
}

const waits: ScriptedStep = callTools(["wait", {}]);
const textOf = ({ role, parts }: Message): string =>
  `${role}: ${parts.map((part) => ("text" in part ? part.text : part.type)).join("|")}`;

/**
 * An agent whose store can become unreachable, an agent with direct access to the same store, and a session with one
 * turn.
 */
async function startAgents(t: Hooks, script: readonly ScriptedStep[]) {
  const { path: projectDir } = await tempDir(t);
  const store = new MemoryDocuments();
  const farDriver = new FarDriver(store);
  const open = gate();
  const provider = new ScriptedProvider([say("one"), ...script]);
  const make = (driver: SessionDriver) =>
    new Agent({ driver, providers: [provider], tools: [waitTool(open)], projectDir, concurrentRuns: 1 });
  const [agent, directAgent] = [make(farDriver.driver), make(new MemoryDriver(store))];
  t.after(async () => {
    farDriver.connection = "up";
    open.open();
    await Promise.all([agent.close(), directAgent.close()]);
  });
  const first = await agent.run({ message: "first" });
  await first.result;
  const { sessionId } = first;
  await until(async () => (await directAgent.sessions.get(sessionId))?.hasFinalTitle === true);
  const run = (message: string) => agent.run({ message, sessionId });
  const texts = async () => (await directAgent.sessions.messages(sessionId)).map(textOf);
  const stateOf = async (id: string) => (await directAgent.runs.get(id))?.state;
  return { agent, directAgent, farDriver, open, provider, run, texts, stateOf };
}

describe("a run whose store becomes unavailable", { concurrency: 4 }, () => {
  it("continues if the store is back before the next write", async (t) => {
    const { farDriver, open, run, texts } = await startAgents(t, [waits, "done"]);
    const activeRun = await run("hi");
    await open.reached;
    farDriver.connection = "fails";
    // The run fails to read its instructions, and reads them again after the next notification.
    notifierOf(farDriver.driver).publish(activeRun.sessionId);
    await until(() => farDriver.refused > 0);
    farDriver.connection = "up";
    open.open();
    assert.equal((await activeRun.result).output, "done");
    assert.deepEqual((await texts()).slice(2), ["user: hi", "assistant: tool_call", "tool: waited", "assistant: done"]);
  });

  it("continues without losing a token if the driver waits until the store is back", async (t) => {
    const text = Array.from({ length: 200 }, (_, n) => `${n} `);
    const pieces = text.map((piece) => ({ type: "text" as const, block: "0", text: piece }));
    const half = gate();
    const chunks = [...pieces.slice(0, 100), half.wait(), ...pieces.slice(100)];
    const { farDriver, run, texts } = await startAgents(t, [{ chunks }, "next"]);
    farDriver.connection = "heals";
    const runPromise = run("hi");
    await until(() => farDriver.refused > 0);
    farDriver.connection = "up";
    const startedRun = await runPromise;
    await until(async () => (await texts()).length === 4);
    farDriver.refused = 0;
    farDriver.connection = "heals";
    half.open();
    await until(() => farDriver.refused > 0);
    farDriver.connection = "up";
    assert.equal((await startedRun.result).output, text.join(""));
    assert.equal((await texts()).at(-1), `assistant: ${text.join("")}`);
  });

  for (const how of ["fails", "hangs"] as const)
    it(`fails at the next write, keeps the stored messages, and is then listed as interrupted (${how})`, async (t) => {
      const { agent, directAgent, farDriver, open, provider, run, texts, stateOf } = await startAgents(t, [
        waits,
        "again",
        "more",
      ]);
      const failed: string[] = [];
      agent.on("run.failed", ({ error }) => void failed.push(error.name));
      const activeRun = await run("hi");
      await open.reached;
      farDriver.connection = how;
      open.open();
      await assert.rejects(activeRun.result, { code: "store", unavailable: true });
      assert.deepEqual(failed, ["StoreError"]);
      await assert.rejects(run("while it is away"), { code: "store" });
      farDriver.connection = "up";
      assert.deepEqual((await texts()).slice(2), ["user: hi", "assistant: tool_call"]);
      assert.equal(await stateOf(activeRun.id), "interrupted");
      // The failed run blocks neither its slot nor the session in this process.
      const next = await run("again");
      assert.equal((await next.result).output, "again");
      const roles = provider.requests.at(-1)?.messages.map(({ role }) => role);
      assert.deepEqual(
        roles,
        ["user", "assistant", "user", "assistant", "tool", "user"],
        "a history that a model takes",
      );
      const stored = await directAgent.runs.list({ states: ["interrupted"] });
      assert.deepEqual(
        stored.map(({ id }) => id),
        [activeRun.id],
      );
    });

  it("is finished if only the response to its last write is lost, and the next run starts at once", async (t) => {
    const { farDriver, run, texts, stateOf } = await startAgents(t, ["done", "next"]);
    farDriver.isLost = ({ release }) => release === true;
    const activeRun = await run("hi");
    await assert.rejects(activeRun.result, { code: "store" });
    farDriver.isLost = () => false;
    assert.equal(await stateOf(activeRun.id), "finished");
    assert.equal((await (await run("again")).result).output, "next");
    assert.deepEqual((await texts()).slice(2), ["user: hi", "assistant: done", "user: again", "assistant: next"]);
  });
});
