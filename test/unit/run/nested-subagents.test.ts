import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools, type WatchEvent } from "gantry";
import type { Notifier, SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { cancelled } from "../../helpers/cancel-run.js";
import { gate, waitTool } from "../../helpers/gate.js";
import { processes, uniqueSeconds, until } from "../../helpers/lab.js";
import { observed } from "../../helpers/observed-driver.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

/** Interval of the notifications without a change, in ms. */
const HINT_MS = 100;

/** A notifier that loses all messages but calls its listeners periodically. */
const lossyNotifier: Notifier = {
  publish: () => undefined,
  subscribe: (_, hint) => {
    const timer = setInterval(hint, HINT_MS).unref();
    return () => clearInterval(timer);
  },
};

/**
 * A driver that rejects renewals of a lease, because a renewal would detect changes of the session without a
 * notification.
 */
function withoutRenewals(driver: SessionDriver, notifier = driver.notifier): SessionDriver {
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
 * Two agents on one store, like two processes. The first agent runs the script and its tools. `wait` waits for the
 * gate.
 */
async function two(t: Hooks, driver: () => SessionDriver, script: readonly ScriptedStep[]) {
  const folder = await tempDir(t);
  const open = gate();
  const provider = new ScriptedProvider(script);
  const tools = [waitTool(open), ...builtinTools()];
  const { driver: first, answered } = observed(driver());
  const [localAgent, remoteAgent] = [first, driver()].map(
    (agentDriver) =>
      new Agent({ driver: agentDriver, providers: [provider], tools, projectDir: folder.path, unattended: "wait" }),
  ) as [Agent, Agent];
  t.after(async () => {
    open.open();
    await Promise.all([localAgent.close(), remoteAgent.close()]);
  });
  return { localAgent, remoteAgent, open, provider, answered };
}

const waits: ScriptedStep = callTools(["wait", {}]);

for (const [name, make] of STORES)
  for (const lossy of [false, true])
    describe(
      `a run controlled from another process (${name}${lossy ? ", notifications lost" : ""})`,
      { concurrency: true },
      () => {
        const stores = async (t: Hooks) => {
          const open = await make(t);
          return () => withoutRenewals(open(), ...(lossy ? [lossyNotifier] : []));
        };

        it("ends with the command that its tool started when its session is deleted", async (t) => {
          const seconds = String(uniqueSeconds());
          const { localAgent, remoteAgent } = await two(t, await stores(t), [
            callTools(["bash", { command: `sleep ${seconds}` }]),
          ]);
          const run = await localAgent.run({ message: "hi" });
          await until(async () => (await processes(seconds)) > 0);
          await remoteAgent.sessions.delete(run.sessionId);
          await assert.rejects(run.result, { code: "session_not_found" });
          await until(async () => (await processes(seconds)) === 0);
          assert.equal(await localAgent.sessions.get(run.sessionId), undefined);
          assert.equal(await localAgent.runs.get(run.id), undefined);
        });

        it("ends with run_cancelled after a cancel", async (t) => {
          const { localAgent, remoteAgent } = await two(t, await stores(t), [waits]);
          const run = await localAgent.run({ message: "hi" });
          assert.equal((await cancelled(remoteAgent, run.id)).state, "cancelled");
          await assert.rejects(run.result, { code: "run_cancelled" });
        });

        it("sends a steering message to its model with the next request", async (t) => {
          const { localAgent, remoteAgent, open, provider, answered } = await two(t, await stores(t), [waits, "done"]);
          const run = await localAgent.run({ message: "hi" });
          await open.reached;
          const read = answered("instructions", (all) => all.some(({ text }) => text === "not that way"));
          assert.equal(await remoteAgent.runs.steer(run.id, "not that way"), true);
          await read;
          open.open();
          await run.result;
          const instruction = provider.requests.at(-1)?.messages.at(-1);
          assert.deepEqual(instruction?.parts, [{ type: "text", text: "not that way" }]);
        });

        it('continues after an answer to its ask, and a watcher receives the state "waiting"', async (t) => {
          const { localAgent, remoteAgent } = await two(t, await stores(t), [
            callTools(["bash", { command: "true" }]),
            "done",
          ]);
          const { id: sessionId } = await localAgent.sessions.create();
          await localAgent.sessions.update(sessionId, { mode: "ask" });
          const stopWatching = new AbortController();
          t.after(() => stopWatching.abort());
          const events: WatchEvent[] = [];
          const watching = (async () => {
            for await (const event of remoteAgent.sessions.watch(sessionId, { signal: stopWatching.signal })) {
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
          await watching;
          assert.ok(events.some((event) => event.type === "state" && event.state.run?.state === "waiting"));
        });

        it("starts the next queued run of the other process, and a queued run can be cancelled", async (t) => {
          const { localAgent, remoteAgent, open } = await two(t, await stores(t), [waits, "first", "second"]);
          const first = await localAgent.run({ message: "hi" });
          const { sessionId } = first;
          await open.reached;
          const queued: string[] = [];
          const wait = (message: string) => {
            const onQueued = (_: number, { id }: { id: string }) => void (queued.includes(id) || queued.push(id));
            return remoteAgent.run({ message, sessionId, queue: true, onQueued });
          };
          const second = wait("second");
          await until(() => queued.length === 1);
          const third = assert.rejects(wait("third"), { code: "run_cancelled" });
          await until(() => queued.length === 2);
          await localAgent.runs.cancel(queued[1] ?? "");
          await third;
          const startedRun = localAgent.runs.started(queued[0] ?? "");
          open.open();
          await first.result;
          assert.notEqual((await startedRun).state, "queued");
          assert.equal((await (await second).result).output, "second");
        });
      },
    );
