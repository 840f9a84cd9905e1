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
 * Result of a call to the store: `up` succeeds, `cut` fails, `hangs` waits and fails, `heals` waits until the store is
 * back.
 */
type Line = "up" | "cut" | "hangs" | "heals";

/** A driver whose store can become unreachable. */
class FarDriver {
  line: Line = "up";
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
          const { line } = this;
          if (line !== "up") this.refused += 1;
          // Time: a call on a dead connection fails after a delay.
          if (line === "hangs") await pause(20);
          if (line === "cut" || line === "hangs") throw new StoreError("no connection", { unavailable: true });
          if (line === "heals") await until(() => this.line !== "heals");
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
async function far(t: Hooks, script: readonly ScriptedStep[]) {
  const { path: projectDir } = await tempDir(t);
  const store = new MemoryDocuments();
  const line = new FarDriver(store);
  const open = gate();
  const provider = new ScriptedProvider([say("one"), ...script]);
  const make = (driver: SessionDriver) =>
    new Agent({ driver, providers: [provider], tools: [waitTool(open)], projectDir, concurrentRuns: 1 });
  const [agent, near] = [make(line.driver), make(new MemoryDriver(store))];
  t.after(async () => {
    line.line = "up";
    open.open();
    await Promise.all([agent.close(), near.close()]);
  });
  const first = await agent.run({ message: "first" });
  await first.result;
  const { sessionId } = first;
  await until(async () => (await near.sessions.get(sessionId))?.hasFinalTitle === true);
  const run = (message: string) => agent.run({ message, sessionId });
  const texts = async () => (await near.sessions.messages(sessionId)).map(textOf);
  const stateOf = async (id: string) => (await near.runs.get(id))?.state;
  return { agent, near, line, open, provider, run, said: texts, stateOf };
}

describe("a run whose store goes away", { concurrency: 4 }, () => {
  it("goes on when it is back before anything is to be stored", async (t) => {
    const { line, open, run, said: texts } = await far(t, [waits, "done"]);
    const going = await run("hi");
    await open.reached;
    line.line = "cut";
    // The run reads its instructions in vain, and again after the next notification.
    notifierOf(line.driver).publish(going.sessionId);
    await until(() => line.refused > 0);
    line.line = "up";
    open.open();
    assert.equal((await going.result).output, "done");
    assert.deepEqual((await texts()).slice(2), ["user: hi", "assistant: tool_call", "tool: waited", "assistant: done"]);
  });

  it("goes on where its driver waits until the store is back, and loses no token", async (t) => {
    const text = Array.from({ length: 200 }, (_, n) => `${n} `);
    const pieces = text.map((piece) => ({ type: "text" as const, block: "0", text: piece }));
    const half = gate();
    const chunks = [...pieces.slice(0, 100), half.wait(), ...pieces.slice(100)];
    const { line, run, said: texts } = await far(t, [{ chunks }, "next"]);
    line.line = "heals";
    const going = run("hi");
    await until(() => line.refused > 0);
    line.line = "up";
    const begun = await going;
    await until(async () => (await texts()).length === 4);
    line.refused = 0;
    line.line = "heals";
    half.open();
    await until(() => line.refused > 0);
    line.line = "up";
    assert.equal((await begun.result).output, text.join(""));
    assert.equal((await texts()).at(-1), `assistant: ${text.join("")}`);
  });

  for (const how of ["cut", "hangs"] as const)
    it(`fails when it must store something, keeps what was stored, and is told as interrupted (${how})`, async (t) => {
      const { agent, near, line, open, provider, run, said: texts, stateOf } = await far(t, [waits, "again", "more"]);
      const failed: string[] = [];
      agent.on("run.failed", ({ error }) => void failed.push(error.name));
      const going = await run("hi");
      await open.reached;
      line.line = how;
      open.open();
      await assert.rejects(going.result, { code: "store", unavailable: true });
      assert.deepEqual(failed, ["StoreError"]);
      await assert.rejects(run("while it is away"), { code: "store" });
      line.line = "up";
      assert.deepEqual((await texts()).slice(2), ["user: hi", "assistant: tool_call"]);
      assert.equal(await stateOf(going.id), "interrupted");
      // The failed run blocks neither its slot nor the session in this process.
      const next = await run("again");
      assert.equal((await next.result).output, "again");
      const roles = provider.requests.at(-1)?.messages.map(({ role }) => role);
      assert.deepEqual(
        roles,
        ["user", "assistant", "user", "assistant", "tool", "user"],
        "a history that a model takes",
      );
      const stored = await near.runs.list({ states: ["interrupted"] });
      assert.deepEqual(
        stored.map(({ id }) => id),
        [going.id],
      );
    });

  it("is over where its end was stored, though the answer was lost, and the next begins at once", async (t) => {
    const { line, run, said: texts, stateOf } = await far(t, ["done", "next"]);
    line.isLost = ({ release }) => release === true;
    const going = await run("hi");
    await assert.rejects(going.result, { code: "store" });
    line.isLost = () => false;
    assert.equal(await stateOf(going.id), "finished");
    assert.equal((await (await run("again")).result).output, "next");
    assert.deepEqual((await texts()).slice(2), ["user: hi", "assistant: done", "user: again", "assistant: next"]);
  });
});
