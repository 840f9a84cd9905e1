import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent } from "gantry";
import { ScriptedProvider } from "gantry/testing";
import { STORES } from "../../helpers/stores.js";
import { tempDir } from "../../helpers/temp.js";

for (const [name, make] of STORES)
  describe(`a run with an idempotency key (${name})`, () => {
    it("starts once for concurrent requests, rejects the others with run_key_taken, and stores its answer", async (t) => {
      const driver = await make(t);
      const folder = await tempDir(t);
      const agents = [0, 1].map(
        () =>
          new Agent({
            driver: driver(),
            providers: [new ScriptedProvider(["yes", "yes", "yes"])],
            projectDir: folder.path,
          }),
      );
      t.after(async () => {
        for (const agent of agents) await agent.close();
      });
      const [firstAgent, secondAgent] = agents as [Agent, Agent];
      for (let round = 0; round < 3; round += 1) {
        const key = `k${round}`;
        const outcomes = await Promise.allSettled(
          [firstAgent, secondAgent, firstAgent].map((agent) =>
            agent.run({ message: "x", idempotencyKey: key, fingerprint: "f" }),
          ),
        );
        const started = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
        assert.equal(started.length, 1);
        for (const outcome of outcomes)
          if (outcome.status === "rejected") assert.equal((outcome.reason as { code: string }).code, "run_key_taken");
        await started[0]!.result;
        const [storedRun, secondRun] = await secondAgent.runs.list({ idempotencyKey: key });
        assert.equal(secondRun, undefined);
        assert.equal(storedRun?.id, started[0]!.id);
        assert.deepEqual(storedRun.answer, { output: "yes", finishReason: "stop" });
        assert.deepEqual([storedRun.fingerprint, storedRun.state, storedRun.after], ["f", "finished", 0]);
        const { total } = await firstAgent.sessions.list();
        assert.equal(total, round + 1);
      }
    });

    it("stores the position where it began in its session, and stores no answer if it has no key", async (t) => {
      const folder = await tempDir(t);
      const driver = (await make(t))();
      const agent = new Agent({ driver, providers: [new ScriptedProvider([])], projectDir: folder.path });
      t.after(() => agent.close());
      const first = await agent.run({ message: "x" });
      await first.result;
      const second = await agent.run({ message: "y", sessionId: first.sessionId });
      await second.result;
      const runs = await agent.runs.list({ sessionId: first.sessionId });
      assert.deepEqual(
        runs.map(({ after, answer }) => [after, answer]),
        [
          [2, null],
          [0, null],
        ],
      );
    });

    it("takes over the key of a failed run of its session, and the key is never free in between", async (t) => {
      const folder = await tempDir(t);
      const open = await make(t);
      const driver = open();
      const agent = new Agent({ driver, providers: [new ScriptedProvider([])], projectDir: folder.path });
      t.after(() => agent.close());
      const first = await agent.run({ message: "x", idempotencyKey: "k", fingerprint: "f" });
      await first.result;
      const { sessionId } = first;
      const [old] = await agent.runs.list({ idempotencyKey: "k" });
      assert.ok(old);
      const broken = { ...old, state: "failed", answer: null, error: { code: "store", message: "gone" } } as const;
      await driver.write(sessionId, { fence: null, sync: true, runs: [broken] });
      // Changes after which another process sees the key as free.
      const free: string[] = [];
      const { write } = driver;
      driver.write = async (id, change) => {
        const result = await write.call(driver, id, change);
        if ((await driver.runs({ idempotencyKey: "k", limit: 1 })).length === 0) free.push(JSON.stringify(change.runs));
        return result;
      };
      const again = await agent.run({ message: "x", idempotencyKey: "k", fingerprint: "f", sessionId });
      await again.result;
      assert.deepEqual(free, []);
      const runs = await agent.runs.list({ sessionId });
      assert.deepEqual(
        runs.map(({ id, idempotencyKey: key, state }) => [id, key, state]),
        [
          [again.id, "k", "finished"],
          [first.id, "", "failed"],
        ],
      );
    });

    it("releases its key 25 hours after its start", async (t) => {
      const folder = await tempDir(t);
      const driver = (await make(t))();
      const agent = new Agent({ driver, providers: [new ScriptedProvider([])], projectDir: folder.path });
      t.after(() => agent.close());
      const first = await agent.run({ message: "x", idempotencyKey: "k" });
      await first.result;
      const old = await agent.runs.get(first.id);
      const startedAt = new Date(Date.now() - 25 * 3_600_000).toISOString();
      await driver.write(first.sessionId, { fence: null, sync: true, runs: [{ ...old!, startedAt }] });
      const second = await agent.run({ message: "x", idempotencyKey: "k" });
      await second.result;
      assert.deepEqual(
        (await agent.runs.list({ idempotencyKey: "k" })).map(({ id }) => id),
        [second.id],
      );
      await assert.rejects(agent.run({ message: "x", idempotencyKey: "k" }), { code: "run_key_taken", key: "k" });
    });
  });
