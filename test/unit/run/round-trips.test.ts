// The store calls of each kind of turn, for every store: each call is a round trip if the store is on another machine.
// A change that needs one more call must give its reason here.
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, type RunInput } from "gantry";
import type { Notifier, SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider, say, type ScriptedStep } from "gantry/testing";
import { notifierOf } from "../../../src/sessions/polling-notifier.js";
import { aMessage, aSession } from "../../../src/testing/session-driver/records.js";
import { cancelAndWait } from "../../helpers/cancel-run.js";
import { mockTime, waitTurns } from "../../helpers/fake-time.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { noopTool } from "../../helpers/noop-tool.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

/**
 * A driver that records its calls, except opening, closing and syncs. Notifications pass only while
 * `passesNotifications` returns true, because a notification can arrive at any time and cause a read.
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
  const recordCall = (name: string, args: readonly unknown[]): void => {
    if (["open", "close", "synced"].includes(name)) return;
    const options = name === "write" ? args[1] : name === "lease" ? args[3] : {};
    const optionNames = Object.keys(options ?? {}).filter((key) => key !== "fence" && key !== "sync");
    calls.push(optionNames.length > 0 ? `${name} ${optionNames.sort().join(" ")}` : name);
  };
  const proxy = new Proxy(driver, {
    get(target, name) {
      if (name === "notifier") return notifier;
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        recordCall(String(name), args);
        return Reflect.apply(value, target, args);
      };
    },
  });
  return { driver: proxy, calls };
}

/** Creates an agent, and a session that already has its title. */
async function createAgentWithSession(
  t: Hooks,
  openDriver: () => SessionDriver,
  script: readonly ScriptedStep[],
  maxIterations = 10,
) {
  const folder = await tempDir(t);
  let areNotificationsPassed = false;
  const { driver, calls } = recordCalls(openDriver(), () => areNotificationsPassed);
  const provider = new ScriptedProvider([say("warm"), ...script], { title: async () => "A title" });
  const agent = new Agent({ driver, providers: [provider], tools: [noopTool], projectDir: folder.path, maxIterations });
  t.after(() => agent.close());
  const [model] = await provider.models(new AbortController().signal);
  const modelChoice = { provider: provider.name, model: model?.id ?? "" };
  /** Runs a turn. Returns the store calls until the turn and its background work have ended, and the session's id. */
  const runTurn = async (sessionId?: string, input: Partial<RunInput> = {}, actDuringTurn?: () => Promise<unknown>) => {
    calls.length = 0;
    const run = await agent.run({
      message: "hi",
      ...modelChoice,
      ...(sessionId !== undefined && { sessionId }),
      ...input,
    });
    await actDuringTurn?.();
    await run.result.catch(() => undefined);
    await waitTurns();
    return { calls: [...calls], id: run.sessionId };
  };
  // Waits for the event instead of a read, because a read is a call.
  const titleUpdate = new Promise((resolve) => agent.on("session.updated", resolve));
  const { id } = await runTurn();
  await titleUpdate;
  const passNotifications = () => void (areNotificationsPassed = true);
  return { agent, provider, runTurn, passNotifications, firstCalls: [...calls], id };
}

/** Stops the timer that stores text of an unfinished answer, because a slow machine could reach it during a turn. */
const stopBatches = (t: TestContext) => void mockTime(t);

const START_CALLS = ["get", "lease head", "write add runs set"];
/** A run whose conversation is not cached also looks for messages that an ended run of another process did not read. */
const UNCACHED_START_CALLS = [...START_CALLS, "instructions"];
const END_CALL = "write add release runs set usage";

