import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import Sqlite from "better-sqlite3";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { retain, prepare } from "../../../adapters/sqlite-driver/retained-objects.js";
import { aMessage, aSession, someMessages } from "../../../src/testing/session-driver/records.js";

const MESSAGE_COUNT = 400;

describe("the search of SqliteDriver", () => {
  let folder = "";
  let path = "";
  let driver: SqliteDriver;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "gantry-sqlite-"));
    path = join(folder, "sessions.db");
    driver = new SqliteDriver({ path });
    await driver.open();
  });
  afterEach(async () => {
    await driver.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** Names of the tables and triggers of the index. */
  function listIndexParts(): string[] {
    const db = retain(new Sqlite(path, { readonly: true }));
    try {
      const sql =
        "SELECT name FROM sqlite_schema WHERE name LIKE 'search%' AND type IN ('table', 'trigger') ORDER BY 1";
      return prepare(db, sql).pluck().all() as string[];
    } finally {
      db.close();
    }
  }

  it("creates the index with the first search", async () => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 3) });
    assert.deepEqual(listIndexParts(), []);
    assert.equal((await driver.searchMessages({ text: "text", limit: 9 })).matches.length, 3);
    assert.ok(listIndexParts().includes("search_v1"), listIndexParts().join());
  });

  it("removes the words of deleted messages from the file with later searches", async () => {
    const secret = aMessage("b", 1, { parts: [{ type: "text", text: "zqxsecret" }] });
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, MESSAGE_COUNT) });
    await driver.create({ session: aSession("b"), messages: [secret] });
    assert.equal((await driver.searchMessages({ text: "zqxsecret", limit: 9 })).matches.length, 1);
    await driver.delete(["b"]);
    for (let search = 0; search < 3; search++)
      assert.deepEqual((await driver.searchMessages({ text: "zqxsecret", limit: 9 })).matches, []);
    await driver.close();
    assert.ok(!(await readFile(path)).includes("qxsecret"));
  });

  it("returns the newest matches first, page by page, while the index is incomplete", async (t) => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, MESSAGE_COUNT) });
    // Each step of the index seems to take longer than a call may take.
    let nowMs = Date.now();
    t.mock.method(Date, "now", () => (nowMs += 10_000));
    const seqs: number[] = [];
    let incompletePageCount = 0;
    for (let before: string | undefined; ;) {
      const page = await driver.searchMessages({ text: "text", limit: 1000, ...(before !== undefined && { before }) });
      seqs.push(...page.matches.map(({ seq }) => seq));
      if (page.isIncomplete) incompletePageCount++;
      before = page.next;
      if (before === undefined) break;
    }
    assert.ok(incompletePageCount > 1, `${incompletePageCount} incomplete pages`);
    assert.deepEqual(
      seqs,
      Array.from({ length: MESSAGE_COUNT }, (_, n) => MESSAGE_COUNT - n),
    );
  });

  it("stops when the signal aborts, and keeps the progress", async () => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, MESSAGE_COUNT) });
    const controller = new AbortController();
    const search = driver.searchMessages({ text: "text", limit: 9, signal: controller.signal });
    controller.abort(new Error("client disconnected"));
    await assert.rejects(search, /client disconnected/);
    assert.ok(listIndexParts().includes("search_v1"));
    assert.equal((await driver.searchMessages({ text: "text", limit: 1000 })).matches.length, MESSAGE_COUNT);
  });

  it("continues after messages of the start of the index were deleted meanwhile", async (t) => {
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, MESSAGE_COUNT) });
    await driver.create({ session: aSession("b"), messages: someMessages("b", 1, MESSAGE_COUNT) });
    let nowMs = Date.now();
    const clock = t.mock.method(Date, "now", () => (nowMs += 10_000));
    assert.ok((await driver.searchMessages({ text: "text", limit: 1 })).isIncomplete === false);
    await driver.delete(["b"]);
    await driver.create({ session: aSession("c"), messages: someMessages("c", 1, 10) });
    clock.mock.restore();
    const { matches } = await driver.searchMessages({ text: "text", limit: 1000 });
    assert.equal(matches.length, MESSAGE_COUNT + 10);
  });
});
