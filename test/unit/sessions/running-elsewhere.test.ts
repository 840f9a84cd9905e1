import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent } from "gantry";
import { currentHolder, type SessionDriver } from "gantry/plugin";
import { ScriptedProvider } from "gantry/testing";
import { findRun } from "../../../src/testing/session-driver/driver-calls.js";
import { aGrowingMessage, aMessage, aRun, aSession, change } from "../../../src/testing/session-driver/records.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

/** Creates a lease holder on another host, whose liveness cannot be checked on this host. */
const createForeignHolder = () => ({
  ...currentHolder(),
  host: "another host",
  boot: "its boot",
  pid: 1,
  started: "1",
});

/** Creates an agent on a store in which another host runs a session. The other host holds the lease for `ttlMs`. */
async function startForeignRun(t: Hooks, driver: SessionDriver, ttlMs: number) {
  const { path: projectDir } = await tempDir(t);
  const agent = new Agent({ driver, providers: [new ScriptedProvider(["done", "done"])], tools: [], projectDir });
  t.after(() => agent.close());
  await agent.open();
  await driver.create({ session: aSession("a", { hasFinalTitle: true, projectDir }) });
  const lease = await driver.lease("a", createForeignHolder(), ttlMs);
  assert.ok(!("heldBy" in lease));
  const { fence } = lease;
  const addedMessages = [aMessage("a", 1), aGrowingMessage("a", 2)];
  const deltas = [{ messageId: "a-2", part: 0, type: "text" as const, text: "so far" }];
  await driver.write("a", change({ fence, add: addedMessages, append: deltas, runs: [aRun("r", "a")], sync: true }));
  const readState = async (id: string) => (await agent.runs.get(id))?.state;
  return { agent, fence, readState };
}

for (const [name, makeStore] of STORES)
  describe(`a session that another host runs (${name})`, () => {
    it("is busy, and its run is reported as running elsewhere, while the lease is valid", async (t) => {
      const driver = (await makeStore(t))();
      const { agent, readState } = await startForeignRun(t, driver, 600_000);
      await assert.rejects(agent.run({ message: "hi", sessionId: "a" }), { code: "session_busy" });
      await assert.rejects(agent.sessions.revert("a", "a-1"), { code: "session_busy" });
      assert.equal(await readState("r"), "running");
      assert.equal(await agent.sessions.isRunning("a"), true);
      const states: unknown[] = [];
      for await (const event of agent.sessions.watch("a", { follow: false }))
        if (event.type === "state") states.push([event.state.runningElsewhere, event.state.run?.state]);
      assert.deepEqual(states, [[true, "running"]]);
    });

    it("continues after the lease expires, with all stored text, and rejects late writes of the old holder", async (t) => {
      const driver = (await makeStore(t))();
      const { agent, fence, readState } = await startForeignRun(t, driver, 400);
      const nextRun = agent.run({ message: "hi", sessionId: "a", queue: true });
      await waitUntil(async () => (await readState("r")) === "interrupted");
      assert.equal((await (await nextRun).result).output, "done");
      const texts = (await agent.sessions.messages("a")).map(({ parts }) =>
        parts.map((part) => ("text" in part ? part.text : "")).join(""),
      );
      assert.deepEqual(texts.slice(1), ["so far", "hi", "done"]);
      await assert.rejects(driver.write("a", change({ fence, add: [aMessage("a", 9)] })), { code: "lease_lost" });
      assert.equal((await findRun(driver, "r"))?.run.state, "interrupted", "the next run stores the interruption");
    });

    it("keeps the position of a run that is queued on another host until its queue lease expires", async (t) => {
      const driver = (await makeStore(t))();
      const { path: projectDir } = await tempDir(t);
      const agent = new Agent({ driver, providers: [new ScriptedProvider(["done"])], tools: [], projectDir });
      t.after(() => agent.close());
      await agent.open();
      await driver.create({ session: aSession("a", { hasFinalTitle: true, projectDir }) });
      const holder = createForeignHolder();
      const writeQueueLease = (leaseMs: number) => {
        const queueLease = { holder, expiresAt: new Date(Date.now() + leaseMs).toISOString() };
        return driver.write("a", change({ runs: [aRun("r", "a", { state: "queued", queueLease })] }));
      };
      await writeQueueLease(600_000);
      await assert.rejects(agent.run({ message: "hi", sessionId: "a" }), { code: "session_busy" });
      const aheadCounts: number[] = [];
      const nextRun = agent.run({
        message: "hi",
        sessionId: "a",
        queue: true,
        onQueued: (ahead) => aheadCounts.push(ahead),
      });
      await waitUntil(() => aheadCounts.length > 0);
      assert.equal(aheadCounts[0], 1);
      assert.equal(await agent.sessions.isRunning("a"), false);
      await writeQueueLease(-1);
      assert.equal((await (await nextRun).result).output, "done");
    });
  });
