import assert from "node:assert/strict";
import { aMessage, aRun, aSession, at, change, someMessages } from "./records.js";
import type { StoreRules } from "./store-under-test.js";

/** Rules for the head of a chain: the state from which a run continues. */
export const headRules: StoreRules = {
  "head: returns original, newest, the messages for the model, snapshots and unfinished runs": async (store) => {
    const { driver } = store;
    const session = aSession("a", { alias: "x" });
    await driver.create({ session, messages: someMessages("a", 1, 3), run: aRun("r1", "a") });
    assert.deepEqual(await driver.head("a"), {
      root: { ...session, lastSeq: 3 },
      newest: { ...session, lastSeq: 3 },
      messages: someMessages("a", 1, 3),
      unfinished: [aRun("r1", "a")],
      snapshots: [],
    });
    const view = [aMessage("a", 3, { parts: [{ type: "text", text: "short" }] })];
    const followUp = aSession("a1", { chain: { root: "a", index: 1 }, lastSeq: 3 });
    await driver.create({ session: followUp, view, messages: [aMessage("a1", 4)] });
    await driver.create({ session: aSession("b"), messages: someMessages("b", 1, 9), run: aRun("r9", "b") });
    const waitingRun = aRun("r2", "a", { state: "waiting", startedAt: at(2) });
    const failedRun = aRun("r3", "a", { state: "failed", startedAt: at(3) });
    await driver.write("a1", change({ add: [aMessage("a1", 5)], runs: [waitingRun, failedRun], set: { title: "T" } }));
    const expectedHead = {
      root: { ...session, lastSeq: 3, title: "T" },
      newest: { ...followUp, lastSeq: 5, title: "T" },
      messages: [...view, aMessage("a1", 4), aMessage("a1", 5)],
      unfinished: [waitingRun, aRun("r1", "a")],
      snapshots: [],
    };
    for (const anyDriver of [driver, await store.openSecond(), await store.reopen()])
      if (anyDriver !== driver)
        for (const id of ["a", "a1", "x"]) assert.deepEqual(await anyDriver.head(id), expectedHead);
    assert.equal(await store.driver.head("none"), undefined);
    assert.equal(await store.driver.head(""), undefined, "an empty alias finds no session");
  },
  "head: reflects reverts and restores of the chain": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 4) });
    const view = [aMessage("a", 4)];
    const followUp = aSession("a1", { chain: { root: "a", index: 1 }, lastSeq: 4 });
    await driver.create({ session: followUp, view, messages: someMessages("a1", 5, 6) });
    const readVisibleState = async (): Promise<unknown> => {
      const head = await driver.head("a");
      return [head?.newest.id, head?.newest.lastSeq, head?.messages.map(({ seq }) => seq)];
    };
    assert.deepEqual(await readVisibleState(), ["a1", 6, [4, 5, 6]]);
    await driver.write("a1", change({ revert: { id: "s1", after: 5, createdAt: at(1) } }));
    assert.deepEqual(await readVisibleState(), ["a1", 6, [4, 5]]);
    await driver.write("a", change({ revert: { id: "s2", after: 2, createdAt: at(2) } }));
    assert.deepEqual(await readVisibleState(), ["a", 6, [1, 2]]);
    await driver.write("a", change({ restore: "s2" }));
    assert.deepEqual(await readVisibleState(), ["a1", 6, [4, 5]]);
  },
  "head: contains each concurrent change completely or not at all": async (store) => {
    const reader = await store.openSecond();
    await store.driver.create({ session: aSession("a") });
    let isWriting = true;
    const writes = (async () => {
      for (let n = 1; n <= 30; n++) {
        const runs = [
          aRun(`r${n}`, "a"),
          ...(n > 1 ? [aRun(`r${n - 1}`, "a", { state: "finished", endedAt: at(9) })] : []),
        ];
        await store.driver.write("a", change({ add: [aMessage("a", n)], set: { title: `${n}` }, runs }));
      }
    })().finally(() => (isWriting = false));
    // If a check of the reader fails, the writes are not awaited: avoid an unhandled rejection.
    writes.catch(() => undefined);
    while (isWriting) {
      const head = await reader.head("a");
      assert.ok(head, "the head of the chain");
      const { lastSeq } = head.newest;
      assert.equal(head.messages.length, lastSeq);
      if (lastSeq > 0) assert.equal(head.root.title, `${lastSeq}`);
      assert.deepEqual(
        head.unfinished.map(({ id }) => id),
        lastSeq > 0 ? [`r${lastSeq}`] : [],
      );
      await new Promise((resolve) => setImmediate(resolve));
    }
    await writes;
  },
};
