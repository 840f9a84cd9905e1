import assert from "node:assert/strict";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { AskQuery, MessageSearchQuery, RunQuery, SessionQuery } from "../../ports/session-queries.js";
import { searchMessages } from "../../sessions/search/search-messages.js";
import { aMessage, anAsk, aRun, aSession, at, change } from "./records.js";
import type { StoreRules, StoreUnderTest } from "./store-under-test.js";

const listWithTotal = async (driver: SessionDriver, query: Partial<SessionQuery>): Promise<[string[], number]> => {
  const page = await driver.list({ limit: 9, ...query });
  return [page.sessions.map(({ id }) => id), page.total];
};
const listRunIds = async (driver: SessionDriver, query: Partial<RunQuery>): Promise<string[]> =>
  (await driver.runs({ limit: 9, ...query })).map(({ run }) => run.id);
const listAskIds = async (driver: SessionDriver, query: Partial<AskQuery>): Promise<string[]> =>
  (await driver.asks({ limit: 9, ...query })).map(({ id }) => id);

/**
 * Creates sessions with one message, one run and one ask each: `a1` and `a2` (archived) of ann, `b1` and `b2` (shared) of
 * bob, `s` (shared, without an owner) and `n` (without an owner). The last one is the newest.
 */
async function createUserSessions(driver: SessionDriver): Promise<void> {
  for (const [n, [id, fields]] of (
    [
      ["a1", { owner: "ann", projectDir: "/p" }],
      ["b1", { owner: "bob", projectDir: "/p" }],
      ["s", { shared: true }],
      ["b2", { owner: "bob", shared: true, projectDir: "/p" }],
      ["a2", { owner: "ann", archived: true }],
      ["n", {}],
    ] as const
  ).entries()) {
    const run = aRun(`run-${id}`, id, { startedAt: at(n), idempotencyKey: `key-${id}` });
    await driver.create({ session: aSession(id, { updatedAt: at(n), ...fields }), messages: [aMessage(id, 1)], run });
    await driver.write(id, change({ asks: [anAsk(`ask-${id}`, id, { createdAt: at(n) })] }));
  }
}

