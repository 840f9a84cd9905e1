import assert from "node:assert/strict";
import type { SessionDriver } from "../../ports/session-driver.js";
import { expectError } from "../check.js";
import { findNewest, findSnapshots, listIds, readAllSeqs, readSeqs } from "./driver-calls.js";
import { aGrowingMessage, aMessage, aSession, at, change, joinParts, someMessages } from "./records.js";
import type { StoreRules } from "./store-under-test.js";

/** Creates the chain `a` (seqs 1 to 4), `a1` (5 to 7), `a2` (8 to 9), and the separate session `b`. */
async function createChain(driver: SessionDriver): Promise<void> {
  await driver.create({ session: aSession("a", { alias: "x" }), messages: someMessages("a", 1, 4) });
  await driver.create({
    session: aSession("a1", { chain: { root: "a", index: 1 }, lastSeq: 4 }),
    messages: someMessages("a1", 5, 7),
  });
  await driver.create({
    session: aSession("a2", { chain: { root: "a", index: 2 }, lastSeq: 7 }),
    messages: someMessages("a2", 8, 9),
  });
  await driver.create({ session: aSession("b"), messages: someMessages("b", 1, 9) });
}

const aSnapshot = (id: string, after: number): { id: string; after: number; createdAt: string } => ({
  id,
  after,
  createdAt: at(after),
});

