import assert from "node:assert/strict";
import type { ChainData, SessionDriver } from "../../ports/session-driver.js";
import { expectError } from "../check.js";
import { acquireLease, findNewest, listIds, readSeqs } from "./driver-calls.js";
import { aGrowingMessage, aMessage, aResult, aRun, aSession, at, change, joinParts, someMessages } from "./records.js";
import type { StoreRules } from "./store-under-test.js";

/**
 * Creates a chain with all features: three sessions with a view, two snapshots of which one hides a session, a growing
 * message, usage and two runs.
 */
async function createFullChain(driver: SessionDriver): Promise<void> {
  const usage = { promptTokens: 3, completionTokens: 4, totalTokens: 7, cost: 0.25 };
  const run = aRun("ar1", "a", { idempotencyKey: "key", state: "finished" });
  await driver.create({ session: aSession("a", { alias: "x", usage }), messages: someMessages("a", 1, 4), run });
  const view = [aMessage("a", 1), aMessage("a", 4)];
  await driver.create({
    session: aSession("a1", { chain: { root: "a", index: 1 }, lastSeq: 4 }),
    messages: someMessages("a1", 5, 7),
    view,
  });
  await driver.write("a1", change({ revert: { id: "s1", after: 6, createdAt: at(50) } }));
  await driver.create({
    session: aSession("a2", { chain: { root: "a", index: 2 }, lastSeq: 7 }),
    messages: [aResult("a2", 8)],
    view,
  });
  await driver.write(
    "a1",
    change({ revert: { id: "s2", after: 5, createdAt: at(60) }, add: [aGrowingMessage("a1", 9)] }),
  );
  const append = [{ messageId: "a1-9", part: 0, type: "text" as const, text: "half" }];
  await driver.write(
    "a1",
    change({ append, set: { updatedAt: at(70), title: "T" }, runs: [aRun("ar2", "a", { startedAt: at(5) })] }),
  );
}

/** Returns a copy of a chain with other ids, alias and key. Field names and fixed values stay. */
function renameIds(chain: ChainData): ChainData {
  const text = JSON.stringify(chain)
    .replaceAll(/"a(?!ssistant"|uto"|llow)([^"]*)"(?!:)/g, '"z$1"')
    .replaceAll('"x"', '"y"')
    .replaceAll('\"idempotencyKey\":\"key\"', '\"idempotencyKey\":\"yek\"');
  return JSON.parse(text) as ChainData;
}

async function dumpChain(driver: SessionDriver, id: string): Promise<ChainData> {
  const data = await driver.dump(id);
  assert.ok(data, `dump of ${id}`);
  return data;
}

