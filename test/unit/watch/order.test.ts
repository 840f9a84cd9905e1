import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, defineTool, MemoryDriver, type Message } from "gantry";
import { MemoryDocuments, type SessionChange } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { turns } from "../../helpers/fake-time.js";
import { until } from "../../helpers/lab.js";
import { STORES, type StoreKind } from "../../helpers/stores.js";
import { tempDir } from "../../helpers/temp.js";
import { comparable, WatchedPage } from "../../helpers/watched-page.js";

const RUNS = 4;

const act = defineTool({
  name: "act",
  description: "Acts.",
  kind: "execute",
  schema: { type: "object", properties: { run: { type: "integer" } } },
  run: () => "done",
});

/** An answer in pieces, then a call that needs permission, then another answer. */
const steps = Array.from({ length: RUNS }, (_, run): ScriptedStep[] => [
  [{ type: "text", block: "0", text: `run ${run} ` }, ...callTools(["act", { run }])],
  Array.from({ length: 20 }, (_, i) => ({ type: "text", block: "0", text: `word${i} ` }) as const),
]).flat();

/** Watchers read the end of a run before the process of the run knows that it is stored. */
class LateDriver extends MemoryDriver {
  #states = 0;

  override async head(...query: Parameters<MemoryDriver["head"]>): ReturnType<MemoryDriver["head"]> {
    const head = await super.head(...query);
    this.#states += 1;
    return head;
  }

  override async write(id: string, change: SessionChange): ReturnType<MemoryDriver["write"]> {
    const result = await super.write(id, change);
    if (change.release !== true) return result;
    const before = this.#states;
    this.notifier.publish(id);
    await until(() => this.#states > before);
    await turns();
    return result;
  }
}

const late: StoreKind = [
  "a store that answers late",
  () => {
    const store = new MemoryDocuments();
    return Promise.resolve(() => new LateDriver(store));
  },
];

describe("the order of watch events", () => {
  for (const [name, make] of [...STORES, late])
    it(`${name}: the end of a run follows all its messages, and an ask follows its tool call`, async (t) => {
      const over = new AbortController();
      let [watchers, agents]: [Promise<void>[], Agent[]] = [[], []];
      // Runs before the stores are closed.
      t.after(async () => {
        over.abort();
        await Promise.all(watchers);
        await Promise.all(agents.map((agent) => agent.close()));
      });
      const driver = await make(t);
      const folder = await tempDir(t);
      agents = [steps, []].map(
        (script) =>
          new Agent({
            driver: driver(),
            providers: [new ScriptedProvider(script)],
            tools: [act],
            projectDir: folder.path,
            unattended: "wait",
          }),
      );
      const firstAgent = agents[0]!;
      const { id } = await firstAgent.sessions.create();
      await firstAgent.sessions.update(id, { mode: "ask" });
      /** The messages of a watcher when it received the end of a run. */
      const messagesAtEnd = new Map<string, Message[]>();
      const answeredAsks = new Set<string>();
      /** Watchers that have received the first state, which comes before all messages. */
      const begun = new Set<number>();
      let fault: unknown;
      const all = async (holds: () => boolean): Promise<void> => {
        await until(() => fault !== undefined || holds());
        if (fault) throw fault as Error;
      };
      const watch = async (agent: Agent, at: number): Promise<void> => {
        const page = new WatchedPage();
        for await (const event of agent.sessions.watch(id, { signal: over.signal })) {
          page.apply(event);
          if (event.type !== "state") continue;
          begun.add(at);
          const { run, asks } = event.state;
          const place = `${at} ${String(run?.id)}`;
          if (run?.state === "finished" && !messagesAtEnd.has(place)) messagesAtEnd.set(place, page.messages);
          for (const { id: ask, callId } of asks) {
            const calls = page.messages.flatMap(({ parts }) => parts).filter((part) => part.type === "tool_call");
            assert.ok(calls.some((part) => part.id === callId));
            // One watcher answers, the other only watches.
            if (answeredAsks.has(ask)) continue;
            answeredAsks.add(ask);
            await agent.asks.answer(ask, { choice: "allow" });
          }
        }
      };
      watchers = agents.map((agent, at) => watch(agent, at).catch((error: unknown) => void (fault ??= error)));
      await all(() => begun.size === agents.length);
      for (let n = 0; n < RUNS; n += 1) {
        const run = await firstAgent.run({ message: `prompt ${n}`, sessionId: id });
        await run.result;
        // Both watchers have received the end before the next run starts.
        await all(() => [0, 1].every((at) => messagesAtEnd.has(`${at} ${run.id}`)));
        const expectedMessages = (await firstAgent.sessions.messages(id)).map(comparable);
        for (const at of [0, 1])
          assert.deepEqual(messagesAtEnd.get(`${at} ${run.id}`), expectedMessages, `watcher ${at}, run ${n}`);
      }
      assert.equal(answeredAsks.size, RUNS);
    });
});