export const chainRules: StoreRules = {
  "head: `newest` has the greatest index, for any id of the chain; undefined for an unknown id": async ({ driver }) => {
    await createChain(driver);
    for (const id of ["a", "a1", "a2"]) assert.equal((await findNewest(driver, id))?.id, "a2");
    assert.equal((await findNewest(driver, "b"))?.id, "b");
    assert.equal(await findNewest(driver, "none"), undefined);
  },
  "head: `newest` depends only on the index, not on the order of creates and changes": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    await driver.create({ session: aSession("z", { chain: { root: "a", index: 7 }, updatedAt: at(1) }) });
    await driver.create({ session: aSession("y", { chain: { root: "a", index: 3 }, updatedAt: at(9) }) });
    await driver.write("y", change({ set: { updatedAt: at(20) } }));
    assert.equal((await findNewest(driver, "y"))?.id, "z");
  },
  "messages of a follow-up persist while further sessions are created and drivers are reopened": async (store) => {
    const { driver } = store;
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    await driver.create({
      session: aSession("a1", { chain: { root: "a", index: 1 }, lastSeq: 1 }),
      view: [aMessage("a", 1)],
    });
    await driver.write("a1", change({ add: [aMessage("a1", 2)], sync: true }));
    await driver.create({
      session: aSession("a2", { chain: { root: "a", index: 2 }, lastSeq: 2 }),
      view: [aMessage("a", 1)],
    });
    await driver.write("a2", change({ add: [aMessage("a2", 3), aGrowingMessage("a2", 4)] }));
    await driver.write("a2", change({ append: [{ messageId: "a2-4", part: 0, type: "text", text: "so far" }] }));
    const secondDriver = await store.openSecond();
    assert.deepEqual(await readSeqs(secondDriver, "a", { scope: "chain" }), [1, 2, 3, 4]);
    const reopenedDriver = await store.reopen();
    assert.deepEqual(await readSeqs(reopenedDriver, "a", { scope: "chain" }), [1, 2, 3, 4]);
    assert.deepEqual(await readSeqs(reopenedDriver, "a1"), [2]);
    assert.deepEqual((await reopenedDriver.messages("a2")).map(joinParts), ["text 3", "so far"]);
    assert.deepEqual((await reopenedDriver.head("a"))?.messages.map(joinParts), ["text 1", "text 3", "so far"]);
    assert.equal((await findNewest(reopenedDriver, "a"))?.lastSeq, 4);
  },
  "revert: hides messages after a point under a snapshot, in this chain only": async ({ driver }) => {
    await createChain(driver);
    await driver.write("a2", change({ revert: aSnapshot("s", 8) }));
    assert.deepEqual(await readSeqs(driver, "a", { scope: "chain" }), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert.deepEqual(await readSeqs(driver, "a2"), [8]);
    assert.deepEqual(await readAllSeqs(driver, "a2"), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert.deepEqual((await readSeqs(driver, "b")).length, 9);
    assert.deepEqual(await findSnapshots(driver, "a1"), [aSnapshot("s", 8)]);
    assert.deepEqual(await findSnapshots(driver, "b"), []);
    assert.equal((await findNewest(driver, "a"))?.id, "a2");
  },
  "revert: also hides later sessions of the chain; the reverted session becomes the newest, with the chain's lastSeq":
    async ({ driver }) => {
      await createChain(driver);
      await driver.write("a", change({ revert: aSnapshot("s", 2) }));
      const newestSession = await findNewest(driver, "a2");
      assert.equal(newestSession?.id, "a");
      assert.equal(newestSession.lastSeq, 9, "a seq is never used again");
      assert.deepEqual(await readSeqs(driver, "a", { scope: "chain" }), [1, 2]);
      assert.deepEqual(await readSeqs(driver, "a1"), []);
      await expectError(driver.write("a", change({ add: [aMessage("a", 5)] })), "seq_taken", "seq of a hidden message");
      await driver.write("a", change({ add: [aMessage("a", 10)] }));
      assert.deepEqual(await readSeqs(driver, "a", { scope: "chain" }), [1, 2, 10]);
      const sameIndex = aSession("a1b", { chain: { root: "a", index: 1 } });
      await expectError(driver.create({ session: sameIndex }), "session_exists", "index of a hidden session");
      await driver.create({ session: aSession("a3", { chain: { root: "a", index: 3 } }) });
      assert.equal((await findNewest(driver, "a"))?.id, "a3");
    },
  "revert: at 0 hides every message": async ({ driver }) => {
    await createChain(driver);
    await driver.write("a", change({ revert: aSnapshot("s", 0) }));
    assert.deepEqual(await readSeqs(driver, "a", { scope: "chain" }), []);
    assert.equal((await driver.get("a"))?.lastSeq, 9);
  },
  "revert: messages in the same change are not hidden": async ({ driver }) => {
    await createChain(driver);
    await driver.write("a2", change({ revert: aSnapshot("s", 8), add: [aMessage("a2", 10)] }));
    assert.deepEqual(await readSeqs(driver, "a2"), [8, 10]);
  },
  "restore: shows the messages and sessions that its revert hid, and removes the snapshot": async (store) => {
    await createChain(store.driver);
    await store.driver.write("a", change({ revert: aSnapshot("s", 2) }));
    const driver = await store.reopen();
    await driver.write("a", change({ restore: "s" }));
    assert.deepEqual(await readSeqs(driver, "a", { scope: "chain" }), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert.equal((await findNewest(driver, "a"))?.id, "a2");
    assert.deepEqual(await findSnapshots(driver, "a"), []);
    await expectError(driver.write("a", change({ restore: "s" })), "point_not_found", "restored already");
    await expectError(driver.write("b", change({ restore: "s" })), "point_not_found", "snapshot of another chain");
  },
  "restore: the session that becomes the newest has the chain's lastSeq": async (store) => {
    await createChain(store.driver);
    await store.driver.write("a", change({ revert: aSnapshot("s", 2) }));
    await store.driver.write("a", change({ add: someMessages("a", 10, 11) }));
    await store.driver.write("a", change({ restore: "s" }));
    for (const driver of [store.driver, await store.openSecond()]) {
      const newestSession = await findNewest(driver, "a");
      assert.deepEqual([newestSession?.id, newestSession?.lastSeq], ["a2", 11]);
      assert.equal((await driver.head("a"))?.newest.lastSeq, 11);
    }
    await expectError(
      store.driver.write("a2", change({ add: [aMessage("a2", 10)] })),
      "seq_taken",
      "seq used after the revert",
    );
    await store.driver.write("a2", change({ add: [aMessage("a2", 12)] }));
    assert.deepEqual(await readSeqs(store.driver, "a2"), [8, 9, 12]);
  },
  "restore: messages hidden by an earlier revert stay hidden under its snapshot": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 6) });
    await driver.write("a", change({ revert: aSnapshot("s1", 4) }));
    await driver.write("a", change({ revert: aSnapshot("s2", 2) }));
    assert.deepEqual(await findSnapshots(driver, "a"), [aSnapshot("s1", 4), aSnapshot("s2", 2)]);
    await driver.write("a", change({ restore: "s2" }));
    assert.deepEqual(await readSeqs(driver, "a"), [1, 2, 3, 4]);
    await driver.write("a", change({ restore: "s1" }));
    assert.deepEqual(await readSeqs(driver, "a"), [1, 2, 3, 4, 5, 6]);
  },
  "restore with a revert in the same change swaps later messages with hidden ones, in both directions": async ({
    driver,
  }) => {
    await createChain(driver);
    await driver.write("a", change({ revert: aSnapshot("s1", 2) }));
    await driver.write("a", change({ add: someMessages("a", 10, 11) }));
    await driver.create({
      session: aSession("a3", { chain: { root: "a", index: 3 }, lastSeq: 11 }),
      messages: [aMessage("a3", 12)],
    });
    const readVisibleState = async (): Promise<[number[], string | undefined, number | undefined]> => {
      const newestSession = await findNewest(driver, "a");
      return [await readSeqs(driver, "a", { scope: "chain" }), newestSession?.id, newestSession?.lastSeq];
    };
    assert.deepEqual(await readVisibleState(), [[1, 2, 10, 11, 12], "a3", 12]);
    await driver.write("a", change({ revert: aSnapshot("s2", 2), restore: "s1" }));
    assert.deepEqual(await readVisibleState(), [[1, 2, 3, 4, 5, 6, 7, 8, 9], "a2", 12]);
    assert.deepEqual(await findSnapshots(driver, "a"), [aSnapshot("s2", 2)]);
    await driver.write("a", change({ revert: aSnapshot("s3", 2), restore: "s2" }));
    assert.deepEqual(await readVisibleState(), [[1, 2, 10, 11, 12], "a3", 12]);
  },
  "delete: any id of a chain deletes the whole chain with hidden sessions and snapshots, and no other": async ({
    driver,
  }) => {
    for (const id of ["a", "a1", "a2"]) {
      await createChain(driver);
      await driver.write("a1", change({ revert: aSnapshot("s", 6) }));
      await driver.delete([id]);
      for (const deletedId of ["a", "a1", "a2", "x"]) assert.equal(await driver.get(deletedId), undefined, deletedId);
      assert.deepEqual(await findSnapshots(driver, "a"), []);
      assert.deepEqual(await readAllSeqs(driver, "a"), []);
      assert.deepEqual(await listIds(driver), ["b"]);
      await driver.delete(["b"]);
    }
    assert.equal((await driver.list({ limit: 1 })).total, 0);
  },
};
