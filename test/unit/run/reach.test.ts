import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Agent, builtinTools, type SessionDriver, type WatchEvent } from "gantry";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { gate, waitTool } from "../../helpers/gate.js";
import { processes, uniqueSeconds, until } from "../../helpers/lab.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

/** Of another process no hint comes; one a second comes for nothing, as of a notifier whose messages may be lost. */
function withoutHints(driver: SessionDriver): SessionDriver {
  const notifier: SessionDriver["notifier"] = {
    publish: () => undefined,
    subscribe: (_, hint) => {
      const timer = setInterval(hint, 1000).unref();
      return () => clearInterval(timer);
    },
  };
  return new Proxy(driver, {
    get(target, name) {
      if (name === "notifier") return notifier;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** What is renewed, and would find out by itself, is renewed later than this. */
const SOON_MS = 8_000;

async function soon<T>(work: Promise<T>): Promise<T> {
  const late = new AbortController();
  const never = sleep(SOON_MS, undefined, { signal: late.signal }).then(() => assert.fail("nobody told it"));
  never.catch(() => undefined);
  return Promise.race([work, never]).finally(() => late.abort());
}

/** Two agents on one store, as two processes have. The first runs the script, and its tools: `wait` waits for the gate. */
async function two(t: Hooks, driver: () => SessionDriver, script: readonly ScriptedStep[]) {
  const folder = await tempDir(t);
  const open = gate();
  const provider = new ScriptedProvider(script);
  const tools = [waitTool(open), ...builtinTools()];
  const [here, there] = [driver(), driver()].map(
    (one) => new Agent({ driver: one, providers: [provider], tools, projectDir: folder.path, unattended: "wait" }),
  ) as [Agent, Agent];
  t.after(async () => {
    open.open();
    await Promise.all([here.close(), there.close()]);
  });
  return { here, there, open, provider };
}

const waits: ScriptedStep = callTools(["wait", {}]);

for (const [name, make] of STORES)
  for (const lossy of [false, true])
    describe(
      `what reaches a run from another process (${name}${lossy ? ", its hints lost" : ""})`,
      { concurrency: true },
      () => {
        const stores = async (t: Hooks) => {
          const open = await make(t);
          return lossy ? () => withoutHints(open()) : open;
        };

        it("a delete: the run ends, and with it what its tool began", async (t) => {
          const seconds = String(uniqueSeconds());
          const { here, there } = await two(t, await stores(t), [callTools(["bash", { command: `sleep ${seconds}` }])]);
          const run = await here.run({ message: "hi" });
          await until(async () => (await processes(seconds)) > 0);
          await there.sessions.delete(run.sessionId);
          await soon(assert.rejects(run.result, { code: "session_not_found" }));
          await until(async () => (await processes(seconds)) === 0);
          assert.equal(await here.sessions.get(run.sessionId), undefined);
          assert.equal(await here.runs.get(run.id), undefined);
        });

        it("a cancel", async (t) => {
          const { here, there } = await two(t, await stores(t), [waits]);
          const run = await here.run({ message: "hi" });
          assert.equal((await there.runs.cancel(run.id)).state, "cancelled");
          await soon(assert.rejects(run.result, { code: "run_cancelled" }));
        });

        it("a word, before its model is asked again", async (t) => {
          const { here, there, open, provider } = await two(t, await stores(t), [waits, "done"]);
          const run = await here.run({ message: "hi" });
          await open.reached;
          assert.equal(await there.runs.steer(run.id, "not that way"), true);
          // It waits for its tool meanwhile.
          await sleep(lossy ? 2_500 : 1_000);
          open.open();
          await run.result;
          const told = provider.requests.at(-1)?.messages.at(-1);
          assert.deepEqual(told?.parts, [{ type: "text", text: "not that way" }]);
        });

        it("an answer to what it asks, which whoever watches there is told", async (t) => {
          const { here, there } = await two(t, await stores(t), [callTools(["bash", { command: "true" }]), "done"]);
          const { id: sessionId } = await here.sessions.create();
          await here.sessions.update(sessionId, { mode: "ask" });
          const gone = new AbortController();
          t.after(() => gone.abort());
          const events: WatchEvent[] = [];
          const watching = (async () => {
            for await (const event of there.sessions.watch(sessionId, { signal: gone.signal })) {
              events.push(event);
              if (event.type !== "state") continue;
              const [ask] = event.state.asks;
              if (ask) await there.asks.answer(ask.id, { choice: "allow" });
              if (event.state.run?.state === "finished") return;
            }
          })();
          const run = await here.run({ message: "hi", sessionId });
          const { output } = await soon(run.result);
          assert.equal(output, "done");
          await soon(watching);
          assert.ok(events.some((event) => event.type === "state" && event.state.run?.state === "waiting"));
        });

        it("its turn in line, and the end of one in line", async (t) => {
          const { here, there, open } = await two(t, await stores(t), [waits, "first", "second"]);
          const first = await here.run({ message: "hi" });
          const { sessionId } = first;
          await open.reached;
          const queued: string[] = [];
          const wait = (message: string) => {
            const onQueued = (_: number, { id }: { id: string }) => void (queued.includes(id) || queued.push(id));
            return there.run({ message, sessionId, queue: true, onQueued });
          };
          const second = wait("second");
          await until(() => queued.length === 1);
          const third = assert.rejects(wait("third"), { code: "run_cancelled" });
          await until(() => queued.length === 2);
          await here.runs.cancel(queued[1] ?? "");
          await soon(third);
          const begun = here.runs.begun(queued[0] ?? "");
          open.open();
          await first.result;
          assert.equal((await soon(begun)).state === "queued", false);
          assert.equal((await (await soon(second)).result).output, "second");
        });
      },
    );
