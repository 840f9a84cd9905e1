import assert from "node:assert/strict";
import type { Message } from "../../ports/message.js";
import type { SessionChange } from "../../ports/session-change.js";
import { expectError } from "../check.js";
import { acquireLease, findSnapshots, readSeqs } from "./driver-calls.js";
import { aGrowingMessage, aMessage, aRun, aSession, at, change, joinParts } from "./records.js";
import type { StoreRules } from "./store-under-test.js";

const USAGE = { promptTokens: 10, completionTokens: 3, totalTokens: 13, cost: 0.5 };
const FINAL_FIELDS: Partial<Message> = {
  role: "assistant",
  parts: [
    { type: "reasoning", text: "hm" },
    { type: "text", text: "done" },
    { type: "tool_call", id: "c1", name: "read", arguments: "{}" },
  ],
};

export const changeRules: StoreRules = {
  "write: sets the given fields and keeps the others": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    await driver.write("a", change({ set: { title: "New", hasFinalTitle: true, model: "m2" } }));
    assert.deepEqual(await driver.get("a"), aSession("a", { title: "New", hasFinalTitle: true, model: "m2" }));
    await driver.write(
      "a",
      change({ set: { provider: "", reasoningEffort: "", hasFinalTitle: false, projectDir: "/x" } }),
    );
    assert.deepEqual(
      await driver.get("a"),
      aSession("a", { title: "New", model: "m2", provider: "", reasoningEffort: "", projectDir: "/x" }),
    );
  },
  "write: updatedAt never decreases; the other fields of such a change apply": async ({ driver }) => {
    await driver.create({ session: aSession("a", { updatedAt: at(5) }) });
    await driver.write("a", change({ set: { updatedAt: at(3), title: "x" } }));
    assert.deepEqual(await driver.get("a"), aSession("a", { updatedAt: at(5), title: "x" }));
    await driver.write("a", change({ set: { updatedAt: at(7) } }));
    assert.equal((await driver.get("a"))?.updatedAt, at(7));
  },
  "write: usage is added up": async ({ driver }) => {
    await driver.create({ session: aSession("a", { usage: { ...USAGE } }) });
    await driver.write("a", change({ usage: USAGE }));
    await driver.write("a", change({ usage: USAGE, sync: true }));
    const usage = { promptTokens: 30, completionTokens: 9, totalTokens: 39, cost: 1.5 };
    assert.deepEqual((await driver.get("a"))?.usage, usage);
  },
  "write: a follow-up's fields and usage also apply to the original, which keeps a later updatedAt, and to no other":
    async ({ driver }) => {
      await driver.create({ session: aSession("a", { updatedAt: at(9) }) });
      await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 }, updatedAt: at(1) }) });
      await driver.create({ session: aSession("a2", { chain: { root: "a", index: 2 } }) });
      await driver.write("a2", change({ set: { title: "T", model: "m9", updatedAt: at(5) }, usage: USAGE }));
      const [originalSession, middleSession, lastSession] = await Promise.all(
        ["a", "a1", "a2"].map((id) => driver.get(id)),
      );
      assert.deepEqual(
        [originalSession?.title, originalSession?.model, originalSession?.updatedAt, originalSession?.usage],
        ["T", "m9", at(9), USAGE],
      );
      assert.deepEqual([lastSession?.title, lastSession?.updatedAt, lastSession?.usage], ["T", at(5), USAGE]);
      assert.equal(middleSession?.title, "Title of a1");
      assert.equal(middleSession.usage.cost, 0);
    },
  "write: adds messages and updates lastSeq, for a follow-up only its own lastSeq": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 }, lastSeq: 1 }) });
    await driver.write("a1", change({ add: [aMessage("a1", 2), aMessage("a1", 3)] }));
    assert.equal((await driver.get("a1"))?.lastSeq, 3);
    assert.equal((await driver.get("a"))?.lastSeq, 1);
    assert.deepEqual(await driver.messages("a1"), [aMessage("a1", 2), aMessage("a1", 3)]);
  },
  "write: a growing message gains text part by part": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1), aGrowingMessage("a", 2)] });
    const append = (part: number, type: "text" | "reasoning", text: string): Promise<unknown> =>
      driver.write("a", change({ append: [{ messageId: "a-2", part, type, text }] }));
    await append(0, "reasoning", "th");
    await append(0, "reasoning", "ink");
    await append(1, "text", "Hel");
    await driver.write(
      "a",
      change({
        append: [
          { messageId: "a-2", part: 1, type: "text", text: "lo" },
          { messageId: "a-2", part: 1, type: "text", text: "!" },
          { messageId: "a-2", part: 2, type: "text", text: "more" },
        ],
      }),
    );
    const [, message] = await driver.messages("a");
    assert.deepEqual(message, {
      ...aGrowingMessage("a", 2),
      parts: [
        { type: "reasoning", text: "think" },
        { type: "text", text: "Hello!" },
        { type: "text", text: "more" },
      ],
    });
  },
  "write: a growing message with initial parts grows after them": async ({ driver }) => {
    const message = aMessage("a", 1, { role: "assistant", finished: false, parts: [{ type: "text", text: "Hel" }] });
    await driver.create({ session: aSession("a"), messages: [message] });
    await driver.write("a", change({ append: [{ messageId: "a-1", part: 0, type: "text", text: "lo" }] }));
    await driver.write("a", change({ append: [{ messageId: "a-1", part: 1, type: "reasoning", text: "hm" }] }));
    assert.equal(joinParts((await driver.messages("a"))[0]), "Hello|hm");
  },
  "write: appended text survives a reopen and can grow further": async (store) => {
    await store.driver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
    await store.driver.write("a", change({ append: [{ messageId: "a-1", part: 0, type: "text", text: "one " }] }));
    let driver = await store.reopen();
    assert.equal(joinParts((await driver.messages("a"))[0]), "one ");
    await driver.write("a", change({ append: [{ messageId: "a-1", part: 0, type: "text", text: "two" }] }));
    driver = await store.reopen();
    const [message] = await driver.messages("a");
    assert.equal(joinParts(message), "one two");
    assert.equal(message?.finished, false);
  },
  "write: finish replaces the appended text, also after a reopen; order and creation time stay": async (store) => {
    await store.driver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
    await store.driver.write("a", change({ append: [{ messageId: "a-1", part: 0, type: "text", text: "do" }] }));
    const driver = await store.reopen();
    await driver.write("a", change({ finish: [aMessage("a", 1, FINAL_FIELDS)], sync: true }));
    assert.deepEqual(await driver.messages("a"), [aMessage("a", 1, FINAL_FIELDS)]);
    assert.deepEqual(await (await store.reopen()).messages("a"), [aMessage("a", 1, FINAL_FIELDS)]);
  },
  "write: one change applies fields, usage, and add, append and finish of the same message": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
    await driver.write(
      "a",
      change({
        set: { title: "all" },
        usage: USAGE,
        add: [aGrowingMessage("a", 2), aGrowingMessage("a", 3)],
        append: [
          { messageId: "a-2", part: 0, type: "text", text: "x" },
          { messageId: "a-3", part: 0, type: "text", text: "y" },
        ],
        finish: [aMessage("a", 1, FINAL_FIELDS), aMessage("a", 3, FINAL_FIELDS)],
      }),
    );
    const messages = await driver.messages("a");
    assert.deepEqual(messages.map(joinParts), ["hm|done|tool_call", "x", "hm|done|tool_call"]);
    assert.deepEqual(
      messages.map((message) => message.finished),
      [true, false, true],
    );
    assert.equal((await driver.get("a"))?.lastSeq, 3);
  },
  "write: a message of the chain's earlier session can be finished through the newest": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
    await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }) });
    await driver.write("a1", change({ append: [{ messageId: "a-1", part: 0, type: "text", text: "z" }] }));
    await driver.write("a1", change({ finish: [aMessage("a1", 1, { ...FINAL_FIELDS, id: "a-1" })] }));
    assert.deepEqual(await driver.messages("a"), [aMessage("a", 1, FINAL_FIELDS)]);
    assert.deepEqual(await driver.messages("a1"), []);
  },
  "write: rejects an unknown session": async ({ driver }) => {
    await expectError(driver.write("none", change({ set: { title: "x" } })), "session_not_found", "unknown id");
    assert.equal(await driver.get("none"), undefined);
  },
  "write: a rejected change has no effect": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1), aGrowingMessage("a", 2)] });
    await driver.create({ session: aSession("b"), run: aRun("r1", "b", { idempotencyKey: "taken" }) });
    const lease = await acquireLease(driver, "a", "h1");
    const readAll = async (): Promise<unknown> => [
      await driver.get("a"),
      await driver.messages("a"),
      await findSnapshots(driver, "a"),
      await driver.runs({ limit: 9 }),
    ];
    const stateBefore = await readAll();
    const fullChange: SessionChange = {
      fence: lease.fence,
      sync: true,
      set: { title: "half", updatedAt: at(50) },
      usage: USAGE,
      add: [aMessage("a", 3), aGrowingMessage("a", 4)],
      append: [{ messageId: "a-2", part: 0, type: "text", text: "half" }],
      finish: [aMessage("a", 2, FINAL_FIELDS)],
      revert: { id: "s", after: 1, createdAt: at(1) },
      runs: [aRun("r2", "a")],
    };
    const rejectedChanges: [string, SessionChange][] = [
      ["lease_lost", { ...fullChange, fence: lease.fence + 1 }],
      ["seq_taken", { ...fullChange, add: [aMessage("a", 3), aMessage("a", 2, { id: "again" })] }],
      ["run_key_taken", { ...fullChange, runs: [aRun("r3", "a"), aRun("r4", "a", { idempotencyKey: "taken" })] }],
      ["point_not_found", { ...fullChange, append: [{ messageId: "a-1", part: 0, type: "text", text: "x" }] }],
      ["point_not_found", { ...fullChange, finish: [aMessage("a", 2, FINAL_FIELDS), aMessage("a", 9)] }],
      ["point_not_found", { ...fullChange, restore: "no such snapshot" }],
    ];
    for (const [code, invalidChange] of rejectedChanges) {
      await expectError(driver.write("a", invalidChange), code, code);
      assert.deepEqual(await readAll(), stateBefore, code);
    }
    await driver.write("a", fullChange);
    assert.equal((await driver.get("a"))?.title, "half");
    assert.equal((await driver.runs({ limit: 9 })).length, 2);
    assert.deepEqual(await readSeqs(driver, "a"), [1, 3, 4]);
  },
  "write: rejects an append to a finished message and a second finish": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
    await driver.write("a", change({ finish: [aMessage("a", 1, FINAL_FIELDS)] }));
    const lateChange = change({ append: [{ messageId: "a-1", part: 0, type: "text", text: "late" }] });
    await expectError(driver.write("a", lateChange), "point_not_found", "finished already");
    await expectError(driver.write("a", change({ finish: [aMessage("a", 1)] })), "point_not_found", "finished twice");
    assert.deepEqual(await driver.messages("a"), [aMessage("a", 1, FINAL_FIELDS)]);
  },
  "write: concurrent changes take effect in the order of their calls": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
    const letters = [..."the quick brown fox jumps over the lazy dog"];
    await Promise.all(
      letters.map((text, n) =>
        driver.write("a", change({ append: [{ messageId: "a-1", part: 0, type: "text", text }], sync: n % 7 === 0 })),
      ),
    );
    assert.equal(joinParts((await driver.messages("a"))[0]), letters.join(""));
  },
  "write: a rejected change does not affect concurrent ones": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    const results = await Promise.allSettled([
      driver.write("a", change({ add: [aMessage("a", 2)] })),
      driver.write("a", change({ add: [aMessage("a", 3), aMessage("a", 1)] })),
      driver.write("none", change({ set: { title: "x" } })),
      driver.write("a", change({ add: [aMessage("a", 4)] })),
      driver.create({ session: aSession("a") }),
      driver.write("a", change({ set: { title: "last" } })),
    ]);
    assert.deepEqual(
      results.map((result) => result.status),
      ["fulfilled", "rejected", "rejected", "fulfilled", "rejected", "fulfilled"],
    );
    assert.deepEqual(await readSeqs(driver, "a"), [1, 2, 4]);
    assert.equal((await driver.get("a"))?.title, "last");
  },
};
