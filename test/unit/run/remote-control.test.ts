import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools, type WatchEvent } from "gantry";
import type { Notifier, SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { cancelAndWait } from "../../helpers/cancel-run.js";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { countProcesses, pickUniqueSeconds, waitUntil } from "../../helpers/server-runs.js";
import { observeDriver } from "../../helpers/observed-driver.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

/** Interval of the notifications that occur without a change, in ms. */
const NOTIFICATION_INTERVAL_MS = 100;

/** A notifier that loses all messages but calls its listeners periodically. */
const lossyNotifier: Notifier = {
  publish: () => undefined,
  subscribe: (_, hint) => {
    const timer = setInterval(hint, NOTIFICATION_INTERVAL_MS).unref();
    return () => clearInterval(timer);
  },
};

/**
 * A driver that rejects renewals of a lease, because a renewal would detect changes of the session without a
 * notification. `notifier` replaces the driver's notifier.
 */
function rejectRenewals(driver: SessionDriver, notifier = driver.notifier): SessionDriver {
  return new Proxy(driver, {
    get(target, name) {
      if (name === "notifier") return notifier;
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        // A lease is taken with options, and renewed without options.
        if (name === "lease" && args.length === 3) return Promise.reject(new Error("no renewal in this test"));
        return Reflect.apply(value, target, args);
      };
    },
  });
}

/**
 * Creates two agents on one store, like two processes. `localAgent` runs the script. Its tool `wait` waits for
 * `toolGate`.
 */
async function createAgents(t: Hooks, openDriver: () => SessionDriver, script: readonly ScriptedStep[]) {
  const folder = await tempDir(t);
  const toolGate = createGate();
  const provider = new ScriptedProvider(script);
  const tools = [createWaitTool(toolGate), ...builtinTools()];
  const { driver: localDriver, waitForResult } = observeDriver(openDriver());
  const [localAgent, remoteAgent] = [localDriver, openDriver()].map(
    (agentDriver) =>
      new Agent({ driver: agentDriver, providers: [provider], tools, projectDir: folder.path, unattended: "wait" }),
  ) as [Agent, Agent];
  t.after(async () => {
    toolGate.open();
    await Promise.all([localAgent.close(), remoteAgent.close()]);
  });
  return { localAgent, remoteAgent, toolGate, provider, waitForResult };
}

const WAIT_STEP: ScriptedStep = callTools(["wait", {}]);

