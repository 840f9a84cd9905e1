import assert from "node:assert/strict";
import { waitUntil } from "../check.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import { acquireLease, answerAsk, findAsk, findRun, sendInstruction, withdrawInstruction } from "./driver-calls.js";
import { aMessage, anAsk, anInstruction, aResolution, aRun, aSession, at, change, someMessages } from "./records.js";
import type { StoreRules } from "./store-under-test.js";

const listAskIds = async (driver: SessionDriver, query: Partial<Parameters<SessionDriver["asks"]>[0]> = {}) =>
  (await driver.asks({ limit: 100, ...query })).map(({ id }) => id);

/** Rules for asks, instructions and other input of a run. */
export const askRules: StoreRules = {
  "stores mode, permission grants and rewinds of a session, and copies them": async ({ driver }) => {
    await driver.create({ session: aSession("a", { mode: "plan", rewinds: [3] }) });
    assert.equal((await driver.get("a"))?.mode, "plan");
    const permissionGrants = [{ tool: "bash", scope: "w", title: "t", grantedBy: "http", grantedAt: at(1) }];
    const set = { mode: "ask" as const, permissionGrants, rewinds: [3, 1] };
    await driver.write("a", change({ set }));
    permissionGrants[0]!.tool = "other";
    const { mode, permissionGrants: storedGrants, rewinds } = (await driver.get("a")) ?? {};
    assert.deepEqual(
      { mode, storedGrants, rewinds },
      { mode: "ask", storedGrants: [{ ...permissionGrants[0], tool: "bash" }], rewinds: [3, 1] },
    );
  },
  "copies the rewinds of a follow-up to its chain's original": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    await driver.create({ session: aSession("b", { chain: { root: "a", index: 1 } }) });
    await driver.write("b", change({ set: { mode: "plan", rewinds: [7] } }));
    for (const id of ["a", "b"]) assert.deepEqual((await driver.get(id))?.rewinds, [7]);
  },
  "stores all fields of an ask under the lease, and finds it by its id and by any id of the chain": async ({
    driver,
  }) => {
    await driver.create({ session: aSession("a") });
    await driver.create({ session: aSession("b", { chain: { root: "a", index: 1 } }) });
    const { fence } = await acquireLease(driver, "a", "h");
    await driver.write("b", change({ fence, asks: [anAsk("q", "b")] }));
    assert.deepEqual(await findAsk(driver, "q"), anAsk("q", "a"));
    for (const sessionId of ["a", "b"]) assert.deepEqual(await listAskIds(driver, { sessionId }), ["q"]);
    assert.deepEqual(await listAskIds(driver, { sessionId: "other" }), []);
    for (const sessionId of ["a", "b"]) assert.deepEqual(await listAskIds(driver, { id: "q", sessionId }), ["q"]);
    assert.deepEqual(await listAskIds(driver, { id: "q", sessionId: "other" }), []);
    assert.equal(await findAsk(driver, "other"), undefined);
  },
  "rejects a change with an ask if the lease is lost or the ask belongs to another chain": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    await driver.create({ session: aSession("b") });
    await driver.write("a", change({ asks: [anAsk("q", "a")] }));
    const foreignAsk = change({ asks: [anAsk("q", "b")], set: { title: "no" } });
    await assert.rejects(driver.write("b", foreignAsk), { code: "session_exists" });
    await assert.rejects(driver.write("a", change({ fence: 999, asks: [anAsk("r", "a")] })), { code: "lease_lost" });
    assert.notEqual((await driver.get("b"))?.title, "no");
    assert.deepEqual(await listAskIds(driver), ["q"]);
  },
  "lists asks newest first, ties by id, in pages, and only the open ones if requested": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    const asks = [
      anAsk("q1", "a", { createdAt: at(1) }),
      anAsk("q2", "a", { createdAt: at(2), state: "withdrawn", closedAt: at(3) }),
      anAsk("q4", "a", { createdAt: at(3) }),
      anAsk("q3", "a", { createdAt: at(3) }),
    ];
    await driver.write("a", change({ asks }));
    assert.deepEqual(await listAskIds(driver), ["q4", "q3", "q2", "q1"]);
    assert.deepEqual(await listAskIds(driver, { limit: 2 }), ["q4", "q3"]);
    assert.deepEqual(await listAskIds(driver, { before: { createdAt: at(3), id: "q3" } }), ["q2", "q1"]);
    assert.deepEqual(await listAskIds(driver, { open: true, sessionId: "a" }), ["q4", "q3", "q1"]);
  },
  "answers an ask once: of concurrent answers from two drivers one is accepted, and all return the same": async (
    store,
  ) => {
    const { driver } = store;
    const secondDriver = await store.openSecond();
    await driver.create({ session: aSession("a") });
    for (let round = 0; round < 10; round += 1) {
      const id = `q${round}`;
      await driver.write("a", change({ asks: [anAsk(id, "a")] }));
      const clients = ["one", "two", "three", "four"];
      const outcomes = await Promise.all(
        clients.map((client, i) =>
          answerAsk(i % 2 ? secondDriver : driver, "a", id, aResolution(i % 2 ? "allow" : "reject", client)),
        ),
      );
      assert.equal(outcomes.filter((outcome) => outcome?.isAccepted).length, 1);
      const acceptedClient = clients[outcomes.findIndex((outcome) => outcome?.isAccepted)];
      const storedAsk = await findAsk(secondDriver, id);
      assert.deepEqual(
        [storedAsk?.state, storedAsk?.answeredBy, storedAsk?.closedAt],
        ["answered", acceptedClient, at(1)],
      );
      for (const outcome of outcomes) assert.deepEqual(outcome?.ask, storedAsk);
    }
    assert.equal(await answerAsk(driver, "a", "other", aResolution("allow")), undefined);
    await assert.rejects(answerAsk(driver, "none", "q0", aResolution("allow")), { code: "session_not_found" });
  },
  "keeps the answer of an ask that is withdrawn later, and does not accept answers to withdrawn asks": async ({
    driver,
  }) => {
    await driver.create({ session: aSession("a") });
    await driver.write("a", change({ asks: [anAsk("q", "a"), anAsk("r", "a")] }));
    await answerAsk(driver, "a", "q", aResolution("allow"));
    const withdrawnFields = { state: "withdrawn", closedAt: at(2) } as const;
    await driver.write("a", change({ asks: [anAsk("q", "a", withdrawnFields), anAsk("r", "a", withdrawnFields)] }));
    assert.equal((await findAsk(driver, "q"))?.state, "answered");
    const lateAnswer = await answerAsk(driver, "a", "r", aResolution("allow"));
    assert.deepEqual(
      [lateAnswer?.isAccepted, lateAnswer?.ask.state, lateAnswer?.ask.reply],
      [false, "withdrawn", null],
    );
  },
  "answers an ask by any id of its chain, and none of another chain": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }) });
    await driver.create({ session: aSession("b") });
    await driver.write("a", change({ asks: [anAsk("q", "a")] }));
    assert.equal(await answerAsk(driver, "b", "q", aResolution("reject")), undefined);
    assert.equal((await findAsk(driver, "q"))?.state, "open");
    assert.equal((await answerAsk(driver, "a1", "q", aResolution("allow")))?.isAccepted, true);
  },
  "keeps asks and answers after a reopen": async (store) => {
    await store.driver.create({ session: aSession("a") });
    await store.driver.write("a", change({ sync: true, asks: [anAsk("q", "a"), anAsk("r", "a")] }));
    await answerAsk(store.driver, "a", "q", aResolution("reject"));
    const driver = await store.reopen();
    assert.deepEqual(await listAskIds(driver, { open: true }), ["r"]);
    assert.deepEqual((await findAsk(driver, "q"))?.reply, { choice: "reject", text: "" });
  },
  "stores instructions of all drivers once, in the order of arrival": async (store) => {
    const { driver } = store;
    const secondDriver = await store.openSecond();
    await driver.create({ session: aSession("a") });
    await driver.create({ session: aSession("b", { chain: { root: "a", index: 1 } }) });
    await sendInstruction(driver, anInstruction("i2", "b"));
    await sendInstruction(secondDriver, anInstruction("i1", "a", { kind: "cancel", text: "" }));
    await sendInstruction(driver, anInstruction("i2", "a", { text: "again" }));
    const expectedInstructions = [anInstruction("i2", "a"), anInstruction("i1", "a", { kind: "cancel", text: "" })];
    for (const id of ["a", "b"]) assert.deepEqual(await secondDriver.instructions(id), expectedInstructions);
    await assert.rejects(driver.instructions("other"), { code: "session_not_found" });
    await assert.rejects(sendInstruction(driver, anInstruction("i3", "other")), { code: "session_not_found" });
  },
  "removes instructions only together with the change that consumed them": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 1) });
    await sendInstruction(driver, anInstruction("i1", "a"));
    await sendInstruction(driver, anInstruction("i2", "a"));
    await assert.rejects(driver.write("a", change({ consumedInstructions: ["i1"], add: someMessages("a", 1, 1) })));
    assert.equal((await driver.instructions("a")).length, 2);
    await driver.write("a", change({ consumedInstructions: ["i1", "unknown"], add: someMessages("a", 2, 2) }));
    assert.deepEqual(
      (await driver.instructions("a")).map(({ id }) => id),
      ["i2"],
    );
  },
  "returns which instructions a change removed, and removes none of another chain": async ({ driver }) => {
    for (const id of ["a", "b"]) await driver.create({ session: aSession(id) });
    for (const id of ["i1", "i2"]) await sendInstruction(driver, anInstruction(id, "a"));
    await sendInstruction(driver, anInstruction("other", "b"));
    const { consumedInstructions } = await driver.write(
      "a",
      change({ consumedInstructions: ["i2", "other", "none", "i1"] }),
    );
    assert.deepEqual(consumedInstructions.sort(), ["i1", "i2"]);
    assert.deepEqual(await driver.instructions("a"), []);
    assert.deepEqual(await driver.instructions("b"), [anInstruction("other", "b")]);
  },
  "lets exactly one of several concurrent withdrawals remove an instruction": async (store) => {
    const { driver } = store;
    const secondDriver = await store.openSecond();
    await driver.create({ session: aSession("a") });
    await sendInstruction(driver, anInstruction("i", "a"));
    const removals = await Promise.all([
      withdrawInstruction(driver, "a", "i"),
      withdrawInstruction(secondDriver, "a", "i"),
      withdrawInstruction(driver, "a", "i"),
    ]);
    assert.equal(removals.filter(Boolean).length, 1);
    assert.equal(await withdrawInstruction(driver, "a", "i"), false);
    assert.deepEqual(await secondDriver.instructions("a"), []);
  },
  "deletes asks and instructions with their chain, and includes asks in a dump": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    await driver.write("a", change({ asks: [anAsk("q", "a")] }));
    await sendInstruction(driver, anInstruction("i", "a"));
    const dump = await driver.dump("a");
    assert.deepEqual(dump?.asks, [anAsk("q", "a")]);
    await driver.delete(["a"]);
    assert.equal(await findAsk(driver, "q"), undefined);
    await assert.rejects(withdrawInstruction(driver, "a", "i"), { code: "session_not_found" });
    assert.ok(dump, "the dump of the session");
    await driver.load(dump);
    assert.deepEqual(await driver.instructions("a"), []);
    assert.deepEqual(await findAsk(driver, "q"), anAsk("q", "a"));
  },
  "stores fingerprint and answer of a run with its key; forgetKeys, if present, clears all three for old ended runs":
    async ({ driver }) => {
      const endedFields = { state: "finished", endedBy: "model", fingerprint: "f", endedAt: at(2) } as const;
      const answer = { output: "yes", finishReason: "stop", structured: { ok: true } } as const;
      const oldRun = aRun("old", "a", { ...endedFields, idempotencyKey: "k1", answer, startedAt: at(1) });
      const activeRun = aRun("open", "a", { idempotencyKey: "k2", startedAt: at(2) });
      const recentRun = aRun("young", "a", { ...endedFields, idempotencyKey: "k3", answer, startedAt: at(9) });
      await driver.create({ session: aSession("a") });
      await driver.write("a", change({ runs: [oldRun, activeRun, recentRun] }));
      assert.deepEqual((await findRun(driver, "old"))?.run, oldRun);
      assert.deepEqual(
        (await driver.runs({ idempotencyKey: "k3", limit: 9 })).map(({ run }) => run),
        [recentRun],
      );
      assert.deepEqual(await driver.runs({ idempotencyKey: "", limit: 9 }), []);
      if (!driver.forgetKeys) return;
      await driver.forgetKeys(at(5));
      assert.deepEqual(await driver.runs({ idempotencyKey: "k1", limit: 9 }), []);
      const runs = await driver.runs({ limit: 10 });
      assert.deepEqual(
        runs.map(({ run }) => [run.id, run.idempotencyKey, run.fingerprint, run.answer?.output]),
        [
          ["young", "k3", "f", "yes"],
          ["open", "k2", "", undefined],
          ["old", "", "", undefined],
        ],
      );
      await driver.create({ session: aSession("b"), run: aRun("new", "b", { idempotencyKey: "k1" }) });
      await assert.rejects(driver.create({ session: aSession("c"), run: aRun("no", "c", { idempotencyKey: "k2" }) }), {
        code: "run_key_taken",
      });
    },
  "notifier: if present, notifies subscribers of changes by another process until they unsubscribe": async (store) => {
    const { driver } = store;
    const secondDriver = await store.openSecond();
    const [listener, publisher] = [driver.notifier, secondDriver.notifier];
    if (!listener || !publisher) return;
    const changeFunctions: ((id: string) => Promise<unknown>)[] = [
      (id) => secondDriver.write(id, change({ set: { title: "new" } })),
      (id) => sendInstruction(secondDriver, anInstruction(`i of ${id}`, id)),
      async (id) => {
        const { fence } = await acquireLease(secondDriver, id, "h");
        await secondDriver.write(id, change({ fence, add: [aMessage(id, 1)] }));
      },
    ];
    const notificationCountsById = new Map<string, number>();
    const countNotifications = (id: string) =>
      listener.subscribe(id, () => notificationCountsById.set(id, (notificationCountsById.get(id) ?? 0) + 1));
    /** Performs the change and waits for a notification. */
    const expectNotification = async (id: string, makeChange: (id: string) => Promise<unknown>): Promise<void> => {
      const countBefore = notificationCountsById.get(id) ?? 0;
      await makeChange(id);
      publisher.publish(id);
      await waitUntil(() => (notificationCountsById.get(id) ?? 0) > countBefore, `a notification of ${id}`, 2000);
    };
    const ids = changeFunctions.map((_, n) => `a${n}`);
    for (const id of [...ids, "last"]) await driver.create({ session: aSession(id) });
    const unsubscribers = ids.map(countNotifications);
    countNotifications("last");
    // Notifications of earlier changes arrive before the last chain's.
    await expectNotification("last", changeFunctions[0]!);
    for (const [n, makeChange] of changeFunctions.entries()) await expectNotification(`a${n}`, makeChange);
    for (const unsubscribe of unsubscribers) unsubscribe();
    const countsBefore = ids.map((id) => notificationCountsById.get(id));
    for (const id of ids) {
      await secondDriver.write(id, change({ set: { title: "newer" } }));
      publisher.publish(id);
    }
    await expectNotification("last", changeFunctions[0]!);
    await expectNotification("last", changeFunctions[0]!);
    assert.deepEqual(
      ids.map((id) => notificationCountsById.get(id)),
      countsBefore,
      "no notification after unsubscribing",
    );
  },
};