for (const [name, makeStore] of STORES)
  describe(`the store calls of a turn (${name})`, () => {
    it("are lease, create and a final write for a new session, then a read and a write of the title", async (t) => {
      stopBatches(t);
      const { firstCalls } = await createAgentWithSession(t, await makeStore(t), []);
      assert.deepEqual(firstCalls, ["lease", "create", END_CALL, "get", "write set"]);
    });

    it("are a read, a lease with the head, a write of the prompt and a final write for a resumed session", async (t) => {
      stopBatches(t);
      const openDriver = await makeStore(t);
      const { runTurn, id } = await createAgentWithSession(t, openDriver, [say("1"), say("2")]);
      for (let n = 0; n < 2; n += 1) assert.deepEqual((await runTurn(id)).calls, [...START_CALLS, END_CALL]);
      const secondProcess = await createAgentWithSession(t, openDriver, [say("3")]);
      assert.deepEqual(
        (await secondProcess.runTurn(id)).calls,
        [...UNCACHED_START_CALLS, END_CALL],
        "one more read if another process ran the previous turn",
      );
      assert.equal(
        secondProcess.provider.requests.at(-1)?.messages.length,
        7,
        "the messages of three earlier turns and the prompt",
      );
    });

    it("are a write before a tool runs, a read of the mode and a write of the result for a tool call", async (t) => {
      stopBatches(t);
      const { runTurn, id } = await createAgentWithSession(t, await makeStore(t), [
        callTools(["noop", {}]),
        say("done"),
      ]);
      const { calls } = await runTurn(id);
      assert.deepEqual(calls, [...START_CALLS, "write add runs set usage", "get", "write add set", END_CALL]);
    });

    it("end with one write if the run is cancelled, fails or reaches a limit", async (t) => {
      const script = [{ hang: true }, new Error("broken"), callTools(["noop", {}]), say("never")];
      const { agent, runTurn, id, provider } = await createAgentWithSession(t, await makeStore(t), script, 1);
      const endCall = "write release runs";
      const cancelController = new AbortController();
      const abortAfterRequest = async () => {
        await waitUntil(() => provider.requests.some(({ messages }) => messages.length === 3));
        cancelController.abort();
      };
      assert.deepEqual((await runTurn(id, { signal: cancelController.signal }, abortAfterRequest)).calls, [
        ...START_CALLS,
        endCall,
      ]);
      // Only finished runs leave their conversation in the cache.
      assert.deepEqual((await runTurn(id)).calls, [...UNCACHED_START_CALLS, endCall]);
      const toolCalls = ["write add runs set usage", "get", "write add set"];
      assert.deepEqual((await runTurn(id)).calls, [...UNCACHED_START_CALLS, ...toolCalls, endCall]);
      const states = (await agent.runs.list({ sessionId: id })).map(({ state }) => state);
      assert.deepEqual(states, ["finished", "failed", "cancelled", "finished"]);
    });

    it("are reads of instructions for a cancel from another process, which the final write consumes", async (t) => {
      const openDriver = await makeStore(t);
      const { runTurn, id, provider, passNotifications } = await createAgentWithSession(t, openDriver, [
        { hang: true },
      ]);
      passNotifications();
      const secondProcess = await createAgentWithSession(t, openDriver, []);
      const cancelRun = async () => {
        await waitUntil(() => provider.requests.some(({ messages }) => messages.length === 3));
        const [run] = await secondProcess.agent.runs.list({ sessionId: id });
        assert.equal((await cancelAndWait(secondProcess.agent, run?.id ?? "")).state, "cancelled");
      };
      const { calls } = await runTurn(id, {}, cancelRun);
      // A notifier may notify without a change.
      const instructionReadCount = calls.filter((call) => call === "instructions").length;
      assert.ok(instructionReadCount > 0);
      const otherCalls = calls.filter((call) => call !== "instructions");
      assert.deepEqual(otherCalls, [...START_CALLS, "write consumedInstructions release runs"]);
    });

    it("read a long conversation in three pages once, and not again for the next turn", async (t) => {
      stopBatches(t);
      const openDriver = await makeStore(t);
      const { runTurn } = await createAgentWithSession(t, openDriver, [say("1"), say("2")]);
      const driver = openDriver();
      await driver.open();
      t.after(() => driver.close());
      const messages = Array.from({ length: 2_500 }, (_, n) => aMessage("long", n + 1));
      await driver.create({ session: aSession("long", { hasFinalTitle: true, projectDir: process.cwd() }), messages });
      assert.deepEqual((await runTurn("long")).calls, [
        ...START_CALLS.slice(0, 2),
        ...Array<string>(3).fill("messages"),
        ...UNCACHED_START_CALLS.slice(2),
        END_CALL,
      ]);
      assert.deepEqual((await runTurn("long")).calls, [...START_CALLS, END_CALL]);
    });
  });
