import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, ProviderError, type RunRecord } from "gantry";
import type { CompactionStrategy } from "gantry/plugin";
import { ScriptedProvider } from "gantry/testing";
import { aRun, change } from "../../../src/testing/session-driver/records.js";
import { errorStep } from "../../helpers/fake-model-server.js";
import { readSessionEvents } from "../../helpers/event-page.js";
import { startModelServer, createServerConfig } from "../../helpers/server-runs.js";
import { startServer } from "../../helpers/server.js";
import { STORES } from "../../helpers/stores.js";

const createRateLimitError = (retryAfterMs: number) =>
  new ProviderError("scripted", "rate_limit", "slow down, Bearer abcdef123456", { status: 429, retryAfterMs });

/** Returns the run records that a watcher receives. The last record is the first for which `isLast` returns true. */
async function collectRuns(agent: Agent, id: string, isLast: (run: RunRecord) => boolean): Promise<RunRecord[]> {
  const runs: RunRecord[] = [];
  for await (const event of agent.sessions.watch(id)) {
    if (event.type !== "state" || !event.state.run) continue;
    runs.push(event.state.run);
    if (isLast(event.state.run)) break;
  }
  return runs;
}

describe("the retry of a run record", () => {
  for (const [name, createStore] of STORES) {
    it(`has attempt, time and reason, and is null after a cancel, a failure or the death of the process (${name})`, async (t) => {
      const driver = (await createStore(t))();
      const provider = new ScriptedProvider([createRateLimitError(60_000)], { maxRetries: 2 });
      const agent = new Agent({ providers: [provider], driver });
      t.after(() => agent.close());
      const cancelController = new AbortController();
      const run = await agent.run({ message: "go", signal: cancelController.signal });
      const startMs = Date.now();
      const [waitingRun] = (await collectRuns(agent, run.sessionId, ({ retry }) => retry !== null)).slice(-1);
      const { nextAttemptAt, ...retry } = waitingRun!.retry!;
      assert.deepEqual(retry, { attempt: 1, reason: "scripted: 429: slow down, Bearer [redacted]" });
      assert.ok(Date.parse(nextAttemptAt) > startMs);
      assert.deepEqual(await agent.runs.get(run.id), waitingRun);
      cancelController.abort();
      await assert.rejects(run.result);
      const cancelledRun = await agent.runs.get(run.id);
      assert.deepEqual([cancelledRun?.state, cancelledRun?.retry], ["cancelled", null]);

      // Simulates a run whose process died while the run waited for a retry.
      const deadRun = aRun("dead", run.sessionId, { retry: waitingRun!.retry, startedAt: new Date().toISOString() });
      await driver.write(run.sessionId, change({ runs: [deadRun] }));
      const interruptedRun = await agent.runs.get("dead");
      assert.deepEqual([interruptedRun?.state, interruptedRun?.retry], ["interrupted", null]);

      provider.push(createRateLimitError(1), createRateLimitError(1), createRateLimitError(1));
      const failingRun = await agent.run({ message: "again", sessionId: run.sessionId });
      await assert.rejects(failingRun.result, /slow down/);
      assert.equal((await agent.runs.get(failingRun.id))?.retry, null);
    });
  }

  it("is set for a model request of a compaction strategy", async (t) => {
    const strategy: CompactionStrategy = {
      name: "asking",
      compact: async ({ ask, messages }, signal) => {
        await ask({ system: "s", message: "m", maxTokens: 100 }, signal!);
        return messages.slice(-1);
      },
    };
    const provider = new ScriptedProvider([createRateLimitError(60_000)], { maxRetries: 1 });
    const agent = new Agent({ providers: [provider], compaction: { strategy, threshold: 0.01 } });
    t.after(() => agent.close());
    const cancelController = new AbortController();
    const run = await agent.run({ message: "go on ".repeat(2000), signal: cancelController.signal });
    await collectRuns(agent, run.sessionId, ({ retry }) => retry?.attempt === 1);
    cancelController.abort();
    await assert.rejects(run.result);
    assert.equal((await agent.runs.get(run.id))?.retry, null);
  });

  it("is in the responses and events of the HTTP API only during the wait", async (t) => {
    const modelServer = await startModelServer(t);
    const server = await startServer(t, { config: createServerConfig(modelServer) });
    const createRetryStep = (seconds: number) => errorStep(429, "Slow down.", { "retry-after": String(seconds) });
    const startRun = async (...steps: Parameters<typeof modelServer.enqueue>) => {
      modelServer.enqueue(...steps);
      const body = JSON.stringify({ message: "x", background: true });
      const response = await server.fetch("/api/run", { method: "POST", body });
      const { run_id: id, session_id: session } = (await response.json()) as { run_id: string; session_id: string };
      // Tests access arbitrary fields of the response.
      // eslint-disable-next-line @typescript-eslint/no-explicit-any
      const fetchRun = async (): Promise<any> => (await server.fetch(`/api/runs/${id}`)).json();
      return { id, fetchRun, events: readSessionEvents(`${server.url}/api/sessions/${session}/events`) };
    };

    const longWaitRun = await startRun(createRetryStep(30));
    for await (const { data } of longWaitRun.events)
      if (data.run?.retry) {
        assert.deepEqual(Object.keys(data.run.retry), ["attempt", "next_attempt_at", "reason"]);
        assert.equal(data.run.retry.reason, "lab: 429: Slow down.");
        assert.deepEqual((await longWaitRun.fetchRun()).retry, data.run.retry);
        break;
      }
    await server.fetch(`/api/runs/${longWaitRun.id}/cancel`, { method: "POST" });
    assert.equal("retry" in (await longWaitRun.fetchRun()), false);

    const { fetchRun, events } = await startRun(createRetryStep(1), createRetryStep(1), {
      say: [{ gate: "open" }, { text: "done" }],
    });
    const attempts = new Set<number>();
    const eventWatcher = (async () => {
      for await (const { data } of events) {
        if (data.run?.retry) attempts.add(data.run.retry.attempt);
        if (data.run?.state === "finished") return;
      }
    })();
    await modelServer.waitForRequest(4);
    const runBody = await fetchRun();
    assert.deepEqual([runBody.state, "retry" in runBody], ["running", false]);
    modelServer.openGate("open");
    await eventWatcher;
    assert.deepEqual([...attempts], [1, 2]);
    assert.equal("retry" in (await fetchRun()), false);
  });
});
