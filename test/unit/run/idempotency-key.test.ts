import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent } from "gantry";
import { ScriptedProvider } from "gantry/testing";
import { STORES } from "../../helpers/stores.js";
import { tempDir } from "../../helpers/temp-dir.js";

for (const [name, makeStore] of STORES)
  describe(`a run and its idempotency key (${name})`, () => {
    it("starts once for concurrent requests, rejects the others with run_key_taken, and stores its answer", async (t) => {
      const openDriver = await makeStore(t);
      const folder = await tempDir(t);
      const agents = [0, 1].map(
        () =>
          new Agent({
            driver: openDriver(),
            providers: [new ScriptedProvider(["yes", "yes", "yes"])],
            projectDir: folder.path,
          }),
      );
      t.after(async () => {
        for (const agent of agents) await agent.close();
      });
      const [firstAgent, secondAgent] = agents as [Agent, Agent];
      for (let i = 0; i < 3; i += 1) {
        const key = `k${i}`;
        const results = await Promise.allSettled(
          [firstAgent, secondAgent, firstAgent].map((startingAgent) =>
            startingAgent.run({ message: "x", idempotencyKey: key, fingerprint: "f" }),
          ),
        );
        const startedRuns = results.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
        assert.equal(startedRuns.length, 1);
        for (const result of results)
          if (result.status === "rejected") assert.equal((result.reason as { code: string }).code, "run_key_taken");
        await startedRuns[0]!.result;
        const [storedRun, secondRun] = await secondAgent.runs.list({ idempotencyKey: key });
        assert.equal(secondRun, undefined);
        assert.equal(storedRun?.id, startedRuns[0]!.id);
        assert.deepEqual(storedRun.answer, { output: "yes", finishReason: "stop" });
        assert.deepEqual([storedRun.fingerprint, storedRun.state, storedRun.after], ["f", "finished", 0]);
        const { total } = await firstAgent.sessions.list();
        assert.equal(total, i + 1);
      }
    });

    it("without a key stores its start position in the session, but no answer", async (t) => {
      const folder = await tempDir(t);
      const driver = (await makeStore(t))();
      const agent = new Agent({ driver, providers: [new ScriptedProvider([])], projectDir: folder.path });
      t.after(() => agent.close());
      const firstRun = await agent.run({ message: "x" });
      await firstRun.result;
      const secondRun = await agent.run({ message: "y", sessionId: firstRun.sessionId });
      await secondRun.result;
      const storedRuns = await agent.runs.list({ sessionId: firstRun.sessionId });
      assert.deepEqual(
        storedRuns.map(({ after, answer }) => [after, answer]),
        [
          [2, null],
          [0, null],
        ],
      );
    });

    it("continues the interrupted run of its key, and the key is never free meanwhile", async (t) => {
      const folder = await tempDir(t);
      const openDriver = await makeStore(t);
      const driver = openDriver();
      const agent = new Agent({ driver, providers: [new ScriptedProvider([])], projectDir: folder.path });
      t.after(() => agent.close());
      const firstRun = await agent.run({ message: "x", idempotencyKey: "k", fingerprint: "f" });
      await firstRun.result;
      const { sessionId } = firstRun;
      const [oldRecord] = await agent.runs.list({ idempotencyKey: "k" });
      assert.ok(oldRecord);
      const failedRun = {
        ...oldRecord,
        state: "failed",
        answer: null,
        error: { code: "store", message: "gone" },
      } as const;
      await driver.write(sessionId, { fence: null, sync: true, runs: [failedRun] });
      // Stored runs of each change after which another process sees the key as free.
      const keyReleases: string[] = [];
      const { write } = driver;
      driver.write = async (id, change) => {
        const result = await write.call(driver, id, change);
        if ((await driver.runs({ idempotencyKey: "k", limit: 1 })).length === 0)
          keyReleases.push(JSON.stringify(change.runs));
        return result;
      };
      // Without a session, the run continues in the session of its key.
      const continuedRun = await agent.run({ message: "x", idempotencyKey: "k", fingerprint: "f" });
      const { usage } = await continuedRun.result;
      assert.equal(usage.totalTokens, 2 * oldRecord.usage.totalTokens);
      assert.deepEqual(keyReleases, []);
      const storedRuns = await agent.runs.list({ sessionId });
      assert.deepEqual(
        storedRuns.map(({ id, idempotencyKey: key, state }) => [id, key, state]),
        [[firstRun.id, "k", "finished"]],
      );
    });

    it("takes the key of an interrupted run after which the session has continued, and adds its prompt", async (t) => {
      const folder = await tempDir(t);
      const driver = (await makeStore(t))();
      const agent = new Agent({ driver, providers: [new ScriptedProvider([])], projectDir: folder.path });
      t.after(() => agent.close());
      const firstRun = await agent.run({ message: "x", idempotencyKey: "k", fingerprint: "f" });
      await firstRun.result;
      const { sessionId } = firstRun;
      const oldRecord = await agent.runs.get(firstRun.id);
      const failedRun = { ...oldRecord!, state: "failed", error: { code: "store", message: "gone" } } as const;
      await driver.write(sessionId, { fence: null, sync: true, runs: [failedRun] });
      await (
        await agent.run({ message: "y", sessionId })
      ).result;
      const newRun = await agent.run({ message: "x", idempotencyKey: "k", fingerprint: "f" });
      await newRun.result;
      assert.notEqual(newRun.id, firstRun.id);
      assert.deepEqual(
        (await agent.runs.list({ idempotencyKey: "k" })).map(({ id }) => id),
        [newRun.id],
      );
      const prompts = (await driver.messages(sessionId)).filter(({ role }) => role === "user");
      assert.deepEqual(
        prompts.map(({ parts }) => parts.map((part) => part.type === "text" && part.text).join()),
        ["x", "y", "x"],
      );
    });

    it("releases its key one day after its start", async (t) => {
      const folder = await tempDir(t);
      const driver = (await makeStore(t))();
      const agent = new Agent({ driver, providers: [new ScriptedProvider([])], projectDir: folder.path });
      t.after(() => agent.close());
      const firstRun = await agent.run({ message: "x", idempotencyKey: "k" });
      await firstRun.result;
      const oldRecord = await agent.runs.get(firstRun.id);
      const startedAt = new Date(Date.now() - 25 * 3_600_000).toISOString();
      await driver.write(firstRun.sessionId, { fence: null, sync: true, runs: [{ ...oldRecord!, startedAt }] });
      const secondRun = await agent.run({ message: "x", idempotencyKey: "k" });
      await secondRun.result;
      assert.deepEqual(
        (await agent.runs.list({ idempotencyKey: "k" })).map(({ id }) => id),
        [secondRun.id],
      );
      await assert.rejects(agent.run({ message: "x", idempotencyKey: "k" }), { code: "run_key_taken", key: "k" });
    });
  });
