import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, ProviderError, type RunRecord } from "gantry";
import type { CompactionStrategy } from "gantry/plugin";
import { ScriptedProvider } from "gantry/testing";
import { aRun, change } from "../../../src/testing/session-driver/rule.js";
import { fail } from "../../helpers/fake-model-server.js";
import { eventsOf } from "../../helpers/event-page.js";
import { lab, labConfig } from "../../helpers/lab.js";
import { startServer } from "../../helpers/server.js";
import { STORES } from "../../helpers/stores.js";

const busy = (retryAfterMs: number) =>
  new ProviderError("scripted", "rate_limit", "slow down, Bearer abcdef123456", { status: 429, retryAfterMs });

/** The run records that a watcher receives, up to the first for which `last` returns true. */
async function watchedRuns(agent: Agent, id: string, last: (run: RunRecord) => boolean): Promise<RunRecord[]> {
  const runs: RunRecord[] = [];
  for await (const event of agent.sessions.watch(id)) {
    if (event.type !== "state" || !event.state.run) continue;
    runs.push(event.state.run);
    if (last(event.state.run)) break;
  }
  return runs;
}

describe("the retry of a run record", () => {
  for (const [name, make] of STORES) {
    it(`has attempt, time and reason, and is null after a cancel, a failure or the death of the process (${name})`, async (t) => {
      const driver = (await make(t))();
      const provider = new ScriptedProvider([busy(60_000)], { maxRetries: 2 });
      const agent = new Agent({ providers: [provider], driver });
      t.after(() => agent.close());
      const cancel = new AbortController();
      const run = await agent.run({ message: "go", signal: cancel.signal });
      const before = Date.now();
      const [waiting] = (await watchedRuns(agent, run.sessionId, ({ retry }) => retry !== null)).slice(-1);
      const { nextAttemptAt: at, ...retry } = waiting!.retry!;
      assert.deepEqual(retry, { attempt: 1, reason: "scripted: 429: slow down, Bearer [redacted]" });
      assert.ok(Date.parse(at) > before);
      assert.deepEqual(await agent.runs.get(run.id), waiting);
      cancel.abort();
      await assert.rejects(run.result);
      const ended = await agent.runs.get(run.id);
      assert.deepEqual([ended?.state, ended?.retry], ["cancelled", null]);

      // A run whose process died while it waited.
      const dead = aRun("dead", run.sessionId, { retry: waiting!.retry, startedAt: new Date().toISOString() });
      await driver.write(run.sessionId, change({ runs: [dead] }));
      const interrupted = await agent.runs.get("dead");
      assert.deepEqual([interrupted?.state, interrupted?.retry], ["interrupted", null]);

      provider.push(busy(1), busy(1), busy(1));
      const failing = await agent.run({ message: "again", sessionId: run.sessionId });
      await assert.rejects(failing.result, /slow down/);
      assert.equal((await agent.runs.get(failing.id))?.retry, null);
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
    const provider = new ScriptedProvider([busy(60_000)], { maxRetries: 1 });
    const agent = new Agent({ providers: [provider], compaction: { strategy, threshold: 0.01 } });
    t.after(() => agent.close());
    const cancel = new AbortController();
    const run = await agent.run({ message: "go on ".repeat(2000), signal: cancel.signal });
    await watchedRuns(agent, run.sessionId, ({ retry }) => retry?.attempt === 1);
    cancel.abort();
    await assert.rejects(run.result);
    assert.equal((await agent.runs.get(run.id))?.retry, null);
  });

  it("is in the responses and events of the HTTP API only during the wait", async (t) => {
    const models = await lab(t);
    const server = await startServer(t, { config: labConfig(models) });
    const slow = (seconds: number) => fail(429, "Slow down.", { "retry-after": String(seconds) });
    const begin = async (...steps: Parameters<typeof models.enqueue>) => {
      models.enqueue(...steps);
      const body = JSON.stringify({ message: "x", background: true });
      const answer = await server.fetch("/api/run", { method: "POST", body });
      const { run_id: id, session_id: session } = (await answer.json()) as { run_id: string; session_id: string };
      // Tests access arbitrary fields of the response.
      // eslint-disable-next-line @typescript-eslint/no-explicit-any
      const fetchRun = async (): Promise<any> => (await server.fetch(`/api/runs/${id}`)).json();
      return { id, fetchRun, events: eventsOf(`${server.url}/api/sessions/${session}/events`) };
    };

    const long = await begin(slow(30));
    for await (const { data } of long.events)
      if (data.run?.retry) {
        assert.deepEqual(Object.keys(data.run.retry), ["attempt", "next_attempt_at", "reason"]);
        assert.equal(data.run.retry.reason, "lab: 429: Slow down.");
        assert.deepEqual((await long.fetchRun()).retry, data.run.retry);
        break;
      }
    await server.fetch(`/api/runs/${long.id}/cancel`, { method: "POST" });
    assert.equal("retry" in (await long.fetchRun()), false);

    const { fetchRun, events } = await begin(slow(1), slow(1), { say: [{ gate: "open" }, { text: "done" }] });
    const attempts = new Set<number>();
    const watching = (async () => {
      for await (const { data } of events) {
        if (data.run?.retry) attempts.add(data.run.retry.attempt);
        if (data.run?.state === "finished") return;
      }
    })();
    await models.request(4);
    const runState = await fetchRun();
    assert.deepEqual([runState.state, "retry" in runState], ["running", false]);
    models.open("open");
    await watching;
    assert.deepEqual([...attempts], [1, 2]);
    assert.equal("retry" in (await fetchRun()), false);
  });
});