const userRules: StoreRules = {
  "users: a list with `visibleTo` has the user's own and shared sessions, with each other filter, and a total": async (
    store,
  ) => {
    await createUserSessions(store.driver);
    const driver = await store.reopen();
    const list = (user: string, query: Partial<SessionQuery> = {}) =>
      listWithTotal(driver, { visibleTo: user, ...query });
    assert.deepEqual(await listWithTotal(driver, {}), [["n", "a2", "b2", "s", "b1", "a1"], 6]);
    assert.deepEqual(await list("ann"), [["a2", "b2", "s", "a1"], 4]);
    assert.deepEqual(await list("bob"), [["b2", "s", "b1"], 3]);
    for (const user of ["eve", "Ann", "ann ", "an_", "a%", "nobody"])
      assert.deepEqual(await list(user), [["b2", "s"], 2], `user ${JSON.stringify(user)}`);
    assert.deepEqual(await list("ann", { limit: 2 }), [["a2", "b2"], 4]);
    assert.deepEqual(await list("ann", { limit: 2, offset: 1 }), [["b2", "s"], 4]);
    assert.deepEqual(await list("ann", { limit: 2, offset: 3 }), [["a1"], 4]);
    assert.deepEqual(await list("ann", { limit: 2, offset: 4 }), [[], 4]);
    assert.deepEqual(await list("ann", { before: { updatedAt: at(3), id: "b2" } }), [["s", "a1"], 4]);
    assert.deepEqual(await list("ann", { projectDir: "/p" }), [["b2", "a1"], 2]);
    assert.deepEqual(await list("ann", { projectDir: "/p", limit: 1, offset: 1 }), [["a1"], 2]);
    assert.deepEqual(await list("ann", { search: "TITLE OF A" }), [["a2", "a1"], 2]);
    assert.deepEqual(await list("ann", { search: "title of b" }), [["b2"], 1]);
    assert.deepEqual(await list("ann", { archived: "exclude" }), [["b2", "s", "a1"], 3]);
    assert.deepEqual(await list("ann", { archived: "only" }), [["a2"], 1]);
    assert.deepEqual(await list("bob", { archived: "only" }), [[], 0]);
    assert.deepEqual(await list("ann", { archived: "exclude", projectDir: "/p", search: "a1" }), [["a1"], 1]);
    await driver.delete(["a1", "b2"]);
    assert.deepEqual(await list("ann"), [["a2", "s"], 2]);
    for (const [id, owner] of [
      ["e1", "ann"],
      ["e2", "bob"],
    ] as const)
      await driver.create({ session: aSession(id, { owner, updatedAt: at(1) }) });
    assert.deepEqual(await list("ann", { emptyBefore: at(2) }), [["e1"], 1]);
  },
  "users: the totals of a user follow each change of the folder, the archive and `shared`, and each delete": async ({
    driver,
  }) => {
    for (const [n, id] of ["a", "b"].entries())
      await driver.create({ session: aSession(id, { owner: "ann", projectDir: "/p", updatedAt: at(n) }) });
    const readTotals = async (visibleTo: string): Promise<number[]> => {
      const totals: number[] = [];
      for (const projectDir of ["/p", "/q"])
        for (const archived of ["include", "exclude", "only"] as const) {
          const [ids, total] = await listWithTotal(driver, { visibleTo, projectDir, archived });
          assert.equal(total, ids.length);
          assert.equal((await driver.list({ limit: 1, offset: 9, visibleTo, projectDir, archived })).total, total);
          totals.push(total);
        }
      return totals;
    };
    assert.deepEqual(await readTotals("ann"), [2, 2, 0, 0, 0, 0]);
    await driver.write("a", change({ set: { archived: true } }));
    assert.deepEqual(await readTotals("ann"), [2, 1, 1, 0, 0, 0]);
    await driver.write("a", change({ set: { projectDir: "/q", shared: true } }));
    assert.deepEqual(await readTotals("ann"), [1, 1, 0, 1, 0, 1]);
    assert.deepEqual(await readTotals("bob"), [0, 0, 0, 1, 0, 1]);
    await driver.write("a", change({ set: { archived: false, shared: false } }));
    assert.deepEqual(await readTotals("bob"), [0, 0, 0, 0, 0, 0]);
    await driver.delete(["b"]);
    assert.deepEqual(await readTotals("ann"), [0, 0, 0, 1, 1, 0]);
  },
  "users: sessions of subagents are visible by their own owner and flag": async ({ driver }) => {
    const spawnedBy = { sessionId: "a", runId: "r", callId: "c" };
    await driver.create({ session: aSession("a", { owner: "ann" }) });
    await driver.create({ session: aSession("c1", { owner: "ann", spawnedBy, updatedAt: at(1) }) });
    await driver.create({ session: aSession("c2", { owner: "bob", spawnedBy, updatedAt: at(2) }) });
    await driver.create({ session: aSession("c3", { shared: true, spawnedBy, updatedAt: at(3), archived: true }) });
    assert.deepEqual(await listWithTotal(driver, { visibleTo: "ann" }), [["a"], 1]);
    assert.deepEqual(await listWithTotal(driver, { visibleTo: "bob" }), [[], 0]);
    assert.deepEqual(await listWithTotal(driver, { visibleTo: "ann", spawnedBy: "a" }), [["c3", "c1"], 2]);
    assert.deepEqual(await listWithTotal(driver, { visibleTo: "bob", spawnedBy: "a", limit: 1 }), [["c3"], 2]);
    assert.deepEqual(await listWithTotal(driver, { visibleTo: "eve", spawnedBy: "a", archived: "exclude" }), [[], 0]);
  },
  "users: runs with `visibleTo` are those of visible sessions, in every form of the query": async ({ driver }) => {
    await createUserSessions(driver);
    const list = (user: string, query: Partial<RunQuery> = {}) => listRunIds(driver, { visibleTo: user, ...query });
    assert.equal((await listRunIds(driver, {})).length, 6);
    assert.deepEqual(await list("ann"), ["run-a2", "run-b2", "run-s", "run-a1"]);
    assert.deepEqual(await list("ann", { limit: 3 }), ["run-a2", "run-b2", "run-s"]);
    assert.deepEqual(await list("bob", { before: { startedAt: at(3), id: "run-b2" } }), ["run-s", "run-b1"]);
    assert.deepEqual(await list("eve", { states: ["running", "queued"] }), ["run-b2", "run-s"]);
    for (const [user, id, isVisible] of [
      ["ann", "a1", true],
      ["ann", "b1", false],
      ["ann", "b2", true],
      ["ann", "n", false],
    ] as const) {
      const expectedIds = isVisible ? [`run-${id}`] : [];
      assert.deepEqual(await list(user, { id: `run-${id}` }), expectedIds, `by id ${id}`);
      assert.deepEqual(await list(user, { idempotencyKey: `key-${id}` }), expectedIds, `by key ${id}`);
      assert.deepEqual(await list(user, { sessionId: id }), expectedIds, `by session ${id}`);
      const states = ["running"] as const;
      assert.deepEqual(await list(user, { sessionId: id, states }), expectedIds, `by session and state ${id}`);
    }
  },
  "users: runs with `startedBy` are those of this user in all sessions, with each other criterion": async ({
    driver,
  }) => {
    await createUserSessions(driver);
    const longName = "x".repeat(3000);
    const list = (startedBy: string, query: Partial<RunQuery> = {}) => listRunIds(driver, { startedBy, ...query });
    for (const [n, [id, sessionId, user]] of (
      [
        ["r1", "a1", "bob"],
        ["r2", "b1", "bob"],
        ["r3", "n", "bob"],
        ["r4", "b1", "ann"],
        ["r5", "b1", longName],
      ] as const
    ).entries())
      await driver.write(sessionId, change({ runs: [aRun(id, sessionId, { user, startedAt: at(10 + n) })] }));
    assert.deepEqual(await list("bob"), ["r3", "r2", "r1"]);
    assert.deepEqual(await list("bob", { limit: 1, before: { startedAt: at(12), id: "r3" } }), ["r2"]);
    assert.deepEqual(await list("bob", { visibleTo: "bob" }), ["r2"]);
    assert.deepEqual(await list("bob", { sessionId: "a1" }), ["r1"]);
    assert.deepEqual([await list("bob", { id: "r4" }), await list("bob", { id: "r3" })], [[], ["r3"]]);
    assert.deepEqual(await list("bob", { states: ["running"] }), ["r3", "r2", "r1"]);
    assert.deepEqual([await list(longName), await list("eve"), await list("")], [["r5"], [], []]);
  },
  "users: asks with `visibleTo` are those of visible sessions, in every form of the query": async ({ driver }) => {
    await createUserSessions(driver);
    const list = (user: string, query: Partial<AskQuery> = {}) => listAskIds(driver, { visibleTo: user, ...query });
    assert.equal((await listAskIds(driver, {})).length, 6);
    assert.deepEqual(await list("ann"), ["ask-a2", "ask-b2", "ask-s", "ask-a1"]);
    assert.deepEqual(await list("ann", { open: true, limit: 3 }), ["ask-a2", "ask-b2", "ask-s"]);
    assert.deepEqual(await list("bob", { before: { createdAt: at(3), id: "ask-b2" } }), ["ask-s", "ask-b1"]);
    for (const [id, isVisible] of [
      ["a1", true],
      ["b1", false],
      ["s", true],
      ["n", false],
    ] as const) {
      const expectedIds = isVisible ? [`ask-${id}`] : [];
      assert.deepEqual(await list("ann", { id: `ask-${id}` }), expectedIds, `by id ${id}`);
      assert.deepEqual(await list("ann", { sessionId: id, open: true }), expectedIds, `by session ${id}`);
    }
  },
  "users: a search with `visibleTo` finds messages of visible sessions, on every page": async ({ driver }) => {
    await createUserSessions(driver);
    await driver.create({
      session: aSession("b3", { chain: { root: "b1", index: 1 }, owner: "ann", shared: true, lastSeq: 1 }),
      messages: [aMessage("b3", 2)],
    });
    const find = async (user: string, query: Partial<MessageSearchQuery> = {}): Promise<string[]> => {
      const ids: string[] = [];
      let before: string | undefined;
      for (let pageCount = 0; pageCount < 50; pageCount++) {
        const page = await searchMessages(driver, {
          text: "text",
          limit: 9,
          visibleTo: user,
          ...query,
          ...(before !== undefined && { before }),
        });
        ids.push(...page.matches.map(({ messageId }) => messageId));
        if (page.next === undefined) break;
        before = page.next;
      }
      return ids.sort();
    };
    assert.deepEqual(await find("ann"), ["a1-1", "a2-1", "b2-1", "s-1"]);
    assert.deepEqual(await find("ann", { limit: 1 }), ["a1-1", "a2-1", "b2-1", "s-1"]);
    assert.deepEqual(await find("bob", { projectDir: "/p" }), ["b1-1", "b2-1", "b3-2"]);
    assert.deepEqual(await find("eve", { archived: "exclude" }), ["b2-1", "s-1"]);
    await driver.write("b3", change({ set: { shared: true } }));
    assert.deepEqual(await find("eve"), ["b1-1", "b2-1", "b3-2", "s-1"]);
    await driver.write("b2", change({ set: { shared: false } }));
    assert.deepEqual(await find("eve"), ["b1-1", "b3-2", "s-1"]);
  },
  "users: the first session of a chain decides, also after follow-ups and reverts; `shared` of any session changes it":
    async ({ driver }) => {
      const run = aRun("run", "a");
      await driver.create({ session: aSession("a", { owner: "ann" }), messages: [aMessage("a", 1)], run });
      await driver.write("a", change({ asks: [anAsk("ask", "a")] }));
      const chain = { root: "a", index: 1 };
      const followUp = aSession("f", { chain, owner: "bob", shared: true, lastSeq: 1 });
      await driver.create({ session: followUp, messages: [aMessage("f", 2)] });
      const readVisible = async (visibleTo: string): Promise<unknown> => [
        await listWithTotal(driver, { visibleTo }),
        await listRunIds(driver, { visibleTo, sessionId: "f" }),
        await listAskIds(driver, { visibleTo, sessionId: "f" }),
        await listRunIds(driver, { visibleTo }),
        await listAskIds(driver, { visibleTo }),
      ];
      const all = [[["a"], 1], ["run"], ["ask"], ["run"], ["ask"]];
      const none = [[[], 0], [], [], [], []];
      assert.deepEqual(await readVisible("ann"), all);
      assert.deepEqual(await readVisible("bob"), none, "a follow-up with another owner");
      await driver.write("f", change({ set: { shared: true } }));
      assert.deepEqual(await readVisible("bob"), all);
      const head = await driver.head("f");
      assert.deepEqual([head?.root.owner, head?.root.shared, head?.newest.id], ["ann", true, "f"]);
      await driver.write("a", change({ revert: { id: "snapshot", after: 0, createdAt: at(1) } }));
      assert.deepEqual(await readVisible("bob"), all);
      await driver.write("f", change({ set: { shared: false, title: "Private" } }));
      assert.deepEqual(await readVisible("bob"), none);
      await driver.write("a", change({ restore: "snapshot" }));
      assert.deepEqual(await readVisible("bob"), none);
      assert.deepEqual(await readVisible("ann"), all);
      const session = await driver.get("a");
      assert.deepEqual([session?.owner, session?.shared ?? false, session?.title], ["ann", false, "Private"]);
    },
  "users: owner and `shared` stay in a head, a dump and a load; a session without an owner has no field": async (
    store: StoreUnderTest,
  ) => {
    const owner = `Ünïcode "user" ${"long ".repeat(500)}`;
    await store.driver.create({ session: aSession("a", { owner, shared: true, alias: "alias" }) });
    await store.driver.create({ session: aSession("b", { owner: `${owner}2` }), run: aRun("run", "b") });
    await store.driver.write("b", change({ asks: [anAsk("ask", "b")] }));
    await store.driver.create({ session: aSession("n") });
    await store.driver.write("a", change({ set: { title: "New" }, usage: aSession("a").usage }));
    const driver = await store.reopen();
    const session = aSession("a", { owner, shared: true, alias: "alias", title: "New" });
    assert.deepEqual(await driver.get("alias"), session);
    assert.deepEqual((await driver.head("a"))?.root, session);
    const stored = await driver.get("n");
    assert.deepEqual(stored, aSession("n"));
    assert.equal(stored !== undefined && "owner" in stored, false);
    for (const id of ["a", "b", "n"]) {
      const data = await driver.dump(id);
      assert.ok(data, "the dump of the session");
      const before = await driver.get(id);
      assert.deepEqual(data.sessions[0]?.session, before);
      await driver.delete([id]);
      await driver.load(data);
      assert.deepEqual(await driver.get(id), before);
    }
    assert.deepEqual(await listWithTotal(driver, { visibleTo: owner }), [["a"], 1]);
    assert.deepEqual(await listWithTotal(driver, { visibleTo: `${owner}2` }), [["b", "a"], 2]);
    for (const [visibleTo, ids] of [
      [owner, []],
      [`${owner}2`, ["run", "ask"]],
    ] as const)
      assert.deepEqual(
        [...(await listRunIds(driver, { visibleTo })), ...(await listAskIds(driver, { visibleTo }))],
        ids,
      );
    await driver.write("a", change({ set: { shared: false } }));
    assert.deepEqual(await listWithTotal(driver, { visibleTo: `${owner}2` }), [["b"], 1]);
  },
  "users: a list sees each change of `shared` by another driver": async (store) => {
    const { driver } = store;
    const second = await store.getSecond();
    await driver.create({ session: aSession("a", { owner: "ann" }) });
    for (let n = 0; n < 5; n++)
      for (const shared of [true, false]) {
        await second.write("a", change({ set: { shared } }));
        assert.deepEqual(await listWithTotal(driver, { visibleTo: "bob" }), shared ? [["a"], 1] : [[], 0]);
      }
  },
};

/** The rules of drivers that separate users. Other drivers need no rule: an agent does not act for a user with them. */
export const separationRules: StoreRules = Object.fromEntries(
  Object.entries(userRules).map(([name, body]) => [
    name,
    async (store: StoreUnderTest): Promise<void> => {
      if (store.driver.separatesUsers) await body(store);
    },
  ]),
);
