import assert from "node:assert/strict";
import type { SessionDriver } from "../../ports/session-driver.js";
import { rejectsWith } from "../check.js";
import {
  allSeqs,
  aMessage,
  aSession,
  at,
  change,
  growing,
  listed,
  newestOf,
  seqs,
  snapshotsOf,
  someMessages,
  textOf,
} from "./rule.js";
import type { StoreRules } from "./rule.js";

/** Creates the chain `a` (seqs 1 to 4), `a1` (5 to 7), `a2` (8 to 9), and the separate session `b`. */
async function aChain(driver: SessionDriver): Promise<void> {
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

const snapshot = (id: string, after: number): { id: string; after: number; createdAt: string } => ({
  id,
  after,
  createdAt: at(after),
});

export const chainRules: StoreRules = {
  "head: `newest` has the greatest index, for any id of the chain; undefined for an unknown id": async ({ driver }) => {
    await aChain(driver);
    for (const id of ["a", "a1", "a2"]) assert.equal((await newestOf(driver, id))?.id, "a2");
    assert.equal((await newestOf(driver, "b"))?.id, "b");
    assert.equal(await newestOf(driver, "none"), undefined);
  },
  "head: `newest` depends only on the index, not on the order of creates and changes": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    await driver.create({ session: aSession("z", { chain: { root: "a", index: 7 }, updatedAt: at(1) }) });
    await driver.create({ session: aSession("y", { chain: { root: "a", index: 3 }, updatedAt: at(9) }) });
    await driver.write("y", change({ set: { updatedAt: at(20) } }));
    assert.equal((await newestOf(driver, "y"))?.id, "z");
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
    await driver.write("a2", change({ add: [aMessage("a2", 3), growing("a2", 4)] }));
    await driver.write("a2", change({ append: [{ messageId: "a2-4", part: 0, type: "text", text: "so far" }] }));
    const secondDriver = await store.second();
    assert.deepEqual(await seqs(secondDriver, "a", { scope: "chain" }), [1, 2, 3, 4]);
    const again = await store.reopen();
    assert.deepEqual(await seqs(again, "a", { scope: "chain" }), [1, 2, 3, 4]);
    assert.deepEqual(await seqs(again, "a1"), [2]);
    assert.deepEqual((await again.messages("a2")).map(textOf), ["text 3", "so far"]);
    assert.deepEqual((await again.head("a"))?.messages.map(textOf), ["text 1", "text 3", "so far"]);
    assert.equal((await newestOf(again, "a"))?.lastSeq, 4);
  },
  "revert: hides messages after a point under a snapshot, in this chain only": async ({ driver }) => {
    await aChain(driver);
    await driver.write("a2", change({ revert: snapshot("s", 8) }));
    assert.deepEqual(await seqs(driver, "a", { scope: "chain" }), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert.deepEqual(await seqs(driver, "a2"), [8]);
    assert.deepEqual(await allSeqs(driver, "a2"), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert.deepEqual((await seqs(driver, "b")).length, 9);
    assert.deepEqual(await snapshotsOf(driver, "a1"), [snapshot("s", 8)]);
    assert.deepEqual(await snapshotsOf(driver, "b"), []);
    assert.equal((await newestOf(driver, "a"))?.id, "a2");
  },
  "revert: hides later sessions of the chain too; its session becomes the newest, with the chain's lastSeq": async ({
    driver,
  }) => {
    await aChain(driver);
    await driver.write("a", change({ revert: snapshot("s", 2) }));
    const newest = await newestOf(driver, "a2");
    assert.equal(newest?.id, "a");
    assert.equal(newest.lastSeq, 9, "a seq is never used again");
    assert.deepEqual(await seqs(driver, "a", { scope: "chain" }), [1, 2]);
    assert.deepEqual(await seqs(driver, "a1"), []);
    await rejectsWith(driver.write("a", change({ add: [aMessage("a", 5)] })), "seq_taken", "seq of a cut message");
    await driver.write("a", change({ add: [aMessage("a", 10)] }));
    assert.deepEqual(await seqs(driver, "a", { scope: "chain" }), [1, 2, 10]);
    const again = aSession("a1b", { chain: { root: "a", index: 1 } });
    await rejectsWith(driver.create({ session: again }), "session_exists", "index of a cut session");
    await driver.create({ session: aSession("a3", { chain: { root: "a", index: 3 } }) });
    assert.equal((await newestOf(driver, "a"))?.id, "a3");
  },
  "revert: at 0 hides every message": async ({ driver }) => {
    await aChain(driver);
    await driver.write("a", change({ revert: snapshot("s", 0) }));
    assert.deepEqual(await seqs(driver, "a", { scope: "chain" }), []);
    assert.equal((await driver.get("a"))?.lastSeq, 9);
  },
  "revert: messages in the same change are not hidden": async ({ driver }) => {
    await aChain(driver);
    await driver.write("a2", change({ revert: snapshot("s", 8), add: [aMessage("a2", 10)] }));
    assert.deepEqual(await seqs(driver, "a2"), [8, 10]);
  },
  "restore: shows the messages and sessions that its revert hid, and removes the snapshot": async (store) => {
    await aChain(store.driver);
    await store.driver.write("a", change({ revert: snapshot("s", 2) }));
    const driver = await store.reopen();
    await driver.write("a", change({ restore: "s" }));
    assert.deepEqual(await seqs(driver, "a", { scope: "chain" }), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert.equal((await newestOf(driver, "a"))?.id, "a2");
    assert.deepEqual(await snapshotsOf(driver, "a"), []);
    await rejectsWith(driver.write("a", change({ restore: "s" })), "point_not_found", "restored already");
    await rejectsWith(driver.write("b", change({ restore: "s" })), "point_not_found", "another chain's");
  },
  "restore: the session that becomes the newest has the chain's lastSeq": async (store) => {
    await aChain(store.driver);
    await store.driver.write("a", change({ revert: snapshot("s", 2) }));
    await store.driver.write("a", change({ add: someMessages("a", 10, 11) }));
    await store.driver.write("a", change({ restore: "s" }));
    for (const driver of [store.driver, await store.second()]) {
      const newest = await newestOf(driver, "a");
      assert.deepEqual([newest?.id, newest?.lastSeq], ["a2", 11]);
      assert.equal((await driver.head("a"))?.newest.lastSeq, 11);
    }
    await rejectsWith(store.driver.write("a2", change({ add: [aMessage("a2", 10)] })), "seq_taken", "said since");
    await store.driver.write("a2", change({ add: [aMessage("a2", 12)] }));
    assert.deepEqual(await seqs(store.driver, "a2"), [8, 9, 12]);
  },
  "restore: messages hidden by an earlier revert stay hidden under its snapshot": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 6) });
    await driver.write("a", change({ revert: snapshot("s1", 4) }));
    await driver.write("a", change({ revert: snapshot("s2", 2) }));
    assert.deepEqual(await snapshotsOf(driver, "a"), [snapshot("s1", 4), snapshot("s2", 2)]);
    await driver.write("a", change({ restore: "s2" }));
    assert.deepEqual(await seqs(driver, "a"), [1, 2, 3, 4]);
    await driver.write("a", change({ restore: "s1" }));
    assert.deepEqual(await seqs(driver, "a"), [1, 2, 3, 4, 5, 6]);
  },
  "restore with a revert in the same change swaps later messages with hidden ones, in both directions": async ({
    driver,
  }) => {
    await aChain(driver);
    await driver.write("a", change({ revert: snapshot("s1", 2) }));
    await driver.write("a", change({ add: someMessages("a", 10, 11) }));
    await driver.create({
      session: aSession("a3", { chain: { root: "a", index: 3 }, lastSeq: 11 }),
      messages: [aMessage("a3", 12)],
    });
    const visible = async (): Promise<[number[], string | undefined, number | undefined]> => {
      const newest = await newestOf(driver, "a");
      return [await seqs(driver, "a", { scope: "chain" }), newest?.id, newest?.lastSeq];
    };
    assert.deepEqual(await visible(), [[1, 2, 10, 11, 12], "a3", 12]);
    await driver.write("a", change({ revert: snapshot("s2", 2), restore: "s1" }));
    assert.deepEqual(await visible(), [[1, 2, 3, 4, 5, 6, 7, 8, 9], "a2", 12]);
    assert.deepEqual(await snapshotsOf(driver, "a"), [snapshot("s2", 2)]);
    await driver.write("a", change({ revert: snapshot("s3", 2), restore: "s2" }));
    assert.deepEqual(await visible(), [[1, 2, 10, 11, 12], "a3", 12]);
  },
  "delete: any id of a chain deletes the whole chain with hidden sessions and snapshots, and no other": async ({
    driver,
  }) => {
    for (const id of ["a", "a1", "a2"]) {
      await aChain(driver);
      await driver.write("a1", change({ revert: snapshot("s", 6) }));
      await driver.delete([id]);
      for (const gone of ["a", "a1", "a2", "x"]) assert.equal(await driver.get(gone), undefined, gone);
      assert.deepEqual(await snapshotsOf(driver, "a"), []);
      assert.deepEqual(await allSeqs(driver, "a"), []);
      assert.deepEqual(await listed(driver), ["b"]);
      await driver.delete(["b"]);
    }
    assert.equal((await driver.list({ limit: 1 })).total, 0);
  },
};
