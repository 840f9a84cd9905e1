// The store calls of each kind of turn, for every store: each call is a round trip if the store is on another machine.
// A change that needs one more call must give its reason here.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, type RunInput } from "gantry";
import type { Notifier, SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider, say, type ScriptedStep } from "gantry/testing";
import { notifierOf } from "../../../src/sessions/polling-notifier.js";
import { aMessage, aSession } from "../../../src/testing/session-driver/rule.js";
import { cancelled } from "../../helpers/cancel-run.js";
import { turns } from "../../helpers/fake-time.js";
import { until } from "../../helpers/lab.js";
import { noop } from "../../helpers/noop-tool.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

/**
 * A driver that records its calls, except opening, closing and syncs. Notifications pass only while
 * `passesNotifications` returns true, because they can arrive at any time and cause a read.
 */
function recordCalls(
  driver: SessionDriver,
  passesNotifications: () => boolean,
): { driver: SessionDriver; calls: string[] } {
  const calls: string[] = [];
  const notifier: Notifier = {
    publish: (root) => notifierOf(driver).publish(root),
    subscribe: (root, hint) => notifierOf(driver).subscribe(root, () => passesNotifications() && hint()),
  };
  const note = (name: string, args: readonly unknown[]): void => {
    if (["open", "close", "synced"].includes(name)) return;
    const options = name === "write" ? args[1] : name === "lease" ? args[3] : {};
    const what = Object.keys(options ?? {}).filter((key) => key !== "fence" && key !== "sync");
    calls.push(what.length > 0 ? `${name} ${what.sort().join(" ")}` : name);
  };
  const proxy = new Proxy(driver, {
    get(target, name) {
      if (name === "notifier") return notifier;
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        note(String(name), args);
        return Reflect.apply(value, target, args);
      };
    },
  });
  return { driver: proxy, calls };
}

/** An agent, and a session that already has its title. */
async function agentWithSession(
  t: Hooks,
  store: () => SessionDriver,
  script: readonly ScriptedStep[],
  maxIterations = 10,
) {
  const folder = await tempDir(t);
  let passesNotifications = false;
  const { driver, calls } = recordCalls(store(), () => passesNotifications);
  const provider = new ScriptedProvider([say("warm"), ...script], { title: async () => "A title" });
  const agent = new Agent({ driver, providers: [provider], tools: [noop], projectDir: folder.path, maxIterations });
  t.after(() => agent.close());
  const [model] = await provider.models(new AbortController().signal);
  const pair = { provider: provider.name, model: model?.id ?? "" };
  /** The calls of a turn, until the turn and its background work have ended. */
  const turn = async (sessionId?: string, input: Partial<RunInput> = {}, duringTurn?: () => Promise<unknown>) => {
    calls.length = 0;
    const run = await agent.run({ message: "hi", ...pair, ...(sessionId !== undefined && { sessionId }), ...input });
    await duringTurn?.();
    await run.result.catch(() => undefined);
    await turns();
    return { calls: [...calls], id: run.sessionId };
  };
  // Waits for the event instead of a read, because a read is a call.
  const titled = new Promise((resolve) => agent.on("session.updated", resolve));
  const { id } = await turn();
  await titled;
  const listen = () => void (passesNotifications = true);
  return { agent, provider, turn, listen, first: [...calls], id };
}

const BEGIN = ["get", "lease head", "write add runs set"];
const END = "write add release runs set usage";

for (const [name, make] of STORES)
  describe(`the store calls of a turn (${name})`, () => {
    it("are lease, create and a final write for a new session, then a read and a write of the title", async (t) => {
      const { first } = await agentWithSession(t, await make(t), []);
      assert.deepEqual(first, ["lease", "create", END, "get", "write set"]);
    });

    it("are a read, a lease with the head, a write of the prompt and a final write for a resumed session", async (t) => {
      const open = await make(t);
      const { turn, id } = await agentWithSession(t, open, [say("1"), say("2")]);
      for (let n = 0; n < 2; n += 1) assert.deepEqual((await turn(id)).calls, [...BEGIN, END]);
      const secondProcess = await agentWithSession(t, open, [say("3")]);
      assert.deepEqual(
        (await secondProcess.turn(id)).calls,
        [...BEGIN, END],
        "also where another process said the last",
      );
      assert.equal(secondProcess.provider.requests.at(-1)?.messages.length, 7);
    });

    it("are a write before a tool runs, a read of the mode and a write of the result for a tool call", async (t) => {
      const { turn, id } = await agentWithSession(t, await make(t), [callTools(["noop", {}]), say("done")]);
      const { calls } = await turn(id);
      assert.deepEqual(calls, [...BEGIN, "write add runs set usage", "get", "write add set", END]);
    });

    it("end with one write if the run is cancelled, fails or reaches a limit", async (t) => {
      const script = [{ hang: true }, new Error("broken"), callTools(["noop", {}]), say("never")];
      const { agent, turn, id, provider } = await agentWithSession(t, await make(t), script, 1);
      const end = "write release runs";
      const abort = new AbortController();
      const abortAfterRequest = async () => {
        await until(() => provider.requests.some(({ messages }) => messages.length === 3));
        abort.abort();
      };
      assert.deepEqual((await turn(id, { signal: abort.signal }, abortAfterRequest)).calls, [...BEGIN, end]);
      assert.deepEqual((await turn(id)).calls, [...BEGIN, end]);
      const tool = ["write add runs set usage", "get", "write add set"];
      assert.deepEqual((await turn(id)).calls, [...BEGIN, ...tool, end]);
      const states = (await agent.runs.list({ sessionId: id })).map(({ state }) => state);
      assert.deepEqual(states, ["finished", "failed", "cancelled", "finished"]);
    });

    it("are reads of instructions for a cancel from another process, which the final write consumes", async (t) => {
      const open = await make(t);
      const { turn, id, provider, listen } = await agentWithSession(t, open, [{ hang: true }]);
      listen();
      const secondProcess = await agentWithSession(t, open, []);
      const cancel = async () => {
        await until(() => provider.requests.some(({ messages }) => messages.length === 3));
        const [run] = await secondProcess.agent.runs.list({ sessionId: id });
        assert.equal((await cancelled(secondProcess.agent, run?.id ?? "")).state, "cancelled");
      };
      const { calls } = await turn(id, {}, cancel);
      // A notifier may notify without a change.
      const instructionReads = calls.filter((call) => call === "instructions").length;
      assert.ok(instructionReads > 0);
      const otherCalls = calls.filter((call) => call !== "instructions");
      assert.deepEqual(otherCalls, [...BEGIN, "write consumedInstructions release runs"]);
    });

    it("read a long conversation in three pages once, and not again for the next turn", async (t) => {
      const open = await make(t);
      const { turn } = await agentWithSession(t, open, [say("1"), say("2")]);
      const driver = open();
      await driver.open();
      t.after(() => driver.close());
      const messages = Array.from({ length: 2_500 }, (_, n) => aMessage("long", n + 1));
      await driver.create({ session: aSession("long", { hasFinalTitle: true, projectDir: process.cwd() }), messages });
      assert.deepEqual((await turn("long")).calls, [
        ...BEGIN.slice(0, 2),
        ...Array<string>(3).fill("messages"),
        ...BEGIN.slice(2),
        END,
      ]);
      assert.deepEqual((await turn("long")).calls, [...BEGIN, END]);
    });
  });
