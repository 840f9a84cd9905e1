import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, defineTool, MemoryDriver, type Message } from "gantry";
import { MemoryDocuments, type Notifier, type SessionChange } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { waitTurns } from "../../helpers/fake-time.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { STORES, type StoreKind } from "../../helpers/stores.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { joinTexts, WatchedPage } from "../../helpers/watched-page.js";

const RUN_COUNT = 4;

const actTool = defineTool({
  name: "act",
  description: "Acts.",
  kind: "execute",
  schema: { type: "object", properties: { run: { type: "integer" } } },
  run: () => "done",
});

/** For each run: a text with a call that needs permission, then an answer in 20 chunks. */
const steps = Array.from({ length: RUN_COUNT }, (_, run): ScriptedStep[] => [
  [{ type: "text", block: "0", text: `run ${run} ` }, ...callTools(["act", { run }])],
  Array.from({ length: 20 }, (_, i) => ({ type: "text", block: "0", text: `word${i} ` }) as const),
]).flat();

/** Delays the last write of a run until a watcher has read the end of the run. */
class DelayedWriteDriver extends MemoryDriver {
  /** Notifies the watchers of all drivers: a driver's own notifier does not notify its own watchers. */
  readonly #otherNotifier: Notifier;
  #headReads = 0;

  constructor(documents: MemoryDocuments) {
    super(documents);
    this.#otherNotifier = documents.notifiers.create();
  }

  override async head(...query: Parameters<MemoryDriver["head"]>): ReturnType<MemoryDriver["head"]> {
    const head = await super.head(...query);
    this.#headReads += 1;
    return head;
  }

  override async write(id: string, change: SessionChange): ReturnType<MemoryDriver["write"]> {
    const result = await super.write(id, change);
    if (change.release !== true) return result;
    const previousReadCount = this.#headReads;
    this.#otherNotifier.publish(id);
    await waitUntil(() => this.#headReads > previousReadCount);
    await waitTurns();
    return result;
  }
}

const delayedStore: StoreKind = [
  "a store with delayed writes",
  () => {
    const store = new MemoryDocuments();
    return Promise.resolve(() => new DelayedWriteDriver(store));
  },
];

describe("the order of watch events", () => {
  for (const [name, createStore] of [...STORES, delayedStore])
    it(`${name}: the end of a run follows all its messages, and an ask follows its tool call`, async (t) => {
      const watchController = new AbortController();
      let [watchers, agents]: [Promise<void>[], Agent[]] = [[], []];
      // This hook runs before the hooks that close the stores.
      t.after(async () => {
        watchController.abort();
        await Promise.all(watchers);
        await Promise.all(agents.map((agent) => agent.close()));
      });
      const openDriver = await createStore(t);
      const folder = await tempDir(t);
      agents = [steps, []].map(
        (script) =>
          new Agent({
            driver: openDriver(),
            providers: [new ScriptedProvider(script)],
            tools: [actTool],
            projectDir: folder.path,
            unattended: "wait",
          }),
      );
      const firstAgent = agents[0]!;
      const { id } = await firstAgent.sessions.create();
      await firstAgent.sessions.update(id, { mode: "ask" });
      /** The messages that a watcher had at the end of a run, by watcher index and run id. */
      const messagesByWatcherAndRun = new Map<string, Message[]>();
      const answeredAsks = new Set<string>();
      /** Indexes of the watchers that have received the first state event. */
      const readyWatchers = new Set<number>();
      let watchError: unknown;
      const waitForWatchers = async (isExpected: () => boolean): Promise<void> => {
        await waitUntil(() => watchError !== undefined || isExpected());
        if (watchError) throw watchError as Error;
      };
      const watch = async (agent: Agent, watcherIndex: number): Promise<void> => {
        const page = new WatchedPage();
        for await (const event of agent.sessions.watch(id, { signal: watchController.signal })) {
          page.apply(event);
          if (event.type !== "state") continue;
          readyWatchers.add(watcherIndex);
          const { run, asks } = event.state;
          const key = `${watcherIndex} ${String(run?.id)}`;
          if (run?.state === "finished" && !messagesByWatcherAndRun.has(key))
            messagesByWatcherAndRun.set(key, page.messages);
          for (const { id: askId, callId } of asks) {
            const calls = page.messages.flatMap(({ parts }) => parts).filter((part) => part.type === "tool_call");
            assert.ok(calls.some((part) => part.id === callId));
            // Only the first watcher that receives an ask answers.
            if (answeredAsks.has(askId)) continue;
            answeredAsks.add(askId);
            await agent.asks.answer(askId, { choice: "allow" });
          }
        }
      };
      watchers = agents.map((agent, watcherIndex) =>
        watch(agent, watcherIndex).catch((error: unknown) => void (watchError ??= error)),
      );
      await waitForWatchers(() => readyWatchers.size === agents.length);
      for (let n = 0; n < RUN_COUNT; n += 1) {
        const run = await firstAgent.run({ message: `prompt ${n}`, sessionId: id });
        await run.result;
        // Both watchers have received the end before the next run starts.
        await waitForWatchers(() =>
          [0, 1].every((watcherIndex) => messagesByWatcherAndRun.has(`${watcherIndex} ${run.id}`)),
        );
        const expectedMessages = (await firstAgent.sessions.messages(id)).map(joinTexts);
        for (const watcherIndex of [0, 1])
          assert.deepEqual(
            messagesByWatcherAndRun.get(`${watcherIndex} ${run.id}`),
            expectedMessages,
            `watcher ${watcherIndex}, run ${n}`,
          );
      }
      assert.equal(answeredAsks.size, RUN_COUNT);
    });
});
