import assert from "node:assert/strict";
import type { SessionQuery } from "../../ports/session-queries.js";
import { expectError } from "../check.js";
import { findNewest, listIds, readSeqs } from "./driver-calls.js";
import { aGrowingMessage, aMessage, aSession, at, change, joinParts, someMessages } from "./records.js";
import type { StoreRules } from "./store-under-test.js";

export const sharingRules: StoreRules = {
  "two drivers on one store see each other's changes as soon as the calls have settled": async (store) => {
    const firstDriver = store.driver;
    const secondDriver = await store.openSecond();
    await firstDriver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
    assert.equal((await secondDriver.get("a"))?.title, "Title of a");
    assert.deepEqual(await listIds(secondDriver), ["a"]);
    await secondDriver.write("a", change({ set: { title: "by the second" } }));
    assert.equal((await firstDriver.get("a"))?.title, "by the second");
    await firstDriver.write("a", change({ append: [{ messageId: "a-1", part: 0, type: "text", text: "one " }] }));
    assert.equal(joinParts((await secondDriver.messages("a"))[0]), "one ");
    await secondDriver.write("a", change({ append: [{ messageId: "a-1", part: 0, type: "text", text: "two" }] }));
    assert.equal(joinParts((await firstDriver.messages("a"))[0]), "one two");
    await secondDriver.write("a", change({ finish: [aMessage("a", 1)] }));
    assert.deepEqual(await firstDriver.messages("a"), [aMessage("a", 1)]);
    await secondDriver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }) });
    assert.equal((await findNewest(firstDriver, "a"))?.id, "a1");
    await secondDriver.delete(["a"]);
    assert.equal(await firstDriver.get("a"), undefined);
    assert.equal((await firstDriver.list({ limit: 1 })).total, 0);
  },
  "two drivers that write different sessions concurrently lose no change": async (store) => {
    const drivers = [store.driver, await store.openSecond()];
    await Promise.all(
      drivers.map(async (driver, index) => {
        const id = `s${index}`;
        await driver.create({ session: aSession(id) });
        for (let n = 1; n <= 25; n++) await driver.write(id, change({ add: [aMessage(id, n)], sync: n % 10 === 0 }));
      }),
    );
    for (const driver of drivers) {
      for (const id of ["s0", "s1"]) assert.equal((await readSeqs(driver, id)).length, 25);
      assert.equal((await driver.list({ limit: 1 })).total, 2);
    }
  },
  "usage adds up and each seq is stored once if two drivers write one session concurrently": async (store) => {
    const drivers = [store.driver, await store.openSecond()];
    await store.driver.create({ session: aSession("a") });
    const usage = { promptTokens: 1, completionTokens: 1, totalTokens: 2, cost: 0.25 };
    let rejectedWriteCount = 0;
    await Promise.all(
      drivers.map(async (driver, index) => {
        for (let seq = 1; seq <= 20; seq++) {
          const message = aMessage("a", seq, { id: `${index}-${seq}` });
          try {
            await driver.write("a", change({ add: [message], usage }));
          } catch (error) {
            assert.equal((error as { code?: unknown }).code, "seq_taken", String(error));
            rejectedWriteCount++;
          }
        }
      }),
    );
    assert.equal(rejectedWriteCount, 20, "one of two writes is rejected");
    assert.equal((await readSeqs(store.driver, "a")).length, 20);
    // These changes are not rejected, so none may be lost.
    const writers = drivers.flatMap((driver) => Array.from({ length: 10 }, () => driver));
    await Promise.all(writers.map((driver) => driver.write("a", change({ usage }))));
    assert.equal((await store.driver.get("a"))?.usage.promptTokens, 40);
  },
  "two drivers that write the same sessions concurrently, in different orders, neither deadlock nor lose a change":
    async (store) => {
      const drivers = [store.driver, await store.openSecond()];
      const ids = Array.from({ length: 12 }, (_, n) => `s${n}`);
      await Promise.all(ids.map((id) => store.driver.create({ session: aSession(id) })));
      const usage = { promptTokens: 1, completionTokens: 0, totalTokens: 1, cost: 0 };
      const rounds = [1, 2, 3].flatMap(() => [ids, [...ids].reverse()]);
      await Promise.all(
        rounds.flatMap((order, n) =>
          order.map((id) => (drivers[n % 2] ?? store.driver).write(id, change({ usage, set: { title: `${n}` } }))),
        ),
      );
      for (const id of ids) assert.equal((await store.driver.get(id))?.usage.promptTokens, rounds.length, id);
    },
  "exactly one of two drivers that create the same id or alias concurrently succeeds": async (store) => {
    const drivers = [store.driver, await store.openSecond()];
    for (let round = 0; round < 5; round++) {
      const idResults = await Promise.allSettled(
        drivers.map((driver, index) =>
          driver.create({ session: aSession(`same${round}`, { title: `${index}` }), messages: [aMessage("x", 1)] }),
        ),
      );
      assert.deepEqual(idResults.map((result) => result.status).sort(), ["fulfilled", "rejected"]);
      const aliasResults = await Promise.allSettled(
        drivers.map((driver, index) =>
          driver.create({ session: aSession(`own${round}-${index}`, { alias: `alias${round}` }) }),
        ),
      );
      assert.deepEqual(aliasResults.map((result) => result.status).sort(), ["fulfilled", "rejected"]);
    }
    assert.equal((await store.driver.list({ limit: 1 })).total, 10);
  },
  "a reader sees a change completely or not at all": async (store) => {
    const reader = await store.openSecond();
    await store.driver.create({ session: aSession("a") });
    let isWriting = true;
    const writes = (async () => {
      for (let n = 0; n < 30; n++) {
        const add = [aMessage("a", 2 * n + 1), aMessage("a", 2 * n + 2)];
        await store.driver.write("a", change({ add, set: { title: `${2 * n + 2}` } }));
      }
    })().finally(() => (isWriting = false));
    // If a check of the reader fails, the writes are not awaited: avoid an unhandled rejection.
    writes.catch(() => undefined);
    while (isWriting) {
      const session = await reader.get("a");
      const visibleSeqs = await readSeqs(reader, "a");
      assert.equal(visibleSeqs.length % 2, 0, "both messages of a change or neither");
      if (session && session.lastSeq > 0) assert.equal(session.title, `${session.lastSeq}`);
      assert.ok(visibleSeqs.length >= (session?.lastSeq ?? 0), "no message is missing");
      await new Promise((resolve) => setImmediate(resolve));
    }
    await writes;
    assert.equal((await readSeqs(reader, "a")).length, 60);
  },
  "pages of a list during writes contain unchanged sessions once": async (store) => {
    const writer = await store.openSecond();
    for (let n = 0; n < 12; n++) await store.driver.create({ session: aSession(`s${n + 10}`, { updatedAt: at(n) }) });
    const pagedIds: string[] = [];
    let before: SessionQuery["before"];
    for (let round = 0; ; round++) {
      const page = await store.driver.list({ limit: 3, before });
      const lastSession = page.sessions.at(-1);
      if (!lastSession) break;
      pagedIds.push(...page.sessions.map((session) => session.id));
      before = { updatedAt: lastSession.updatedAt, id: lastSession.id };
      await writer.create({ session: aSession(`new${round}`, { updatedAt: at(100 + round) }) });
      await writer.write("s21", change({ set: { updatedAt: at(200 + round) } }));
    }
    assert.deepEqual(
      pagedIds,
      Array.from({ length: 12 }, (_, n) => `s${21 - n}`),
    );
  },
  "pages of messages during writes contain every message once": async (store) => {
    const writer = await store.openSecond();
    await store.driver.create({ session: aSession("a"), messages: someMessages("a", 1, 10) });
    const pagedSeqs: number[] = [];
    for (let after = 0, nextSeq = 11; ;) {
      const pageSeqs = await readSeqs(store.driver, "a", { after, limit: 4 });
      if (pageSeqs.length === 0) break;
      pagedSeqs.push(...pageSeqs);
      after = pageSeqs.at(-1) ?? 0;
      if (nextSeq <= 14) await writer.write("a", change({ add: [aMessage("a", nextSeq++)] }));
    }
    assert.deepEqual(
      pagedSeqs,
      Array.from({ length: pagedSeqs.length }, (_, n) => n + 1),
    );
    assert.ok(pagedSeqs.length >= 13, "no message is missing");
  },
  "a driver keeps working when another one on the same store closes": async (store) => {
    const secondDriver = await store.openSecond();
    await secondDriver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
    await secondDriver.write("a", change({ append: [{ messageId: "a-1", part: 0, type: "text", text: "x" }] }));
    await secondDriver.close();
    await expectError(secondDriver.get("a"), "store", "closed");
    await store.driver.write("a", change({ append: [{ messageId: "a-1", part: 0, type: "text", text: "y" }] }));
    assert.equal(joinParts((await store.driver.messages("a"))[0]), "xy");
  },
};
