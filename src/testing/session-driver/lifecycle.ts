import assert from "node:assert/strict";
import { countOpenFiles, expectError, expectFewFilesOpened } from "../check.js";
import { findNewest, findSnapshots, readAllSeqs, readSeqs } from "./driver-calls.js";
import { aMessage, aSession, at, change, someMessages } from "./records.js";
import type { StoreRules } from "./store-under-test.js";

/** Number of times that a driver is opened and closed in the check for leaks. */
const ROUNDS = 8;

/** Rules for closing and opening a driver: what stays stored, what is closed, and which calls are awaited. */
export const lifecycleRules: StoreRules = {
  "reopen: the store keeps all data": async (store) => {
    const view = [aMessage("a", 1)];
    await store.driver.create({ session: aSession("a", { alias: "x" }), messages: someMessages("a", 1, 2) });
    await store.driver.create({
      session: aSession("a1", { chain: { root: "a", index: 1 } }),
      messages: [aMessage("a1", 3)],
      view,
    });
    await store.driver.write(
      "a1",
      change({ set: { title: "later" }, revert: { id: "s", after: 2, createdAt: at(1) } }),
    );
    const driver = await store.reopen();
    assert.equal((await driver.get("x"))?.title, "later");
    assert.equal((await findNewest(driver, "a"))?.id, "a1");
    assert.deepEqual((await driver.head("x"))?.messages, view);
    assert.deepEqual(await readSeqs(driver, "a", { scope: "chain" }), [1, 2]);
    assert.deepEqual(await readAllSeqs(driver, "a"), [1, 2, 3]);
    assert.deepEqual(await findSnapshots(driver, "a"), [{ id: "s", after: 2, createdAt: at(1) }]);
    assert.equal((await driver.list({ limit: 1 })).total, 1);
  },
  "close: safe to call twice; afterwards every method rejects with StoreError": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    await Promise.all([driver.close(), driver.close()]);
    await driver.close();
    await expectError(driver.get("a"), "store", "get after close");
    await expectError(driver.write("a", change({ set: { title: "x" } })), "store", "write after close");
  },
  "open: repeated and concurrent calls have no effect; one close closes, and open reopens": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    await Promise.all([driver.open(), driver.open()]);
    assert.equal((await driver.get("a"))?.id, "a");
    await driver.close();
    await expectError(driver.get("a"), "store", "opened three times, closed once");
    await Promise.all([driver.open(), driver.open()]);
    assert.equal((await driver.get("a"))?.id, "a", "opened again");
  },
  "close: leaves no file and no connection open": async (store) => {
    // The first opening loads modules that stay open for the life of the process.
    await store.driver.create({ session: aSession("a") });
    await (await store.openSecond()).close();
    const filesBefore = countOpenFiles();
    for (let round = 0; round < ROUNDS; round++) {
      const secondDriver = await store.openSecond();
      await Promise.all([secondDriver.open(), secondDriver.open()]);
      await secondDriver.write("a", change({ set: { title: `${round}` }, sync: true }));
      await secondDriver.close();
    }
    // Other code of the process may open a few files.
    await expectFewFilesOpened(filesBefore, ROUNDS, 2000);
  },
  "synced: if present, resolves when all writes are on disk, also if there are none": async ({ driver }) => {
    if (!driver.synced) return;
    await driver.synced();
    await driver.create({ session: aSession("a"), sync: false });
    await driver.write("a", change({ add: [aMessage("a", 1)] }));
    await Promise.all([driver.synced(), driver.synced()]);
    const pendingWrite = driver.write("a", change({ add: [aMessage("a", 2)] }));
    await driver.synced();
    await pendingWrite;
    await driver.synced();
    assert.deepEqual(await readSeqs(driver, "a"), [1, 2]);
  },
  "close: waits for active calls": async (store) => {
    await store.driver.create({ session: aSession("a") });
    const writes = Array.from({ length: 20 }, (_, n) =>
      store.driver.write("a", change({ add: [aMessage("a", n + 1)] })),
    );
    await store.driver.close();
    await Promise.all(writes);
    const driver = await store.reopen();
    assert.equal((await readSeqs(driver, "a")).length, 20);
  },
  "close: waits for all active calls, also for more than the driver runs concurrently": async (store) => {
    await store.driver.create({ session: aSession("a"), messages: someMessages("a", 1, 3) });
    const ids = Array.from({ length: 40 }, (_, n) => `s${n}`);
    const work = ids.flatMap((id) => [
      store.driver.create({ session: aSession(id) }),
      store.driver.messages("a").then((messages) => assert.equal(messages.length, 3)),
    ]);
    await Promise.all([...work, store.driver.close()]);
    assert.equal((await (await store.reopen()).list({ limit: 1 })).total, 41);
  },
};