export const transferRules: StoreRules = {
  "dump: returns the whole chain with hidden parts, for any id of the chain; undefined for an unknown id": async ({
    driver,
  }) => {
    await createFullChain(driver);
    const data = await dumpChain(driver, "a");
    assert.deepEqual(
      data.sessions.map(({ session, hiddenBy }) => [session.id, hiddenBy]),
      [
        ["a", ""],
        ["a1", ""],
        ["a2", "s2"],
      ],
    );
    assert.deepEqual(
      data.sessions.map(({ messages }) => messages.map(({ message, hiddenBy }) => `${message.seq}${hiddenBy}`)),
      [["1", "2", "3", "4"], ["5", "6s2", "7s1", "9"], ["8s2"]],
    );
    assert.deepEqual(
      data.sessions.map(({ view }) => view.map((message) => message.seq)),
      [[], [1, 4], [1, 4]],
    );
    assert.deepEqual(
      data.snapshots.map(({ id, after }) => [id, after]),
      [
        ["s1", 6],
        ["s2", 5],
      ],
    );
    assert.equal(joinParts(data.sessions[1]?.messages.at(-1)?.message), "half");
    assert.deepEqual(data.sessions[0]?.session, await driver.get("a"));
    assert.deepEqual(
      data.runs,
      (await driver.runs({ limit: 9 })).map(({ run }) => run),
    );
    assert.deepEqual(
      data.runs.map(({ id }) => id),
      ["ar2", "ar1"],
    );
    assert.deepEqual(await dumpChain(driver, "a2"), data);
    assert.equal(await driver.dump("none"), undefined);
  },
  "dump: contains each concurrent change completely or not at all": async (store) => {
    const { driver } = store;
    const secondDriver = await store.openSecond();
    await driver.create({ session: aSession("a") });
    let isWriting = true;
    const writes = (async () => {
      for (let n = 1; n <= 30; n++)
        await secondDriver.write(
          "a",
          change({ add: [aMessage("a", n)], set: { title: `${n}` }, runs: [aRun(`r${n}`, "a")] }),
        );
    })().finally(() => (isWriting = false));
    // If a check of the reader fails, the writes are not awaited: avoid an unhandled rejection.
    writes.catch(() => undefined);
    while (isWriting) {
      const { sessions, runs } = await dumpChain(driver, "a");
      const [firstSession] = sessions;
      const { length } = firstSession?.messages ?? [];
      if (length > 0) assert.equal(firstSession?.session.title, `${length}`, "fields and messages of one change");
      assert.equal(runs.length, length, "messages and runs of one change");
      await new Promise((resolve) => setImmediate(resolve));
    }
    await writes;
  },
  "dump: is plain JSON and a copy of the stored data": async ({ driver }) => {
    await createFullChain(driver);
    const data = await dumpChain(driver, "a");
    assert.deepEqual(JSON.parse(JSON.stringify(data)), data);
    if (data.sessions[0]) data.sessions[0].session.title = "changed";
    assert.equal((await driver.get("a"))?.title, "T");
  },
  "load: restores a dumped and deleted chain, which can be continued": async (store) => {
    await createFullChain(store.driver);
    const data = await dumpChain(store.driver, "a");
    await store.driver.delete(["a"]);
    await store.driver.load(data);
    assert.deepEqual(await dumpChain(store.driver, "a"), data);
    const driver = await store.reopen();
    assert.deepEqual(await dumpChain(driver, "a"), data);
    assert.equal((await driver.get("x"))?.id, "a");
    assert.equal((await findNewest(driver, "a"))?.id, "a1");
    assert.deepEqual(
      await driver.runs({ limit: 9, sessionId: "a1" }),
      data.runs.map((run) => ({ run, holder: null })),
    );
    const { fence } = await acquireLease(driver, "a", "h");
    const append = [{ messageId: "a1-9", part: 0, type: "text" as const, text: " more" }];
    await driver.write("a1", change({ fence, append }));
    assert.equal(joinParts((await driver.messages("a1")).at(-1)), "half more");
    await driver.write("a1", change({ fence, restore: "s2" }));
    assert.deepEqual(await readSeqs(driver, "a", { scope: "chain" }), [1, 2, 3, 4, 5, 6, 8, 9]);
  },
  "load: a growing message keeps its text and can grow further, part by part, until it is finished": async (store) => {
    const { driver } = store;
    const message = aMessage("a", 1, { role: "assistant", finished: false, parts: [{ type: "text", text: "be" }] });
    await driver.create({
      session: aSession("a"),
      messages: [message, aGrowingMessage("a", 2), aGrowingMessage("a", 3)],
    });
    const append = (messageId: string, part: number, type: "text" | "reasoning", text: string) =>
      store.driver.write(messageId.slice(0, -2), change({ append: [{ messageId, part, type, text }] }));
    await append("a-1", 0, "text", "gun");
    await append("a-1", 1, "reasoning", "hm");
    await append("a-2", 0, "reasoning", "think");
    await append("a-2", 0, "reasoning", "ing");
    await append("a-2", 1, "text", "Hel");
    const data = await dumpChain(driver, "a");
    const expectedTexts = ["begun|hm", "thinking|Hel", ""];
    assert.deepEqual(
      data.sessions[0]?.messages.map(({ message }) => joinParts(message)),
      expectedTexts,
    );
    await driver.load(renameIds(data));
    for (const id of ["a", "z"]) {
      if (id === "a") await driver.delete(["a"]);
      if (id === "a") await driver.load(data);
      assert.deepEqual((await driver.messages(id)).map(joinParts), expectedTexts, id);
      await append(`${id}-1`, 1, "reasoning", "m");
      await append(`${id}-2`, 1, "text", "lo");
      await append(`${id}-2`, 2, "text", "more");
      await append(`${id}-3`, 0, "text", "new");
    }
    const reopenedDriver = await store.reopen();
    for (const id of ["a", "z"]) {
      assert.deepEqual(
        (await reopenedDriver.messages(id)).map(joinParts),
        ["begun|hmm", "thinking|Hello|more", "new"],
        id,
      );
      await reopenedDriver.write(id, change({ finish: [aMessage(id, 2)] }));
      assert.deepEqual((await reopenedDriver.messages(id)).map(joinParts), ["begun|hmm", "text 2", "new"], id);
      await expectError(append(`${id}-2`, 0, "text", "late"), "point_not_found", "finished");
    }
  },
  "load: only the original of the loaded chain is listed and counted": async ({ driver }) => {
    await createFullChain(driver);
    await driver.load(renameIds(await dumpChain(driver, "a")));
    assert.deepEqual(await listIds(driver), ["z", "a"]);
    assert.equal((await driver.list({ limit: 1, projectDir: "/projects/one" })).total, 2);
    await driver.delete(["z"]);
    assert.deepEqual((await readSeqs(driver, "a", { scope: "chain" })).length, 6);
  },
  "load: rejected without any effect if an id, an alias or a run's id or key is taken": async ({ driver }) => {
    await createFullChain(driver);
    const data = renameIds(await dumpChain(driver, "a"));
    await driver.create({ session: aSession("z2") });
    await expectError(driver.load(data), "session_exists", "id of a follow-up");
    await driver.delete(["z2"]);
    await driver.create({ session: aSession("b", { alias: "y" }) });
    await expectError(driver.load(data), "session_exists", "alias");
    await driver.delete(["b"]);
    for (const run of [aRun("zr1", "b"), aRun("other", "b", { idempotencyKey: "yek" })]) {
      await driver.create({ session: aSession("b"), run });
      await expectError(driver.load(data), "run_key_taken", "a run's id or key");
      await driver.delete(["b"]);
    }
    await driver.create({ session: aSession("b") });
    assert.equal((await driver.runs({ limit: 9 })).length, 2);
    assert.equal(await driver.get("z"), undefined);
    assert.equal(await driver.get("z1"), undefined);
    assert.deepEqual(await driver.messages("z1", { scope: "chain" }), []);
    assert.deepEqual((await listIds(driver)).sort(), ["a", "b"]);
    await driver.delete(["b"]);
    await driver.load(data);
    assert.deepEqual((await dumpChain(driver, "z")).sessions.length, 3);
  },
};