for (const [name, makeStore] of STORES)
  for (const losesNotifications of [false, true])
    describe(
      `a run controlled from another process (${name}${losesNotifications ? ", notifications lost" : ""})`,
      { concurrency: true },
      () => {
        const createStore = async (t: Hooks) => {
          const openDriver = await makeStore(t);
          return () => rejectRenewals(openDriver(), ...(losesNotifications ? [lossyNotifier] : []));
        };

        it("is ended, with the command of its tool, when its session is deleted", async (t) => {
          const seconds = String(pickUniqueSeconds());
          const { localAgent, remoteAgent } = await createAgents(t, await createStore(t), [
            callTools(["bash", { command: `sleep ${seconds}` }]),
          ]);
          const run = await localAgent.run({ message: "hi" });
          await waitUntil(async () => (await countProcesses(seconds)) > 0);
          await remoteAgent.sessions.delete(run.sessionId);
          await assert.rejects(run.result, { code: "session_not_found" });
          await waitUntil(async () => (await countProcesses(seconds)) === 0);
          assert.equal(await localAgent.sessions.get(run.sessionId), undefined);
          assert.equal(await localAgent.runs.get(run.id), undefined);
        });

        it("ends with run_cancelled after a cancel", async (t) => {
          const { localAgent, remoteAgent } = await createAgents(t, await createStore(t), [WAIT_STEP]);
          const run = await localAgent.run({ message: "hi" });
          assert.equal((await cancelAndWait(remoteAgent, run.id)).state, "cancelled");
          await assert.rejects(run.result, { code: "run_cancelled" });
        });

        it("sends a steering message to its model with the next request", async (t) => {
          const { localAgent, remoteAgent, toolGate, provider, waitForResult } = await createAgents(
            t,
            await createStore(t),
            [WAIT_STEP, "done"],
          );
          const run = await localAgent.run({ message: "hi" });
          await toolGate.firstWait;
          const instructionPromise = waitForResult("instructions", (instructions) =>
            instructions.some(({ text }) => text === "not that way"),
          );
          assert.equal(await remoteAgent.runs.steer(run.id, "not that way"), true);
          await instructionPromise;
          toolGate.open();
          await run.result;
          const lastMessage = provider.requests.at(-1)?.messages.at(-1);
          assert.deepEqual(lastMessage?.parts, [{ type: "text", text: "not that way" }]);
        });

        it("continues without the end of a command that is moved to the background", async (t) => {
          const { localAgent, remoteAgent, provider } = await createAgents(t, await createStore(t), [
            callTools(["bash", { command: "echo begin; sleep 300" }]),
            "done",
          ]);
          const run = await localAgent.run({ message: "hi" });
          for await (const event of run) if (event.type === "tool_progress") break;
          assert.equal(await remoteAgent.runs.moveToBackground(run.id, "another call"), true);
          assert.equal(await remoteAgent.runs.moveToBackground(run.id), true);
          assert.equal((await run.result).output, "done");
          assert.match(JSON.stringify(provider.requests.at(-1)?.messages), /begin.*moved it to the background/);
          assert.equal(await remoteAgent.runs.moveToBackground(run.id), false);
          for await (const event of localAgent.sessions.watch(run.sessionId)) {
            if (event.type !== "state") continue;
            assert.deepEqual(
              event.state.processes?.map(({ command, state }) => [command, state]),
              [["echo begin; sleep 300", "running"]],
            );
            break;
          }
        });

        it('continues after an answer to its ask, and a watcher receives the state "waiting"', async (t) => {
          const { localAgent, remoteAgent } = await createAgents(t, await createStore(t), [
            callTools(["bash", { command: "true" }]),
            "done",
          ]);
          const { id: sessionId } = await localAgent.sessions.create();
          await localAgent.sessions.update(sessionId, { mode: "ask" });
          const watchController = new AbortController();
          t.after(() => watchController.abort());
          const events: WatchEvent[] = [];
          const watchPromise = (async () => {
            for await (const event of remoteAgent.sessions.watch(sessionId, { signal: watchController.signal })) {
              events.push(event);
              if (event.type !== "state") continue;
              const [ask] = event.state.asks;
              if (ask) await remoteAgent.asks.answer(ask.id, { choice: "allow" });
              if (event.state.run?.state === "finished") return;
            }
          })();
          const run = await localAgent.run({ message: "hi", sessionId });
          const { output } = await run.result;
          assert.equal(output, "done");
          await watchPromise;
          assert.ok(events.some((event) => event.type === "state" && event.state.run?.state === "waiting"));
        });

        it("starts the next queued run of the other process, and a queued run can be cancelled", async (t) => {
          const { localAgent, remoteAgent, toolGate } = await createAgents(t, await createStore(t), [
            WAIT_STEP,
            "first",
            "second",
          ]);
          const firstRun = await localAgent.run({ message: "hi" });
          const { sessionId } = firstRun;
          await toolGate.firstWait;
          const queuedIds: string[] = [];
          const queueRun = (message: string) => {
            const onQueued = (_: number, { id }: { id: string }) => void (queuedIds.includes(id) || queuedIds.push(id));
            return remoteAgent.run({ message, sessionId, queue: true, onQueued });
          };
          const secondRun = queueRun("second");
          await waitUntil(() => queuedIds.length === 1);
          const thirdRejection = assert.rejects(queueRun("third"), { code: "run_cancelled" });
          await waitUntil(() => queuedIds.length === 2);
          await localAgent.runs.cancel(queuedIds[1] ?? "");
          await thirdRejection;
          const startPromise = localAgent.runs.started(queuedIds[0] ?? "");
          toolGate.open();
          await firstRun.result;
          assert.notEqual((await startPromise).state, "queued");
          assert.equal((await (await secondRun).result).output, "second");
        });
      },
    );
