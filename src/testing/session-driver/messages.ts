import assert from "node:assert/strict";
import type { Message } from "../../ports/message.js";
import { readAllSeqs, readSeqs } from "./driver-calls.js";
import { aMessage, aResult, aSession, at, change, someMessages } from "./records.js";
import type { StoreRules } from "./store-under-test.js";

export const messageRules: StoreRules = {
  "messages: in seq order, regardless of creation times and insertion order": async ({ driver }) => {
    await driver.create({
      session: aSession("a"),
      messages: [aMessage("a", 3, { createdAt: at(1) }), aMessage("a", 1, { createdAt: at(9) })],
    });
    await driver.write("a", change({ add: [aMessage("a", 2, { createdAt: at(0) })] }));
    assert.deepEqual(await readSeqs(driver, "a"), [1, 2, 3]);
  },
  "messages: the display of a result is stored; without one the field is absent": async (store) => {
    const { driver } = store;
    const growingResult = { ...aResult("a", 3), parts: [{ type: "text" as const, text: "done" }] };
    const storedMessages = [
      aResult("a", 1),
      aMessage("a", 2),
      growingResult,
      aResult("a", 4, { shown: { diff: [], locations: [] } }),
    ];
    const [first, second, third, fourth] = storedMessages as [Message, Message, Message, Message];
    await driver.create({ session: aSession("a"), messages: [first, second] });
    const { shown: _, ...withoutDisplay } = third;
    await driver.write("a", change({ add: [{ ...withoutDisplay, finished: false }, fourth] }));
    assert.ok(
      !("shown" in ((await driver.messages("a", { after: 2 }))[0] ?? {})),
      "no `shown` on a message without it",
    );
    await driver.write("a", change({ finish: [third] }));
    assert.deepEqual(await driver.messages("a", { scope: "chain" }), storedMessages);
    assert.deepEqual(await (await store.reopen()).messages("a"), storedMessages);
  },
  "messages: empty for an unknown session": async ({ driver }) => {
    assert.deepEqual(await driver.messages("none"), []);
    assert.deepEqual(await driver.messages("none", { scope: "chain", limit: 3 }), []);
  },
  "messages: pages in both directions, always in ascending order": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 10) });
    assert.deepEqual(await readSeqs(driver, "a", { limit: 3 }), [1, 2, 3]);
    assert.deepEqual(await readSeqs(driver, "a", { after: 4 }), [5, 6, 7, 8, 9, 10]);
    assert.deepEqual(await readSeqs(driver, "a", { after: 4, limit: 2 }), [5, 6], "the first after");
    assert.deepEqual(await readSeqs(driver, "a", { before: 8 }), [1, 2, 3, 4, 5, 6, 7]);
    assert.deepEqual(await readSeqs(driver, "a", { before: 8, limit: 3 }), [5, 6, 7], "the last before");
    assert.deepEqual(await readSeqs(driver, "a", { after: 3, before: 9, limit: 2 }), [4, 5], "the range's first");
    assert.deepEqual(await readSeqs(driver, "a", { after: 8, before: 4 }), []);
    assert.deepEqual(await readSeqs(driver, "a", { after: 10 }), []);
    assert.deepEqual(await readSeqs(driver, "a", { before: 1 }), []);
    assert.deepEqual(await readSeqs(driver, "a", { after: 0, limit: 1 }), [1]);
    assert.deepEqual(await readSeqs(driver, "a", { limit: 0 }), []);
    assert.deepEqual(await readSeqs(driver, "a", { before: 99, limit: 99 }), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  },
  "messages: gaps in seq do not affect pages": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [2, 5, 40, 41, 900].map((seq) => aMessage("a", seq)) });
    assert.deepEqual(await readSeqs(driver, "a", { after: 3, limit: 2 }), [5, 40]);
    assert.deepEqual(await readSeqs(driver, "a", { before: 900, limit: 2 }), [40, 41]);
  },
  "messages: scope `chain` returns the messages of all sessions, by any id, each with its own sessionId": async ({
    driver,
  }) => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 3) });
    await driver.create({
      session: aSession("a1", { chain: { root: "a", index: 1 } }),
      messages: someMessages("a1", 4, 5),
    });
    await driver.create({
      session: aSession("a2", { chain: { root: "a", index: 2 } }),
      messages: someMessages("a2", 6, 6),
    });
    await driver.create({ session: aSession("other"), messages: someMessages("other", 1, 9) });
    for (const id of ["a", "a1", "a2"]) {
      const messages = await driver.messages(id, { scope: "chain" });
      assert.deepEqual(
        messages.map((message) => [message.seq, message.sessionId]),
        [
          [1, "a"],
          [2, "a"],
          [3, "a"],
          [4, "a1"],
          [5, "a1"],
          [6, "a2"],
        ],
      );
    }
    assert.deepEqual(await readSeqs(driver, "a1"), [4, 5]);
    assert.deepEqual(await readSeqs(driver, "a", { scope: "session" }), [1, 2, 3]);
    assert.deepEqual(await readSeqs(driver, "a1", { scope: "chain", after: 2, limit: 3 }), [3, 4, 5]);
    assert.deepEqual(await readSeqs(driver, "a1", { scope: "chain", before: 6, limit: 3 }), [3, 4, 5]);
  },
  "messages: pages omit messages that a revert hides": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 6) });
    await driver.write("a", change({ revert: { id: "s", after: 3, createdAt: at(1) } }));
    await driver.write("a", change({ add: someMessages("a", 7, 8) }));
    assert.deepEqual(await readSeqs(driver, "a"), [1, 2, 3, 7, 8]);
    assert.deepEqual(await readSeqs(driver, "a", { before: 8, limit: 2 }), [3, 7]);
    assert.deepEqual(await readSeqs(driver, "a", { after: 2, limit: 2 }), [3, 7]);
    assert.deepEqual(await readAllSeqs(driver, "a"), [1, 2, 3, 4, 5, 6, 7, 8]);
  },
  "messages: the messages that a snapshot hides can be queried": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 4) });
    await driver.create({
      session: aSession("a1", { chain: { root: "a", index: 1 }, lastSeq: 4 }),
      messages: someMessages("a1", 5, 6),
    });
    await driver.write("a", change({ revert: { id: "s", after: 3, createdAt: at(1) } }));
    await driver.write("a", change({ add: someMessages("a", 7, 8) }));
    await driver.write("a", change({ revert: { id: "t", after: 2, createdAt: at(2) } }));
    assert.deepEqual(await readSeqs(driver, "a", { scope: "chain", hiddenBy: "s" }), [4, 5, 6]);
    assert.deepEqual(await readSeqs(driver, "a", { hiddenBy: "s" }), [4]);
    assert.deepEqual(await readSeqs(driver, "a", { scope: "chain", hiddenBy: "t" }), [3, 7, 8]);
    assert.deepEqual(await readSeqs(driver, "a", { scope: "chain", hiddenBy: "t", after: 3, before: 8 }), [7]);
    assert.deepEqual(await readSeqs(driver, "a", { scope: "chain", hiddenBy: "none" }), []);
    assert.deepEqual(await readSeqs(driver, "a", { scope: "chain", hiddenBy: "" }), []);
  },
  "messages: results of one tool can be queried in pages in both directions, of a session and of its chain": async ({
    driver,
  }) => {
    const mixedMessages = someMessages("a", 1, 12).map((message) => {
      if (message.seq % 3 === 0) return aResult("a", message.seq, { name: message.seq % 2 === 0 ? "edit" : "plan" });
      // A message of another role is not a tool result, whatever its name is.
      return message.seq === 4 ? { ...message, parts: [{ type: "text" as const, text: "plan" }] } : message;
    });
    await driver.create({ session: aSession("a"), messages: mixedMessages });
    await driver.create({
      session: aSession("a1", { chain: { root: "a", index: 1 }, lastSeq: 12 }),
      messages: [aResult("a1", 13, { name: "plan" }), aResult("a1", 14)],
    });
    assert.deepEqual(await readSeqs(driver, "a", { tool: "plan" }), [3, 9]);
    assert.deepEqual(await readSeqs(driver, "a1", { tool: "plan", scope: "chain" }), [3, 9, 13]);
    assert.deepEqual(await readSeqs(driver, "a", { tool: "plan", scope: "chain", before: 13, limit: 1 }), [9]);
    assert.deepEqual(await readSeqs(driver, "a", { tool: "plan", scope: "chain", after: 3, limit: 1 }), [9]);
    assert.deepEqual(await readSeqs(driver, "a", { tool: "plan", scope: "chain", after: 3, before: 13 }), [9]);
    assert.deepEqual(await readSeqs(driver, "a", { tool: "PLAN" }), []);
    await driver.write("a", change({ revert: { id: "s", after: 8, createdAt: at(1) } }));
    assert.deepEqual(await readSeqs(driver, "a", { tool: "plan", scope: "chain", before: 99, limit: 5 }), [3]);
    assert.deepEqual(await readSeqs(driver, "a", { tool: "plan", scope: "chain", hiddenBy: "s" }), [9, 13]);
  },
  "messages: pages contain every message of a session with 600 messages": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 600) });
    const pagedSeqs: number[] = [];
    for (let after = 0; ;) {
      const pageSeqs = await readSeqs(driver, "a", { after, limit: 250 });
      if (pageSeqs.length === 0) break;
      pagedSeqs.push(...pageSeqs);
      after = pageSeqs.at(-1) ?? 0;
    }
    assert.equal(pagedSeqs.length, 600);
    assert.deepEqual(await readSeqs(driver, "a", { before: 601, limit: 2 }), [599, 600]);
  },
};
