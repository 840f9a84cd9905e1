import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { RunRecord } from "../../ports/run.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { RunQuery } from "../../ports/session-queries.js";
import { expectError } from "../check.js";
import { acquireLease, findRun, releaseLease } from "./driver-calls.js";
import { aHolder, aMessage, aRun, aSession, at, change } from "./records.js";
import type { StoreRules } from "./store-under-test.js";

const ENDED_FIELDS: Partial<RunRecord> = {
  state: "finished",
  endedAt: at(9),
  usage: { promptTokens: 5_000_000_000, completionTokens: 7, totalTokens: 5_000_000_007, cost: 0.1234567 },
  iterations: 3,
  endedBy: "model",
};

async function listRunIds(driver: SessionDriver, query: Partial<RunQuery> = {}): Promise<string[]> {
  return (await driver.runs({ limit: 100, ...query })).map(({ run }) => run.id);
}

/** Returns the id of a run's holder, null without a holder, or undefined for an unknown run. */
async function findHolderId(driver: SessionDriver, id: string): Promise<string | null | undefined> {
  const [storedRun, [listedRun]] = [
    await findRun(driver, id),
    (await driver.runs({ limit: 9 })).filter(({ run }) => run.id === id),
  ];
  assert.deepEqual(storedRun, listedRun, "the same alone and in a list");
  return storedRun?.holder === null ? null : storedRun?.holder.id;
}

