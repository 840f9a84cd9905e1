import assert from "node:assert/strict";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { SessionQuery } from "../../ports/session-queries.js";
import { listIds } from "./driver-calls.js";
import { aMessage, aSession, at, change } from "./records.js";
import type { StoreRules } from "./store-under-test.js";

export const listRules: StoreRules = {
  "list: sorted by updatedAt, newest first, then by id, greatest first": async ({ driver }) => {
    await driver.create({ session: aSession("b", { updatedAt: at(5) }) });
    await driver.create({ session: aSession("d", { updatedAt: at(1) }) });
    await driver.create({ session: aSession("c", { updatedAt: at(5) }) });
    await driver.create({ session: aSession("a", { updatedAt: at(9) }) });
    assert.deepEqual(await listIds(driver), ["a", "c", "b", "d"]);
  },
  "list: follow-ups are neither listed nor counted": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 }, updatedAt: at(9) }) });
    const page = await driver.list({ limit: 9 });
    assert.deepEqual([page.sessions.map((session) => session.id), page.total], [["a"], 1]);
  },
  "list: `projectDir` matches the exact folder, and total counts only its sessions": async ({ driver }) => {
    await driver.create({ session: aSession("a", { projectDir: "/p" }) });
    await driver.create({ session: aSession("b", { projectDir: "/p/q" }) });
    await driver.create({ session: aSession("c", { projectDir: "/P" }) });
    await driver.create({ session: aSession("d", { projectDir: "/p" }) });
    assert.deepEqual(await listIds(driver, { projectDir: "/p" }), ["d", "a"]);
    assert.equal((await driver.list({ projectDir: "/p", limit: 1 })).total, 2);
    assert.deepEqual(await driver.list({ projectDir: "/none", limit: 9 }), { sessions: [], total: 0 });
  },
  "list: search matches a literal part of the title and ignores case": async ({ driver }) => {
    await driver.create({ session: aSession("a", { title: "Fix the Parser" }) });
    await driver.create({ session: aSession("b", { title: "100%_done" }) });
    await driver.create({ session: aSession("c", { title: "1000 done", projectDir: "/other" }) });
    const listMatching = async (search: string, query: Partial<SessionQuery> = {}): Promise<[string[], number]> => {
      const page = await driver.list({ limit: 9, search, ...query });
      return [page.sessions.map((session) => session.id), page.total];
    };
    assert.deepEqual(await listMatching("pArSeR"), [["a"], 1]);
    assert.deepEqual(await listMatching("fix the"), [["a"], 1]);
    assert.deepEqual(await listMatching("%"), [["b"], 1]);
    assert.deepEqual(await listMatching("_"), [["b"], 1]);
    assert.deepEqual(await listMatching("done"), [["c", "b"], 2]);
    assert.deepEqual(await listMatching("done", { limit: 1 }), [["c"], 2]);
    assert.deepEqual(await listMatching("done", { projectDir: "/other" }), [["c"], 1]);
    assert.deepEqual(await listMatching(""), [["c", "b", "a"], 3]);
    await driver.create({ session: aSession("d", { title: "Été à Москва" }) });
    assert.deepEqual(await listMatching("éTÉ"), [["d"], 1]);
    assert.deepEqual(await listMatching("мОСК"), [["d"], 1]);
    assert.deepEqual(await listMatching("ete"), [[], 0]);
    assert.deepEqual(await listMatching("'; DROP TABLE sessions; --"), [[], 0]);
  },
  "list: emptyBefore finds older sessions that never had a message": async ({ driver }) => {
    await driver.create({ session: aSession("old", { updatedAt: at(1) }) });
    await driver.create({
      session: aSession("with-message", { updatedAt: at(1) }),
      messages: [aMessage("with-message", 1)],
    });
    await driver.create({ session: aSession("later", { updatedAt: at(2) }) });
    await driver.create({ session: aSession("edge", { updatedAt: at(5) }) });
    await driver.write("later", change({ add: [aMessage("later", 1)] }));
    const page = await driver.list({ emptyBefore: at(5), limit: 9 });
    assert.deepEqual([page.sessions.map((session) => session.id), page.total], [["old"], 1]);
  },
  "list: emptyBefore does not find a session that a revert emptied": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    await driver.write("a", change({ revert: { id: "s", after: 0, createdAt: at(1) } }));
    assert.deepEqual(await listIds(driver, { emptyBefore: at(99) }), []);
  },
  "list: pages by offset contain every session once; total counts all": async ({ driver }) => {
    for (let n = 0; n < 7; n++)
      await driver.create({ session: aSession(`s${n}`, { updatedAt: at(Math.floor(n / 3)) }) });
    const listedIds: string[] = [];
    for (let offset = 0; offset < 9; offset += 3) {
      const page = await driver.list({ limit: 3, offset });
      assert.equal(page.total, 7);
      listedIds.push(...page.sessions.map((session) => session.id));
    }
    assert.deepEqual(listedIds, ["s6", "s5", "s4", "s3", "s2", "s1", "s0"]);
    assert.deepEqual(await driver.list({ limit: 3, offset: 99 }), { sessions: [], total: 7 });
  },
  "list: pages that continue after an entry contain every session once; total counts all": async ({ driver }) => {
    for (let n = 0; n < 7; n++) {
      const projectDir = n === 6 ? "/other" : "/projects/one";
      await driver.create({ session: aSession(`s${n}`, { updatedAt: at(Math.floor(n / 3)), projectDir }) });
    }
    const listedIds: string[] = [];
    let before: SessionQuery["before"];
    for (;;) {
      const page = await driver.list({ projectDir: "/projects/one", limit: 2, before });
      assert.equal(page.total, 6);
      const lastSession = page.sessions.at(-1);
      if (!lastSession) break;
      listedIds.push(...page.sessions.map((session) => session.id));
      before = { updatedAt: lastSession.updatedAt, id: lastSession.id };
    }
    assert.deepEqual(listedIds, ["s5", "s4", "s3", "s2", "s1", "s0"]);
    assert.deepEqual(await listIds(driver, { before: { updatedAt: at(1), id: "none" } }), ["s2", "s1", "s0"]);
  },
  "list: a new updatedAt moves a session in the order, and a new folder moves it to that total": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    await driver.create({ session: aSession("b") });
    await driver.write("a", change({ set: { updatedAt: at(3), projectDir: "/new" } }));
    assert.deepEqual(await listIds(driver), ["a", "b"]);
    assert.equal((await driver.list({ projectDir: "/new", limit: 0 })).total, 1);
    assert.equal((await driver.list({ projectDir: "/projects/one", limit: 0 })).total, 1);
    assert.equal((await driver.list({ limit: 0 })).total, 2);
  },
  "list: total is correct after creates, rejected creates and deletes, also after a reopen": async (store) => {
    const { driver } = store;
    for (const id of ["a", "b", "c"]) await driver.create({ session: aSession(id) });
    await driver.create({ session: aSession("a") }).catch(() => undefined);
    await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }) });
    await driver.delete(["a1", "b", "b"]);
    assert.equal((await driver.list({ limit: 9 })).total, 1);
    const reopenedDriver = await store.reopen();
    assert.equal((await reopenedDriver.list({ limit: 9 })).total, 1);
    assert.equal((await reopenedDriver.list({ limit: 9, projectDir: "/projects/one" })).total, 1);
  },
  "list: a subagent session is listed and counted only in queries for its parent": async (store) => {
    const { driver } = store;
    const spawnedBy = { sessionId: "a", runId: "r1", callId: "c1" };
    await driver.create({ session: aSession("a") });
    await driver.create({ session: aSession("b", { spawnedBy, updatedAt: at(2), title: "Bee" }) });
    await driver.create({ session: aSession("c", { spawnedBy, updatedAt: at(1), projectDir: "/other" }) });
    await driver.create({ session: aSession("d", { spawnedBy: { ...spawnedBy, sessionId: "b" } }) });
    await driver.create({ session: aSession("b1", { spawnedBy, chain: { root: "b", index: 1 }, updatedAt: at(9) }) });
    const readTotals = async (listingDriver: SessionDriver) => {
      const pages = [{}, { projectDir: "/projects/one" }, { projectDir: "/other" }, { search: "title" }];
      return Promise.all(pages.map(async (query) => (await listingDriver.list({ limit: 9, ...query })).total));
    };
    assert.deepEqual(await listIds(driver), ["a"]);
    assert.deepEqual(await listIds(driver, { emptyBefore: at(99) }), ["a"]);
    assert.deepEqual(await readTotals(driver), [1, 1, 0, 1]);
    const listWithTotal = async (query: Partial<SessionQuery>): Promise<[string[], number]> => {
      const page = await driver.list({ limit: 9, ...query });
      return [page.sessions.map(({ id }) => id), page.total];
    };
    assert.deepEqual(await listWithTotal({ spawnedBy: "a" }), [["b", "c"], 2]);
    assert.deepEqual(await listWithTotal({ spawnedBy: "a", limit: 1 }), [["b"], 2]);
    assert.deepEqual(await listWithTotal({ spawnedBy: "a", before: { updatedAt: at(2), id: "b" } }), [["c"], 2]);
    assert.deepEqual(await listWithTotal({ spawnedBy: "a", projectDir: "/other" }), [["c"], 1]);
    assert.deepEqual(await listWithTotal({ spawnedBy: "a", search: "bee" }), [["b"], 1]);
    assert.deepEqual(await listWithTotal({ spawnedBy: "b" }), [["d"], 1]);
    assert.deepEqual(await listWithTotal({ spawnedBy: "none" }), [[], 0]);
    await driver.write("c", change({ set: { projectDir: "/projects/one" } }));
    assert.deepEqual(await readTotals(driver), [1, 1, 0, 1]);
    const reopenedDriver = await store.reopen();
    assert.deepEqual((await reopenedDriver.get("b"))?.spawnedBy, spawnedBy);
    assert.equal((await reopenedDriver.get("a"))?.spawnedBy, null);
    await reopenedDriver.delete(["b"]);
    assert.deepEqual(await listIds(reopenedDriver, { spawnedBy: "a" }), ["c"]);
    assert.deepEqual(await readTotals(reopenedDriver), [1, 1, 0, 1]);
  },
  "list: `archived` excludes, includes or selects archived sessions, and the totals agree": async (store) => {
    const listWithTotal = async (query: Partial<SessionQuery>): Promise<[string[], number]> => {
      const page = await store.driver.list({ limit: 9, ...query });
      return [page.sessions.map(({ id }) => id), page.total];
    };
    const spawnedBy = { sessionId: "d", runId: "r", callId: "c" };
    await store.driver.create({ session: aSession("a") });
    await store.driver.create({ session: aSession("b", { projectDir: "/other", archived: true }) });
    await store.driver.create({ session: aSession("c", { updatedAt: at(2) }) });
    await store.driver.create({ session: aSession("c1", { chain: { root: "c", index: 1 }, updatedAt: at(9) }) });
    await store.driver.create({ session: aSession("d", { projectDir: "/other", updatedAt: at(3) }) });
    await store.driver.create({ session: aSession("e", { spawnedBy, archived: true }) });
    await store.driver.write("c1", change({ set: { archived: true } }));
    for (const archived of [undefined, "include"] as const)
      assert.deepEqual(await listWithTotal({ archived }), [["d", "c", "b", "a"], 4]);
    await store.reopen();
    assert.deepEqual(await listWithTotal({ archived: "exclude" }), [["d", "a"], 2]);
    assert.deepEqual(await listWithTotal({ archived: "only" }), [["c", "b"], 2]);
    assert.deepEqual(await listWithTotal({ archived: "only", limit: 1, offset: 1 }), [["b"], 2]);
    assert.deepEqual(await listWithTotal({ archived: "only", before: { updatedAt: at(2), id: "c" } }), [["b"], 2]);
    assert.deepEqual(await listWithTotal({ archived: "exclude", limit: 1 }), [["d"], 2]);
    assert.deepEqual(await listWithTotal({ archived: "exclude", before: { updatedAt: at(3), id: "d" } }), [["a"], 2]);
    assert.deepEqual(await listWithTotal({ archived: "exclude", projectDir: "/other" }), [["d"], 1]);
    assert.deepEqual(await listWithTotal({ archived: "only", projectDir: "/other" }), [["b"], 1]);
    assert.deepEqual(await listWithTotal({ archived: "exclude", search: "title of" }), [["d", "a"], 2]);
    assert.deepEqual(await listWithTotal({ archived: "only", search: "title of c" }), [["c"], 1]);
    assert.deepEqual(await listWithTotal({ archived: "only", emptyBefore: at(1) }), [["b"], 1]);
    assert.deepEqual(await listWithTotal({ archived: "only", spawnedBy: "d" }), [["e"], 1]);
    assert.deepEqual(await listWithTotal({ archived: "exclude", spawnedBy: "d" }), [[], 0]);
    await store.driver.write("b", change({ set: { archived: false, title: "Back" } }));
    assert.equal((await store.driver.get("b"))?.archived ?? false, false);
    await store.driver.delete(["c"]);
    assert.deepEqual(await listWithTotal({ archived: "exclude" }), [["d", "b", "a"], 3]);
    assert.deepEqual(await listWithTotal({ archived: "only" }), [[], 0]);
  },
  "archived: the flag stays in heads, in a dump and in a load; a session without it is not archived": async (store) => {
    const { driver } = store;
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    await driver.create({ session: aSession("b") });
    await driver.write("a", change({ set: { archived: true } }));
    assert.equal((await driver.head("a"))?.root.archived, true);
    assert.deepEqual(await driver.get("b"), aSession("b"));
    const data = await driver.dump("a");
    assert.ok(data, "the dump of the session");
    await driver.delete(["a"]);
    await driver.load(data);
    assert.deepEqual(await driver.get("a"), aSession("a", { lastSeq: 1, archived: true }));
    assert.deepEqual(await listIds(driver, { archived: "exclude" }), ["b"]);
    assert.equal((await driver.list({ limit: 9, archived: "exclude" })).total, 1);
  },
  "load: a subagent session is listed only in queries for its parent": async (store) => {
    const { driver } = store;
    const spawnedBy = { sessionId: "elsewhere", runId: "r", callId: "c" };
    await driver.create({ session: aSession("b", { spawnedBy }), messages: [aMessage("b", 1)] });
    const data = await driver.dump("b");
    assert.ok(data, "the dump of the session");
    await driver.delete(["b"]);
    await driver.load(data);
    assert.deepEqual((await driver.get("b"))?.spawnedBy, spawnedBy);
    assert.deepEqual(await driver.list({ limit: 9 }), { sessions: [], total: 0 });
    assert.deepEqual(await listIds(driver, { spawnedBy: "elsewhere" }), ["b"]);
  },
};
