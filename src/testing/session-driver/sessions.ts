import assert from "node:assert/strict";
import type { Message } from "../../ports/message.js";
import type { Session } from "../../ports/session.js";
import { expectError } from "../check.js";
import { acquireLease, findNewest, listIds, readSeqs, releaseLease } from "./driver-calls.js";
import { aMessage, aSession, at, someMessages } from "./records.js";
import type { StoreRules } from "./store-under-test.js";

export const sessionRules: StoreRules = {
  "create: stores every field of a session": async ({ driver }) => {
    const session = aSession("a", {
      alias: "acp-a",
      hasFinalTitle: true,
      reasoningEffort: "high",
      parentId: "elsewhere",
      updatedAt: at(9),
      usage: { promptTokens: 5_000_000_000, completionTokens: 7, totalTokens: 5_000_000_007, cost: 0.1234567 },
    });
    await driver.create({ session });
    assert.deepEqual(await driver.get("a"), session);
  },
  "create: stores every field of messages, with every kind of part": async ({ driver }) => {
    const opaque = { provider: "lab", model: "m1", data: { signature: "x", list: [1, null, true] } };
    const messages: Message[] = [
      aMessage("a", 1, {
        parts: [
          { type: "text", text: "look" },
          { type: "image", mediaType: "image/png", data: "aGk=" },
          { type: "file", mediaType: "application/octet-stream", filename: "x.bin", data: "AA==" },
        ],
      }),
      aMessage("a", 2, {
        role: "assistant",
        parts: [
          { type: "reasoning", text: "hm", opaque },
          { type: "text", text: "", opaque },
          { type: "tool_call", id: "c1", name: "read", arguments: "{broken", opaque },
        ],
      }),
      aMessage("a", 3, { role: "tool", toolCallId: "c1", name: "read", failed: true }),
      aMessage("a", 4, { role: "system", parts: [] }),
    ];
    await driver.create({ session: aSession("a"), messages });
    assert.deepEqual(await driver.messages("a"), messages);
    assert.equal((await driver.get("a"))?.lastSeq, 4, "the driver updates lastSeq");
  },
  "create: lastSeq is at least the given value": async ({ driver }) => {
    await driver.create({ session: aSession("a", { lastSeq: 9 }), messages: [aMessage("a", 3)] });
    assert.equal((await driver.get("a"))?.lastSeq, 9);
  },
  "create: rejects an id that is taken, without any effect": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 2) });
    await expectError(
      driver.create({ session: aSession("a", { title: "other", alias: "x" }), messages: [aMessage("a", 3)] }),
      "session_exists",
      "same id",
    );
    assert.equal((await driver.get("a"))?.title, "Title of a");
    assert.equal(await driver.get("x"), undefined);
    assert.deepEqual(await readSeqs(driver, "a"), [1, 2]);
    assert.equal((await driver.list({ limit: 9 })).total, 1);
  },
  "create: an alias is unique among aliases and ids": async ({ driver }) => {
    await driver.create({ session: aSession("a", { alias: "x" }) });
    await expectError(driver.create({ session: aSession("b", { alias: "x" }) }), "session_exists", "alias of another");
    await expectError(
      driver.create({ session: aSession("b", { alias: "a" }) }),
      "session_exists",
      "alias is another's id",
    );
    await expectError(driver.create({ session: aSession("x") }), "session_exists", "id is another's alias");
    await driver.create({ session: aSession("b") });
    await driver.create({ session: aSession("c") });
    assert.deepEqual(await listIds(driver), ["c", "b", "a"], "several sessions can have no alias");
  },
  "create: rejects messages with the same seq, and creates no session": async ({ driver }) => {
    const messagesWithSameSeq = [aMessage("a", 1), aMessage("a", 2, { id: "p" }), aMessage("a", 2, { id: "q" })];
    await expectError(
      driver.create({ session: aSession("a", { alias: "x" }), messages: messagesWithSameSeq }),
      "seq_taken",
      "seq 2 twice",
    );
    assert.equal(await driver.get("a"), undefined);
    assert.equal(await driver.get("x"), undefined);
    assert.deepEqual(await driver.messages("a"), []);
    assert.deepEqual(await driver.list({ limit: 9 }), { sessions: [], total: 0 });
    await driver.create({ session: aSession("a", { alias: "x" }), messages: [aMessage("a", 1)] });
  },
  "create: rejects a follow-up if its index or a seq is taken, or its original does not exist": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 2) });
    await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }) });
    const followUp = aSession("a2", { chain: { root: "a", index: 1 } });
    await expectError(
      driver.create({ session: followUp, messages: [aMessage("a2", 3)] }),
      "session_exists",
      "index 1 twice",
    );
    assert.equal(await driver.get("a2"), undefined);
    const orphan = aSession("b1", { chain: { root: "b", index: 1 } });
    await expectError(driver.create({ session: orphan }), "session_not_found", "no original");
    assert.equal(await driver.get("b1"), undefined);
    const followUpWithTakenSeq = aSession("a3", { chain: { root: "a", index: 2 } });
    await expectError(
      driver.create({ session: followUpWithTakenSeq, messages: [aMessage("a3", 2)] }),
      "seq_taken",
      "seq of the original",
    );
    assert.equal(await driver.get("a3"), undefined);
  },
  "create: the error names the taken id or alias, or the new session if its index is taken": async ({ driver }) => {
    await driver.create({ session: aSession("a", { alias: "x" }) });
    await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }) });
    const cases: [string, Session][] = [
      ["a", aSession("a", { alias: "y" })],
      ["x", aSession("x")],
      ["x", aSession("b", { alias: "x" })],
      ["a", aSession("b", { alias: "a" })],
      ["b", aSession("b", { alias: "b" })],
      ["a2", aSession("a2", { alias: "y", chain: { root: "a", index: 1 } })],
    ];
    for (const [sessionId, session] of cases)
      await assert.rejects(driver.create({ session }), { code: "session_exists", sessionId });
  },
  "create: rejects a follow-up with an old fence and accepts one with the current fence": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    const oldLease = await acquireLease(driver, "a", "h1");
    await releaseLease(driver, oldLease);
    const lease = await acquireLease(driver, "a", "h2");
    const followUp = aSession("a1", { chain: { root: "a", index: 1 } });
    await expectError(driver.create({ session: followUp, fence: oldLease.fence }), "lease_lost", "old fence");
    assert.equal(await driver.get("a1"), undefined);
    await driver.create({ session: followUp, fence: lease.fence });
    assert.equal((await findNewest(driver, "a"))?.id, "a1");
  },
  "get: finds a session by id or alias; undefined if there is none": async ({ driver }) => {
    await driver.create({ session: aSession("a", { alias: "x" }) });
    await driver.create({ session: aSession("b") });
    assert.equal((await driver.get("a"))?.id, "a");
    assert.equal((await driver.get("x"))?.id, "a");
    assert.equal(await driver.get("none"), undefined);
    assert.equal(await driver.get(""), undefined, "an empty alias finds no session");
    assert.equal(await driver.get("A"), undefined, "ids are case-sensitive");
  },
  "a caller's later changes to its objects do not affect the store": async ({ driver }) => {
    const session = aSession("a");
    const message = aMessage("a", 1);
    const view = aMessage("a", 1);
    await driver.create({ session, messages: [message], view: [view] });
    session.title = "changed";
    session.usage.cost = 9;
    message.parts.push({ type: "text", text: "more" });
    view.parts.length = 0;
    const returnedSession = await driver.get("a");
    const [returnedMessage] = await driver.messages("a");
    assert.ok(returnedSession && returnedMessage, "the session and its message");
    returnedSession.title = "changed";
    returnedSession.chain.index = 7;
    returnedMessage.parts.length = 0;
    assert.deepEqual(await driver.get("a"), aSession("a", { lastSeq: 1 }));
    assert.deepEqual(await driver.messages("a"), [aMessage("a", 1)]);
    assert.deepEqual((await driver.head("a"))?.messages, [aMessage("a", 1), aMessage("a", 1)]);
  },
  "head: `messages: false` may omit the messages; all other fields are the same": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 4) });
    const fullHead = await driver.head("a");
    const headWithoutMessages = await driver.head("a", { messages: false });
    assert.ok(fullHead && headWithoutMessages, "the head, with messages and without");
    assert.deepEqual({ ...headWithoutMessages, messages: fullHead.messages }, fullHead);
    assert.deepEqual(await driver.head("a", { messages: true }), fullHead);
    assert.equal(await driver.head("none", { messages: false }), undefined);
  },
  "head: messages of a follow-up are its view and its own messages, not earlier ones": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 4) });
    const view = [aMessage("a", 1), aMessage("a", 4, { parts: [{ type: "text", text: "short" }] })];
    await driver.create({
      session: aSession("a1", { chain: { root: "a", index: 1 }, lastSeq: 4 }),
      messages: [aMessage("a1", 5)],
      view,
    });
    assert.deepEqual((await driver.head("a1"))?.messages, [...view, aMessage("a1", 5)]);
    assert.deepEqual(await readSeqs(driver, "a1"), [5]);
    assert.deepEqual(await readSeqs(driver, "a1", { scope: "chain" }), [1, 2, 3, 4, 5]);
    assert.deepEqual((await driver.dump("a"))?.sessions[0]?.view, []);
    assert.deepEqual((await driver.dump("a"))?.sessions[1]?.view, view);
  },
  "delete: removes a session with its messages, and frees its id and alias": async ({ driver }) => {
    await driver.create({ session: aSession("a", { alias: "x" }), messages: someMessages("a", 1, 3) });
    await driver.create({ session: aSession("b"), messages: [aMessage("b", 1)] });
    await driver.delete(["a", "none"]);
    assert.equal(await driver.get("a"), undefined);
    assert.equal(await driver.get("x"), undefined);
    assert.deepEqual(await driver.messages("a", { scope: "chain" }), []);
    assert.deepEqual(await driver.list({ limit: 9 }), { sessions: [aSession("b", { lastSeq: 1 })], total: 1 });
    await driver.delete([]);
    await driver.create({ session: aSession("a", { alias: "x" }) });
    assert.deepEqual(await driver.messages("a"), []);
  },
  "delete: a fork survives its parent": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    await driver.create({ session: aSession("fork", { parentId: "a" }), messages: [aMessage("fork", 1)] });
    await driver.delete(["a"]);
    assert.equal((await driver.get("fork"))?.parentId, "a");
    assert.deepEqual(await readSeqs(driver, "fork"), [1]);
  },
};