export const runRules: StoreRules = {
  "runs: stores every field of a run, from create and from write": async (store) => {
    const { driver } = store;
    const firstRun = aRun("r1", "a", { idempotencyKey: "key of r1", state: "waiting" });
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)], run: firstRun });
    const secondRun = aRun("r2", "a", {
      startedAt: at(2),
      state: "failed",
      endedAt: at(3),
      error: { code: "provider", message: 'lab: 500: "NUL \0" 👩‍👩‍👧‍👦' },
    });
    await driver.write("a", change({ add: [aMessage("a", 2)], runs: [secondRun], sync: true }));
    assert.deepEqual(await findRun(driver, "r1"), { run: firstRun, holder: null });
    assert.deepEqual(await findRun(driver, "r2"), { run: secondRun, holder: null });
    assert.equal(await findRun(driver, "none"), undefined);
    const reopenedDriver = await store.reopen();
    assert.deepEqual(
      (await reopenedDriver.runs({ limit: 9 })).map(({ run }) => run),
      [secondRun, firstRun],
    );
  },
  "runs: a write with the same id replaces the run, whatever fields differ": async ({ driver }) => {
    await driver.create({ session: aSession("a"), run: aRun("r1", "a", { idempotencyKey: "k1" }) });
    await driver.write("a", change({ runs: [aRun("r2", "a", { startedAt: at(1) })] }));
    const endedRun = aRun("r1", "a", {
      ...ENDED_FIELDS,
      startedAt: at(2),
      idempotencyKey: "k2",
      provider: "other",
      model: "m2",
    });
    await driver.write("a", change({ runs: [endedRun, aRun("r3", "a", { startedAt: at(3), idempotencyKey: "k1" })] }));
    assert.deepEqual((await findRun(driver, "r1"))?.run, endedRun);
    assert.deepEqual(await listRunIds(driver), ["r3", "r1", "r2"]);
    assert.deepEqual(await listRunIds(driver, { states: ["finished"] }), ["r1"]);
    assert.deepEqual(await listRunIds(driver, { states: ["running"] }), ["r3", "r2"]);
  },
  "runs: a run of a follow-up belongs to the chain, and its sessionId is the original's id": async ({ driver }) => {
    await driver.create({ session: aSession("a"), run: aRun("r1", "another-id") });
    const session = aSession("a1", { chain: { root: "a", index: 1 } });
    await driver.create({ session, run: aRun("r2", "a1", { startedAt: at(1) }) });
    await driver.write("a1", change({ runs: [aRun("r3", "a1", { startedAt: at(2) })] }));
    for (const id of ["a", "a1"]) assert.deepEqual(await listRunIds(driver, { sessionId: id }), ["r3", "r2", "r1"]);
    for (const { run } of await driver.runs({ limit: 9 })) assert.equal(run.sessionId, "a");
    await driver.write("a", change({ revert: { id: "s", after: 0, createdAt: at(1) } }));
    assert.deepEqual(await listRunIds(driver, { sessionId: "a" }), ["r3", "r2", "r1"], "a revert hides no run");
  },
  "runs: an idempotency key is unique in the store; a call that is rejected for it has no effect": async (store) => {
    const { driver } = store;
    await driver.create({ session: aSession("a"), run: aRun("r1", "a", { idempotencyKey: "k" }) });
    const secondDriver = await store.openSecond();
    const start = { session: aSession("b", { alias: "x" }), messages: [aMessage("b", 1)] };
    await expectError(
      secondDriver.create({ ...start, run: aRun("r2", "b", { idempotencyKey: "k" }) }),
      "run_key_taken",
      "create",
    );
    assert.equal(await secondDriver.get("b"), undefined);
    assert.equal(await secondDriver.get("x"), undefined);
    await secondDriver.create(start);
    const rejectedChange = change({ add: [aMessage("b", 2)], runs: [aRun("r2", "b", { idempotencyKey: "k" })] });
    await expectError(secondDriver.write("b", rejectedChange), "run_key_taken", "write");
    const runsWithSameKey = [aRun("r2", "b", { idempotencyKey: "new" }), aRun("r3", "b", { idempotencyKey: "new" })];
    await expectError(
      secondDriver.write("b", change({ runs: runsWithSameKey })),
      "run_key_taken",
      "twice in one change",
    );
    assert.equal((await secondDriver.get("b"))?.lastSeq, 1);
    assert.deepEqual(await listRunIds(secondDriver), ["r1"]);
    await driver.write("a", change({ runs: [aRun("r1", "a", { idempotencyKey: "k", ...ENDED_FIELDS })] }));
    await secondDriver.write(
      "b",
      change({ runs: [aRun("r2", "b"), aRun("r3", "b"), aRun("r4", "b", { idempotencyKey: "K" })] }),
    );
    assert.deepEqual(
      await listRunIds(driver),
      ["r4", "r3", "r2", "r1"],
      "several runs can have no key, and keys are case-sensitive",
    );
  },
  "runs: rejects the id of another chain's run, which stays unchanged": async ({ driver }) => {
    await driver.create({ session: aSession("a"), run: aRun("r1", "a") });
    await driver.create({ session: aSession("b") });
    await expectError(driver.write("b", change({ runs: [aRun("r1", "b", ENDED_FIELDS)] })), "run_key_taken", "write");
    const createPromise = driver.create({ session: aSession("c"), run: aRun("r1", "c") });
    await expectError(createPromise, "run_key_taken", "create");
    assert.deepEqual((await findRun(driver, "r1"))?.run, aRun("r1", "a"));
  },
  "runs: of two concurrent runs with one key, through two drivers, one is stored": async (store) => {
    const drivers = [store.driver, await store.openSecond()];
    for (const id of ["s0", "s1"]) await store.driver.create({ session: aSession(id) });
    for (let round = 0; round < 5; round++) {
      const results = await Promise.allSettled(
        drivers.map((driver, index) => {
          const run = aRun(`r${round}-${index}`, `s${index}`, { idempotencyKey: `k${round}` });
          return driver.write(`s${index}`, change({ runs: [run] }));
        }),
      );
      assert.deepEqual(results.map((result) => result.status).sort(), ["fulfilled", "rejected"]);
    }
    assert.equal((await listRunIds(store.driver)).length, 5);
  },
  "runs: sorted by startedAt, newest first, then by id; filtered by chain, states and id": async ({ driver }) => {
    const states = ["running", "waiting", "finished", "failed", "cancelled", "interrupted"] as const;
    for (const id of ["a", "b"]) await driver.create({ session: aSession(id) });
    for (const [n, state] of states.entries()) {
      const startedAt = at(Math.floor(n / 2));
      await driver.write("a", change({ runs: [aRun(`a${n}`, "a", { state, startedAt })] }));
      await driver.write("b", change({ runs: [aRun(`b${n}`, "b", { state, startedAt })] }));
    }
    assert.deepEqual(await listRunIds(driver, { sessionId: "a" }), ["a5", "a4", "a3", "a2", "a1", "a0"]);
    assert.deepEqual(await listRunIds(driver, { limit: 5 }), ["b5", "b4", "a5", "a4", "b3"]);
    assert.deepEqual(await listRunIds(driver, { states: ["failed"] }), ["b3", "a3"]);
    assert.deepEqual(await listRunIds(driver, { states: ["waiting", "interrupted", "running"], limit: 4 }), [
      "b5",
      "a5",
      "b1",
      "b0",
    ]);
    assert.deepEqual(await listRunIds(driver, { sessionId: "a", states: ["running", "failed"] }), ["a3", "a0"]);
    assert.deepEqual(await listRunIds(driver, { states: [] }), []);
    assert.deepEqual(await listRunIds(driver, { sessionId: "none" }), []);
    assert.deepEqual(await listRunIds(driver, { id: "a3", sessionId: "a", states: ["failed"] }), ["a3"]);
    assert.deepEqual(await listRunIds(driver, { id: "a3", sessionId: "b" }), []);
    assert.deepEqual(await listRunIds(driver, { id: "a3", states: ["running"] }), []);
    assert.deepEqual(await listRunIds(driver, { limit: 0 }), []);
  },
  "runs: a queued run is unfinished and keeps its key; once it runs, its new startedAt sorts it": async ({
    driver,
  }) => {
    await driver.create({ session: aSession("a"), run: aRun("r1", "a", { startedAt: at(1) }) });
    const queueLease = { holder: aHolder("h"), expiresAt: at(9) };
    const queuedRun = aRun("r2", "a", { state: "queued", idempotencyKey: "k", startedAt: at(2), queueLease });
    await driver.write(
      "a",
      change({ runs: [queuedRun, aRun("r3", "a", { state: "queued", startedAt: at(3), queueLease })] }),
    );
    assert.deepEqual((await findRun(driver, "r2"))?.run, queuedRun);
    assert.deepEqual(await listRunIds(driver, { states: ["queued"] }), ["r3", "r2"]);
    assert.deepEqual(
      (await driver.head("a"))?.unfinished.map(({ id }) => id),
      ["r3", "r2", "r1"],
    );
    await driver.forgetKeys?.(at(8));
    assert.deepEqual(await listRunIds(driver, { idempotencyKey: "k" }), ["r2"]);
    await driver.write("a", change({ runs: [{ ...queuedRun, state: "running", startedAt: at(4), queueLease: null }] }));
    assert.deepEqual(await listRunIds(driver, {}), ["r2", "r3", "r1"]);
    assert.equal((await findRun(driver, "r2"))?.run.queueLease, null);
  },
  "runs: pages that continue after an entry contain every run once": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    for (let n = 0; n < 7; n++) {
      const fields = { startedAt: at(Math.floor(n / 3)), state: n % 2 === 0 ? "finished" : "failed" } as const;
      await driver.write("a", change({ runs: [aRun(`r${n}`, "a", fields)] }));
    }
    for (const query of [{}, { sessionId: "a" }, { states: ["finished", "failed"] as const }]) {
      const pagedIds: string[] = [];
      let before: RunQuery["before"];
      while (pagedIds.length < 9) {
        const page = await driver.runs({ ...query, limit: 2, before });
        const lastRun = page.at(-1)?.run;
        if (!lastRun) break;
        pagedIds.push(...page.map(({ run }) => run.id));
        before = { startedAt: lastRun.startedAt, id: lastRun.id };
      }
      assert.deepEqual(pagedIds, ["r6", "r5", "r4", "r3", "r2", "r1", "r0"]);
    }
    assert.deepEqual(await listRunIds(driver, { before: { startedAt: at(1), id: "none" } }), ["r2", "r1", "r0"]);
  },
  "runs: every driver returns the holder of a run while the lease of its last write is active": async (store) => {
    const { driver } = store;
    const lease = await acquireLease(driver, "a", "h1");
    await driver.create({ session: aSession("a"), run: aRun("r1", "a"), fence: lease.fence });
    await driver.write("a", change({ runs: [aRun("r2", "a")] }));
    const secondDriver = await store.openSecond();
    for (const anyDriver of [driver, secondDriver]) {
      assert.deepEqual((await findRun(anyDriver, "r1"))?.holder, aHolder("h1"));
      assert.equal(await findHolderId(anyDriver, "r2"), null, "written without a lease");
    }
    await acquireLease(secondDriver, "a", "h1");
    assert.equal(await findHolderId(driver, "r1"), "h1", "renewed");
    assert.equal(await findHolderId(await store.reopen(), "r1"), "h1");
    await releaseLease(store.driver, lease);
    assert.equal(await findHolderId(secondDriver, "r1"), null, "released");
  },
  "runs: a run has no holder after its lease is replaced, until the new holder writes it": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    const firstLease = await acquireLease(driver, "a", "h1");
    await driver.write("a", change({ fence: firstLease.fence, runs: [aRun("r1", "a"), aRun("r2", "a")] }));
    const secondLease = await driver.lease("a", aHolder("h2"), 60_000, { fenceToReplace: firstLease.fence });
    assert.ok("fence" in secondLease, "the lease is acquired");
    assert.equal(await findHolderId(driver, "r1"), null);
    await driver.write("a", change({ fence: secondLease.fence, runs: [aRun("r1", "a", { state: "interrupted" })] }));
    assert.equal(await findHolderId(driver, "r1"), "h2", "the holder of the last write");
    assert.equal(await findHolderId(driver, "r2"), null);
    const lateChange = change({ fence: firstLease.fence, runs: [aRun("r2", "a", ENDED_FIELDS)] });
    await expectError(driver.write("a", lateChange), "lease_lost", "a replaced holder writes the end of its run");
    assert.equal((await findRun(driver, "r2"))?.run.state, "running");
  },
  "runs: a run has no holder after its lease expired": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    const lease = await acquireLease(driver, "a", "h1", 20);
    await driver.write("a", change({ fence: lease.fence, runs: [aRun("r1", "a")] }));
    await sleep(40);
    assert.equal(await findHolderId(driver, "r1"), null);
    await acquireLease(driver, "a", "h1");
    assert.equal(await findHolderId(driver, "r1"), "h1", "the same holder acquired it again");
  },
  "runs: a delete of a chain, by any id of the chain, deletes its runs and frees their ids and keys": async ({
    driver,
  }) => {
    const run = aRun("r1", "a", { idempotencyKey: "k" });
    await driver.create({ session: aSession("a"), run });
    await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }), run: aRun("r2", "a") });
    await driver.create({ session: aSession("b"), run: aRun("r3", "b") });
    await driver.delete(["a1"]);
    assert.deepEqual(await listRunIds(driver), ["r3"]);
    assert.deepEqual(await listRunIds(driver, { sessionId: "a" }), []);
    assert.equal(await findRun(driver, "r1"), undefined);
    await driver.create({ session: aSession("a"), run });
    assert.deepEqual(await listRunIds(driver, { sessionId: "a" }), ["r1"]);
  },
};
