import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { LeaseHolder } from "../../ports/holder.js";
import type { SessionChange } from "../../ports/session-change.js";
import { expectError } from "../check.js";
import { acquireLease, findAsk, findRun, releaseLease, sendInstruction, withdrawInstruction } from "./driver-calls.js";
import { fenceRules } from "./fences.js";
import {
  aGrowingMessage,
  aHolder,
  aMessage,
  anAsk,
  anInstruction,
  aResolution,
  aRun,
  aSession,
  at,
  change,
} from "./records.js";
import type { StoreRules } from "./store-under-test.js";

export const leaseRules: StoreRules = {
  "lease: one holder at a time; other callers receive the current lease": async (store) => {
    await store.driver.create({ session: aSession("a") });
    await store.driver.create({ session: aSession("b") });
    const holder: LeaseHolder = { id: "h1", host: "n1", boot: "b1", pid: 42, started: "99" };
    const readStoreTime = () => Date.now() + (store.driver.clockOffsetMs ?? 0);
    const requestedAtMs = readStoreTime();
    const lease = await store.driver.lease("a", holder, 60_000);
    assert.ok("fence" in lease, "the lease is acquired");
    assert.deepEqual([lease.rootId, lease.holder], ["a", holder]);
    assert.ok(
      Date.parse(lease.expiresAt) >= requestedAtMs + 60_000 && Date.parse(lease.expiresAt) <= readStoreTime() + 60_000,
      "the lease expires 60 s from now, by the store's clock",
    );
    assert.deepEqual(await store.driver.lease("a", aHolder("h2"), 60_000), { heldBy: lease });
    const secondDriver = await store.openSecond();
    assert.deepEqual(await secondDriver.lease("a", aHolder("h3"), 60_000), { heldBy: lease });
    assert.ok("fence" in (await secondDriver.lease("b", aHolder("h2"), 60_000)), "another chain is free");
  },
  "lease: a request of the same holder renews the lease, with the same fence and a later expiry": async (store) => {
    await store.driver.create({ session: aSession("a") });
    const firstLease = await acquireLease(store.driver, "a", "h1", 10_000);
    const driver = await store.reopen();
    const renewedLease = await acquireLease(driver, "a", "h1", 90_000);
    assert.equal(renewedLease.fence, firstLease.fence);
    assert.ok(renewedLease.expiresAt > firstLease.expiresAt, "a renewed lease expires later");
    await driver.write("a", change({ fence: firstLease.fence, add: [aMessage("a", 1)] }));
  },
  "lease: applies to the whole chain, by any id of the chain": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }) });
    const lease = await acquireLease(driver, "a", "h1");
    assert.ok("heldBy" in (await driver.lease("a1", aHolder("h2"), 60_000)), "the lease is also held for the other id");
    await driver.write("a", change({ fence: lease.fence, add: [aMessage("a", 1)] }));
    await driver.write("a1", change({ fence: lease.fence, add: [aMessage("a1", 2)] }));
  },
  "lease: an expired holder is replaced, and from then on its writes are rejected": async (store) => {
    const { driver } = store;
    await driver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
    const oldLease = await acquireLease(driver, "a", "h1", 20);
    await sleep(40);
    await driver.write("a", change({ fence: oldLease.fence, set: { title: "no other holder" } }));
    const secondDriver = await store.openSecond();
    const lease = await acquireLease(secondDriver, "a", "h2");
    assert.ok(lease.fence > oldLease.fence, "a higher fence");
    const lateChange = change({
      fence: oldLease.fence,
      append: [{ messageId: "a-1", part: 0, type: "text", text: "late" }],
    });
    await expectError(driver.write("a", lateChange), "lease_lost", "a replaced holder writes");
    await expectError(secondDriver.write("a", lateChange), "lease_lost", "the same write through another driver");
    assert.deepEqual(await driver.messages("a"), [aGrowingMessage("a", 1)]);
    assert.ok("heldBy" in (await driver.lease("a", aHolder("h1"), 60_000)), "the lease is held");
    await secondDriver.write("a", change({ fence: lease.fence, add: [aMessage("a", 2)] }));
  },
  "lease: `fenceToReplace` replaces the lease of that fence at once, and no other": async (store) => {
    const { driver } = store;
    await driver.create({ session: aSession("a") });
    const firstLease = await acquireLease(driver, "a", "h1");
    const conflict = await driver.lease("a", aHolder("h2"), 60_000, { fenceToReplace: firstLease.fence + 1 });
    assert.deepEqual(conflict, { heldBy: firstLease });
    const secondDriver = await store.openSecond();
    const secondLease = await secondDriver.lease("a", aHolder("h2"), 60_000, { fenceToReplace: firstLease.fence });
    assert.ok(
      "fence" in secondLease && secondLease.fence > firstLease.fence,
      "the lease of that fence is replaced, under a higher fence",
    );
    assert.equal(secondLease.holder.id, "h2");
    await expectError(
      driver.write("a", change({ fence: firstLease.fence, set: { title: "x" } })),
      "lease_lost",
      "replaced",
    );
    // A late call does not replace a newer lease, even of the same holder.
    const lateLease = await driver.lease("a", aHolder("h3"), 60_000, { fenceToReplace: firstLease.fence });
    assert.ok("heldBy" in lateLease, "the lease is held by its new holder");
    assert.deepEqual([lateLease.heldBy.holder, lateLease.heldBy.fence], [aHolder("h2"), secondLease.fence]);
    await releaseLease(driver, secondLease);
    const nextLease = await driver.lease("a", aHolder("h3"), 60_000, { fenceToReplace: firstLease.fence });
    assert.ok("fence" in nextLease, "a free lease is acquired anyway");
  },
  "lease: can be acquired before its session exists; create rejects another fence": async ({ driver }) => {
    const lease = await acquireLease(driver, "a", "h1");
    assert.deepEqual(await driver.lease("a", aHolder("h2"), 60_000), { heldBy: lease });
    const session = aSession("a");
    await expectError(driver.create({ session, fence: lease.fence + 1 }), "lease_lost", "another fence");
    assert.equal(await driver.get("a"), undefined);
    await driver.create({ session, fence: lease.fence });
    await driver.write("a", change({ fence: lease.fence, add: [aMessage("a", 1)] }));
  },
  "release: a change with `release` alone releases the lease of a session that was never created": async (store) => {
    const { driver } = store;
    const secondDriver = await store.openSecond();
    const firstLease = await acquireLease(driver, "a", "h1");
    const { rootId, fence } = firstLease;
    const extraChange = change({ fence, release: true, set: { title: "x" } });
    await expectError(driver.write("a", extraChange), "session_not_found", "with other fields");
    const wrongRelease = releaseLease(driver, { rootId, fence: fence + 1 });
    await expectError(wrongRelease, "session_not_found", "another fence");
    assert.ok("heldBy" in (await secondDriver.lease("a", aHolder("h2"), 60_000)), "the lease is still held");
    await releaseLease(driver, firstLease);
    const secondLease = await acquireLease(secondDriver, "a", "h2");
    assert.ok(secondLease.fence > fence, "a higher fence");
    await expectError(driver.create({ session: aSession("a"), fence }), "lease_lost", "the lease was released");
    await secondDriver.create({ session: aSession("a"), fence: secondLease.fence });
  },
  "lease: returns the chain's head on request, in its state under the lease": async (store) => {
    const { driver } = store;
    const run = aRun("r1", "a");
    await driver.create({ session: aSession("a", { alias: "x" }), messages: [aMessage("a", 1)], run });
    const secondDriver = await store.openSecond();
    const firstLease = await acquireLease(secondDriver, "a", "h1");
    const snapshot = { id: "s", after: 1, createdAt: at(1) };
    await secondDriver.write(
      "a",
      change({ fence: firstLease.fence, revert: snapshot, add: [aMessage("a", 2)], runs: [aRun("r2", "a")] }),
    );
    await releaseLease(secondDriver, firstLease);
    const acquiredLease = await driver.lease("a", aHolder("h2"), 60_000, { head: { messages: true } });
    assert.ok("fence" in acquiredLease && acquiredLease.head, "a lease with the head");
    const { snapshots, ...head } = (await driver.head("a"))!;
    assert.deepEqual(acquiredLease.head, head);
    assert.deepEqual(snapshots, [snapshot]);
    assert.deepEqual(
      acquiredLease.head.messages.map(({ seq }) => seq),
      [1, 2],
    );
    const rivalLease = await secondDriver.lease("a", aHolder("h3"), 60_000, { head: { messages: true } });
    assert.ok("heldBy" in rivalLease && !("head" in rivalLease), "no head without the lease");
    const leaseWithoutHead = await driver.lease("a", aHolder("h2"), 60_000);
    assert.ok("fence" in leaseWithoutHead && leaseWithoutHead.head === undefined, "no head was requested");
    const leaseWithoutSession = await driver.lease("b", aHolder("h2"), 60_000, { head: { messages: true } });
    assert.ok("fence" in leaseWithoutSession && leaseWithoutSession.head === undefined, "the session does not exist");
  },
  "lease: with the head, messages are omitted only if the caller already has them": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    const firstLease = await acquireLease(driver, "a", "h1");
    await releaseLease(driver, firstLease);
    // The holder of an earlier lease does not have the messages of the last one.
    const staleOptions = { head: { messages: true, cachedFence: firstLease.fence + 1 } };
    const freshLease = await driver.lease("a", aHolder("h2"), 60_000, staleOptions);
    assert.ok("fence" in freshLease, "the lease is acquired");
    assert.deepEqual(freshLease.head?.messages, [aMessage("a", 1)]);
    await releaseLease(driver, freshLease);
    const currentOptions = { head: { messages: true, cachedFence: freshLease.fence } };
    const nextLease = await driver.lease("a", aHolder("h3"), 60_000, currentOptions);
    assert.ok("fence" in nextLease && nextLease.head, "a lease with the head");
    assert.ok(
      nextLease.head.messages.length === 0 || nextLease.previous === freshLease.fence,
      "no messages, or `previous` is the cached fence",
    );
    assert.deepEqual(nextLease.head.newest, await driver.get("a"));
  },
  "write: with `release` releases the lease and returns the remaining instructions": async (store) => {
    const { driver } = store;
    await driver.create({ session: aSession("a") });
    const secondDriver = await store.openSecond();
    const firstLease = await acquireLease(driver, "a", "h1");
    await sendInstruction(secondDriver, anInstruction("i1", "a"));
    await sendInstruction(secondDriver, anInstruction("i2", "a"));
    await sendInstruction(secondDriver, anInstruction("withdrawn", "a"));
    await withdrawInstruction(secondDriver, "a", "withdrawn");
    const result = await driver.write("a", change({ fence: firstLease.fence, add: [aMessage("a", 1)] }));
    assert.deepEqual(result.instructions, [], "the lease was not released");
    const lastChange = change({
      fence: firstLease.fence,
      add: [aMessage("a", 2)],
      consumedInstructions: ["i1"],
      release: true,
    });
    const { instructions, consumedInstructions } = await driver.write("a", lastChange);
    assert.deepEqual(instructions, [anInstruction("i2", "a")]);
    assert.deepEqual(consumedInstructions, ["i1"]);
    assert.deepEqual(await secondDriver.instructions("a"), [anInstruction("i2", "a")], "the instruction stays stored");
    await expectError(
      driver.write("a", change({ fence: firstLease.fence, add: [aMessage("a", 3)] })),
      "lease_lost",
      "released",
    );
    const secondLease = await acquireLease(secondDriver, "a", "h2");
    assert.ok(secondLease.fence > firstLease.fence, "a higher fence");
    assert.ok(
      secondLease.previous === undefined || secondLease.previous === firstLease.fence,
      "undefined, or the first fence",
    );
    await expectError(driver.write("a", { ...lastChange, add: [] }), "lease_lost", "released before");
    assert.ok("heldBy" in (await driver.lease("a", aHolder("h3"), 60_000)), "the new holder keeps the lease");
  },
  "write: a rejected change never releases the lease": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    await driver.create({ session: aSession("b"), run: aRun("taken", "b", { idempotencyKey: "k" }) });
    const { fence } = await acquireLease(driver, "a", "h1");
    await sendInstruction(driver, anInstruction("i", "a"));
    await driver.write("a", change({ asks: [anAsk("q", "a")] }));
    const commonFields = { answer: { askId: "q", ...aResolution("allow") }, instruct: anInstruction("no", "a") };
    const delta = { messageId: "a-1", part: 0, type: "text", text: "x" } as const;
    const rejectedFields: [string, Partial<SessionChange>][] = [
      ["seq_taken", { add: [aMessage("a", 1)] }],
      ["run_key_taken", { runs: [aRun("r", "a", { idempotencyKey: "k" })] }],
      ["run_key_taken", { runs: [aRun("taken", "a")] }],
      ["point_not_found", { append: [delta] }],
      ["point_not_found", { finish: [aMessage("a", 1)] }],
      ["point_not_found", { restore: "none" }],
      ["lease_lost", { fence: fence + 1 }],
    ];
    for (const [code, fields] of rejectedFields) {
      const invalidChange = change({ fence, consumedInstructions: ["i"], release: true, ...commonFields, ...fields });
      await expectError(driver.write("a", invalidChange), code, code);
      assert.ok("heldBy" in (await driver.lease("a", aHolder("h2"), 60_000)), code);
      assert.deepEqual(await driver.instructions("a"), [anInstruction("i", "a")], code);
      assert.equal((await findAsk(driver, "q"))?.state, "open", code);
    }
    await expectError(driver.write("none", change({ fence, release: true })), "session_not_found", "unknown");
    await driver.write("a", change({ fence, add: [aMessage("a", 2)] }));
  },
  "lease: cannot be taken before it expires, however short it is": async (store) => {
    const { driver } = store;
    const secondDriver = await store.openSecond();
    for (const ttlMs of [4000, 1000, 300]) {
      const id = `a${ttlMs}`;
      await driver.create({ session: aSession(id) });
      const startedAtMs = performance.now();
      const { fence } = await acquireLease(driver, id, "h1", ttlMs);
      await driver.write(id, change({ fence, runs: [aRun(`r${ttlMs}`, id)] }));
      const run = await findRun(secondDriver, `r${ttlMs}`);
      const rivalLease = await secondDriver.lease(id, aHolder("h2"), 60_000);
      // If the steps took longer than the lease, the result is meaningless. The longest lease normally gives a result.
      if (performance.now() - startedAtMs >= ttlMs) continue;
      assert.ok("heldBy" in rivalLease, `a lease of ${ttlMs} ms was replaced before it expired`);
      assert.deepEqual(run?.holder, aHolder("h1"), `the run has no holder under a lease of ${ttlMs} ms`);
    }
  },
  "lease: of concurrent calls that replace the same dead holder through two drivers, exactly one succeeds": async (
    store,
  ) => {
    await store.driver.create({ session: aSession("a") });
    const drivers = [store.driver, await store.openSecond()];
    let { fence } = await acquireLease(store.driver, "a", "h");
    for (let round = 0; round < 5; round++) {
      const results = await Promise.all(
        Array.from({ length: 8 }, (_, n) =>
          (drivers[n % 2] ?? store.driver).lease("a", aHolder(`h${round}-${n}`), 60_000, { fenceToReplace: fence }),
        ),
      );
      const acquiredFences = results.flatMap((lease) => ("fence" in lease ? [lease.fence] : []));
      assert.equal(acquiredFences.length, 1, `${acquiredFences.length} holders in round ${round}`);
      fence = acquiredFences[0] ?? 0;
    }
  },
  ...fenceRules,
  "lease: of concurrent requests through two drivers, exactly one succeeds": async (store) => {
    await store.driver.create({ session: aSession("a") });
    const drivers = [store.driver, await store.openSecond()];
    for (let round = 0; round < 5; round++) {
      const results = await Promise.all(
        Array.from({ length: 8 }, (_, n) =>
          (drivers[n % 2] ?? store.driver).lease("a", aHolder(`h${round}-${n}`), 60_000),
        ),
      );
      const acquiredLeases = results.filter((result) => "fence" in result);
      assert.equal(acquiredLeases.length, 1, `${acquiredLeases.length} holders in round ${round}`);
      const [lease] = acquiredLeases;
      if (lease && "fence" in lease) await releaseLease(store.driver, lease);
    }
  },
};
