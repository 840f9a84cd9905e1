import assert from "node:assert/strict";
import { expectError } from "../check.js";
import { acquireLease, readSeqs, releaseLease } from "./driver-calls.js";
import { aMessage, aSession, change } from "./records.js";
import type { StoreRules } from "./store-under-test.js";

/** Rules for the fences of a chain's successive leases: how they grow, and which of them may write. */
export const fenceRules: StoreRules = {
  "release: the lease is free, its fence is invalid, and the next fence is greater": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    const firstLease = await acquireLease(driver, "a", "h1");
    await releaseLease(driver, firstLease);
    await expectError(
      driver.write("a", change({ fence: firstLease.fence, set: { title: "x" } })),
      "lease_lost",
      "released",
    );
    const secondLease = await acquireLease(driver, "a", "h1");
    assert.ok(secondLease.fence > firstLease.fence, "also for the same holder");
    await expectError(releaseLease(driver, firstLease), "lease_lost", "released before");
    await driver.write("a", change({ fence: secondLease.fence, set: { title: "y" } }));
    await releaseLease(driver, secondLease);
    await expectError(releaseLease(driver, secondLease), "lease_lost", "released twice");
  },
  "lease: `previous`, if returned, is the fence of the chain's last lease; it is undefined after a delete": async (
    store,
  ) => {
    const { driver } = store;
    const secondDriver = await store.openSecond();
    await driver.create({ session: aSession("a") });
    const previousFences: (readonly [previous: number | undefined, expectedFence: number])[] = [];
    let lastLease = await acquireLease(driver, "a", "h1");
    const acquireNext = async (nextDriver: typeof driver, holderId: string): Promise<void> => {
      const lease = await acquireLease(nextDriver, "a", holderId);
      previousFences.push([lease.previous, lastLease.fence]);
      lastLease = lease;
    };
    await releaseLease(driver, lastLease);
    await acquireNext(driver, "h2");
    await releaseLease(driver, lastLease);
    await acquireNext(secondDriver, "h3");
    await releaseLease(secondDriver, lastLease);
    await acquireNext(driver, "h4");
    await releaseLease(driver, lastLease);
    for (const [previous, expectedFence] of previousFences)
      assert.ok(previous === undefined || previous === expectedFence, "the fence of the last lease");
    // A previous holder does not know the messages that were written without a lease.
    await driver.write("a", change({ fence: null, add: [aMessage("a", 1)] }));
    const leaseAfterWrite = await acquireLease(secondDriver, "a", "h5");
    assert.equal(leaseAfterWrite.previous, undefined, "changed without a lease");
    await releaseLease(secondDriver, leaseAfterWrite);
    await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }), view: [aMessage("a", 1)] });
    assert.equal((await acquireLease(secondDriver, "a", "h5")).previous, undefined, "a follow-up without a lease");
    await driver.delete(["a"]);
    await driver.create({ session: aSession("a") });
    assert.equal((await acquireLease(driver, "a", "h6")).previous, undefined, "another chain of that id");
  },
  "fences grow across releases, deletes and reopening": async (store) => {
    const fences: number[] = [];
    for (let round = 0; round < 3; round++) {
      await store.driver.create({ session: aSession("a") });
      const lease = await acquireLease(store.driver, "a", `h${round}`);
      fences.push(lease.fence);
      if (round === 0) await releaseLease(store.driver, lease);
      await store.driver.delete(["a"]);
      await store.reopen();
    }
    const [firstFence = 0, secondFence = 0, thirdFence = 0] = fences;
    assert.ok(firstFence < secondFence && secondFence < thirdFence, `fences: ${fences.join(", ")}`);
  },
  "delete: removes the lease; later writes of its holder are rejected, also if the id is used again": async (store) => {
    const { driver } = store;
    await driver.create({ session: aSession("a") });
    const lease = await acquireLease(driver, "a", "h1");
    const secondDriver = await store.openSecond();
    await secondDriver.delete(["a"]);
    const lateChange = change({ fence: lease.fence, add: [aMessage("a", 1)] });
    await expectError(driver.write("a", lateChange), "session_not_found", "the session was deleted");
    await secondDriver.create({ session: aSession("a") });
    await expectError(driver.write("a", lateChange), "lease_lost", "another session of that id");
    assert.deepEqual(await readSeqs(driver, "a"), []);
    await acquireLease(driver, "a", "h2");
  },
};
