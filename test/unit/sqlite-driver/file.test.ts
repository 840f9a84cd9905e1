import assert from "node:assert/strict";
import { mkdir, mkdtemp, open, readFile, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import Sqlite from "better-sqlite3";
import { retain, prepare, readPragma, setPragma } from "../../../adapters/sqlite-driver/retained-objects.js";
import { hasCode } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION } from "../../../adapters/sqlite-driver/schema.js";
import {
  buildMessagesStatement,
  buildRunsStatement,
  UNFINISHED_RUNS_SQL,
} from "../../../adapters/sqlite-driver/reads.js";
import { buildAsksStatement } from "../../../adapters/sqlite-driver/asks.js";
import { buildListStatement } from "../../../adapters/sqlite-driver/session-list.js";
import { acquireLease, findRun } from "../../../src/testing/session-driver/driver-calls.js";
import {
  aGrowingMessage,
  aHolder,
  aMessage,
  aRun,
  aSession,
  change,
  joinParts,
  someMessages,
} from "../../../src/testing/session-driver/records.js";
import { waitUntil } from "../../helpers/server-runs.js";

describe("the file of SqliteDriver", () => {
  let folder = "";
  let path = "";
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "gantry-sqlite-"));
    path = join(folder, "home", "sessions.db");
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  async function openDriver(options: { maxPages?: number } = {}): Promise<SqliteDriver> {
    const driver = new SqliteDriver({ path, ...options });
    await driver.open();
    return driver;
  }

  /** Asserts that the file is rejected with this reason and that its bytes stay unchanged. */
  async function assertRejected(reason: RegExp): Promise<void> {
    const bytesBefore = await readFile(path);
    const driver = new SqliteDriver({ path });
    await assert.rejects(driver.open(), (error) => hasCode(error, "store") && reason.test(error.message));
    await driver.close();
    assert.deepEqual(await readFile(path), bytesBefore);
  }

  it("has mode 600, with its log files, in a folder of mode 700, under umask 0", async () => {
    const previousUmask = process.umask(0);
    try {
      const driver = await openDriver();
      await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
      const files = await readdir(join(folder, "home"));
      assert.deepEqual(files.sort(), ["sessions.db", "sessions.db-shm", "sessions.db-wal"]);
      for (const file of files) assert.equal((await stat(join(folder, "home", file))).mode & 0o777, 0o600, file);
      assert.equal((await stat(join(folder, "home"))).mode & 0o777, 0o700);
      await driver.close();
      assert.deepEqual(await readdir(join(folder, "home")), ["sessions.db"], "close() merges the log into the file");
    } finally {
      process.umask(previousUmask);
    }
  });

  it("gets mode 600 when it is opened with mode 644", async () => {
    await (await openDriver()).close();
    const handle = await open(path);
    await handle.chmod(0o644);
    await handle.close();
    await (await openDriver()).close();
    assert.equal((await stat(path)).mode & 0o777, 0o600);
  });

  it("is rejected unchanged if a newer version wrote it", async () => {
    await (await openDriver()).close();
    const db = retain(new Sqlite(path));
    setPragma(db, `user_version = ${SCHEMA_VERSION + 1}`);
    db.close();
    await assertRejected(/newer gantry/);
  });

  it("is rejected if its newer version is only in the write-ahead log", async () => {
    const driver = await openDriver();
    await driver.close();
    const db = retain(new Sqlite(path));
    setPragma(db, `user_version = ${SCHEMA_VERSION + 1}`);
    const secondDriver = new SqliteDriver({ path });
    await assert.rejects(secondDriver.open(), (error) => hasCode(error, "store") && /newer gantry/.test(error.message));
    db.close();
  });

  it("is migrated from version 5: its sessions have no owner, and can be shared", async () => {
    await mkdir(join(folder, "home"));
    const oldDb = retain(new Sqlite(path));
    oldDb.exec(MIGRATIONS.slice(0, 5).join(""));
    setPragma(oldDb, `application_id = ${APPLICATION_ID}`);
    setPragma(oldDb, "user_version = 5");
    const session = aSession("a", { title: "Old", archived: true });
    const { id, title, projectDir, createdAt, updatedAt } = session;
    prepare(
      oldDb,
      `INSERT INTO sessions VALUES (1, ?, '', ?, 0, 'lab', 'm1', 'low', ?, '', ?, 0, 0, ?, ?, 0, 0, 0, 0, '', 'auto', '[]',
        '[]', NULL, NULL, NULL, 1)`,
    ).run(id, title, projectDir, id, createdAt, updatedAt);
    oldDb.close();
    const driver = await openDriver();
    assert.deepEqual(await driver.get("a"), session);
    const list = async (visibleTo: string) => {
      const { sessions, total } = await driver.list({ limit: 9, visibleTo });
      return [sessions.map((session) => session.id), total];
    };
    assert.deepEqual(await list("ann"), [[], 0]);
    await driver.create({ session: aSession("b", { owner: "ann" }) });
    await driver.write("a", change({ set: { shared: true } }));
    assert.deepEqual(await driver.get("a"), { ...session, shared: true });
    assert.deepEqual(await list("ann"), [["b", "a"], 2]);
    assert.deepEqual(await list("bob"), [["a"], 1]);
    assert.equal((await driver.list({ limit: 1 })).total, 2);
    await driver.close();
  });

  it("is migrated from version 1 with all its data, and can then store runs", async () => {
    await mkdir(join(folder, "home"));
    const oldDb = retain(new Sqlite(path));
    oldDb.exec(MIGRATIONS[0] ?? "");
    setPragma(oldDb, `application_id = ${APPLICATION_ID}`);
    setPragma(oldDb, "user_version = 1");
    const session = aSession("a", { alias: "x", title: "Old", lastSeq: 2 });
    const { id, alias, title, projectDir, createdAt, updatedAt } = session;
    prepare(
      oldDb,
      "INSERT INTO sessions VALUES (1, ?, ?, ?, 0, 'lab', 'm1', 'low', ?, '', ?, 0, 2, ?, ?, 0, 0, 0, 0, '')",
    ).run(id, alias, title, projectDir, id, createdAt, updatedAt);
    const messages = [aMessage("a", 1), aGrowingMessage("a", 2)];
    for (const { seq, finished, id, role, createdAt, parts } of messages)
      prepare(oldDb, "INSERT INTO messages VALUES (?, 1, 1, ?, '', ?, ?, ?, '', '', 0, ?, ?)").run(
        seq,
        seq,
        Number(finished),
        id,
        role,
        createdAt,
        JSON.stringify(parts),
      );
    // In version 1, part numbers have gaps if an answer has a part without text.
    for (const [part, type, text] of [
      [1, "reasoning", "h"],
      [1, "reasoning", "m"],
      [3, "text", "so "],
      [3, "text", "far"],
    ] as const)
      prepare(oldDb, "INSERT INTO pieces (message, part, type, text) VALUES (2, ?, ?, ?)").run(
        part,
        type,
        JSON.stringify(text),
      );
    prepare(oldDb, "INSERT INTO leases VALUES ('a', 7, 'h', ?, 0)").run(JSON.stringify(aHolder("h")));
    oldDb.exec("UPDATE fence SET last = 7");
    oldDb.close();

    const driver = await openDriver();
    assert.deepEqual(await driver.get("x"), session);
    assert.deepEqual((await driver.messages("a")).map(joinParts), ["text 1", "hm|so far"]);
    assert.equal((await driver.list({ limit: 1 })).total, 1);
    const lease = await acquireLease(driver, "a", "h2");
    assert.equal(lease.fence, 8, "fences continue");
    const run = aRun("r1", "a", { idempotencyKey: "k" });
    await driver.write("a", change({ add: [aMessage("a", 3)], runs: [run], fence: lease.fence }));
    assert.deepEqual(await findRun(driver, "r1"), { run, holder: aHolder("h2") });
    await driver.close();
    const db = retain(new Sqlite(path));
    assert.equal(readPragma(db, "user_version"), SCHEMA_VERSION);
    assert.equal(readPragma(db, "integrity_check"), "ok");
    db.close();
  });

  it("is rejected unchanged if another program created it", async () => {
    await (await openDriver()).close();
    await rm(path);
    const db = retain(new Sqlite(path));
    db.exec("CREATE TABLE bookmarks (url TEXT)");
    db.close();
    await assertRejected(/another program/);
  });

  it("is rejected unchanged if it is not a database", async () => {
    await (await openDriver()).close();
    await writeFile(path, "these are my notes, not sessions. ".repeat(40));
    await assertRejected(/damaged or not a database/);
    await writeFile(path, "short");
    await assertRejected(/damaged or not a database/);
  });

  it("is rejected with a store error and left unchanged if it is damaged", async () => {
    const driver = await openDriver();
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 200) });
    await driver.close();
    const fullFile = await readFile(path);
    const truncatedFile = Buffer.from(fullFile.subarray(0, 100));
    await writeFile(path, truncatedFile);
    await assertRejected(/./);
    const damagedFile = Buffer.from(fullFile);
    damagedFile.fill(0x5a, 4096);
    await writeFile(path, damagedFile);
    const secondDriver = new SqliteDriver({ path });
    const openAndRead = async (): Promise<void> => {
      await secondDriver.open();
      await secondDriver.messages("a");
    };
    await assert.rejects(openAndRead(), (error) => hasCode(error, "store") && error.message.includes("damaged"));
    await secondDriver.close();
    assert.equal(Buffer.compare(await readFile(path), damagedFile), 0);
  });

  it("is named in the error if it cannot be created", async () => {
    await writeFile(join(folder, "home"), "a file where a folder should be");
    const driver = new SqliteDriver({ path });
    await assert.rejects(driver.open(), (error) => hasCode(error, "store") && error.message.includes(path));
    await driver.close();
  });

  it("rejects only the write that exceeds the page limit, and accepts that write without the limit", async () => {
    const driver = await openDriver({ maxPages: 60 });
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1), aGrowingMessage("a", 2)] });
    await driver.create({ session: aSession("b"), messages: someMessages("b", 1, 40) });
    const largeMessage = aMessage("a", 3, { parts: [{ type: "text", text: "x".repeat(500_000) }] });
    const storedData = [await driver.get("a"), await driver.messages("a")];
    const results = await Promise.allSettled([
      driver.write("b", change({ set: { title: "fits" } })),
      driver.write("a", change({ add: [largeMessage], set: { title: "half" }, sync: true })),
      driver.write("b", change({ set: { model: "fits too" } })),
    ]);
    assert.deepEqual(
      results.map((result) => result.status),
      ["fulfilled", "rejected", "fulfilled"],
    );
    const [, rejection] = results;
    assert.ok(rejection?.status === "rejected" && hasCode(rejection.reason, "store"));
    assert.match(rejection.reason.message, /no space left/);
    assert.deepEqual([await driver.get("a"), await driver.messages("a")], storedData);
    assert.deepEqual([(await driver.get("b"))?.title, (await driver.get("b"))?.model], ["fits", "fits too"]);
    await driver.close();

    const unlimitedDriver = await openDriver();
    await unlimitedDriver.write("a", change({ add: [largeMessage], set: { title: "whole" } }));
    assert.equal((await unlimitedDriver.get("a"))?.title, "whole");
    await unlimitedDriver.close();
  });

  it("contains no text of a deleted session", async () => {
    const driver = await openDriver();
    const secret = "correct horse battery staple";
    const parts = [{ type: "text" as const, text: `${secret} `.repeat(400) }];
    await driver.create({
      session: aSession("a", { title: secret }),
      messages: [aMessage("a", 1, { parts }), aGrowingMessage("a", 2)],
    });
    await driver.write("a", change({ append: [{ messageId: "a-2", part: 0, type: "text", text: secret }] }));
    await driver.delete(["a"]);
    await driver.close();
    assert.equal((await readFile(path)).includes(secret), false);
  });

  it("the write-ahead log is emptied automatically while the driver is idle", async () => {
    const driver = await openDriver();
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 300) });
    const readLogBytes = async (): Promise<number> => (await stat(`${path}-wal`)).size;
    assert.ok((await readLogBytes()) > 0);
    await waitUntil(async () => (await readLogBytes()) === 0);
    await driver.close();
  });

  it("the adapter calls prepare and pragma only in retained-objects.ts", async () => {
    const adapterFolder = new URL("../../../adapters/sqlite-driver/", import.meta.url);
    for (const name of await readdir(adapterFolder)) {
      const text = await readFile(new URL(name, adapterFolder), "utf8");
      if (name !== "retained-objects.ts")
        assert.doesNotMatch(text, /\.(prepare|pragma)\(/, `${name} calls prepare or pragma directly`);
    }
  });

  it("can be opened twice at the same time, by two drivers, and again after close", async () => {
    const driver = new SqliteDriver({ path });
    await Promise.all([driver.open(), driver.open()]);
    await driver.open();
    await driver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
    const secondDriver = await openDriver();
    await secondDriver.write("a", change({ append: [{ messageId: "a-1", part: 0, type: "text", text: "x" }] }));
    await driver.close();
    await driver.open();
    assert.equal(joinParts((await driver.messages("a"))[0]), "x");
    await Promise.all([driver.close(), secondDriver.close()]);
  });

  it("has the application id, the schema version and journal mode WAL", async () => {
    await (await openDriver()).close();
    const db = retain(new Sqlite(path));
    assert.equal(readPragma(db, "application_id"), APPLICATION_ID);
    assert.equal(readPragma(db, "user_version"), SCHEMA_VERSION);
    assert.equal(readPragma(db, "journal_mode"), "wal");
    db.close();
  });

  it("the queries for lists, pages and lookups use an index and do not sort", async () => {
    await (await openDriver()).close();
    const db = retain(new Sqlite(path));
    const explainQuery = (sql: string): string => {
      const values = Array.from({ length: (sql.match(/\?/g) ?? []).length }, () => 1);
      const steps = prepare(db, `EXPLAIN QUERY PLAN ${sql}`).all(...values) as { detail: string }[];
      return steps.map((step) => step.detail).join("; ");
    };
    const queries = [
      buildListStatement({ limit: 1 }).pageSql,
      buildListStatement({ limit: 1, before: { updatedAt: "", id: "" } }).pageSql,
      buildListStatement({ limit: 1, projectDir: "/" }).pageSql,
      buildListStatement({ limit: 1, projectDir: "/", before: { updatedAt: "", id: "" } }).pageSql,
      buildListStatement({ limit: 1, archived: "exclude" }).pageSql,
      buildListStatement({ limit: 1, archived: "exclude", projectDir: "/" }).pageSql,
      buildListStatement({ limit: 1, archived: "only" }).countSql,
      buildListStatement({ limit: 1, archived: "only", projectDir: "/" }).countSql,
      ...[{}, { projectDir: "/" }, { archived: "only" as const }, { before: { updatedAt: "", id: "" } }].flatMap(
        (query) => {
          const { pageSql, countSql } = buildListStatement({ limit: 1, visibleTo: "ann", ...query });
          return [pageSql, countSql];
        },
      ),
      buildListStatement({ limit: 1, visibleTo: "ann", spawnedBy: "a" }).pageSql,
      buildListStatement({ limit: 1, emptyBefore: "" }).pageSql,
      buildListStatement({ limit: 1, emptyBefore: "" }).countSql,
      ...(["session", "chain"] as const).flatMap((scope) => [
        buildMessagesStatement({ scope }).sql,
        buildMessagesStatement({ scope, after: 1, limit: 1 }).sql,
        buildMessagesStatement({ scope, before: 1, limit: 1 }).sql,
      ]),
      ...[
        {},
        { before: { startedAt: "", id: "" } },
        { visibleTo: "ann" },
        { sessionId: "a" },
        { sessionId: "a", before: { startedAt: "", id: "" } },
      ].flatMap((query) =>
        [undefined, "running" as const].map((state) => buildRunsStatement({ limit: 1, ...query }, state).sql),
      ),
      buildAsksStatement({ limit: 1 }).sql,
      "SELECT * FROM sessions WHERE root = (SELECT root FROM sessions WHERE id = ?) AND cut = '' ORDER BY idx DESC LIMIT 1",
      "SELECT * FROM sessions WHERE alias = ? AND alias <> ''",
      "SELECT n FROM messages WHERE chain = ? AND id = ? AND finished = 0",
      "UPDATE messages SET cut = '' WHERE chain = ? AND cut = ? AND cut <> ''",
    ];
    for (const sql of queries) {
      const steps = explainQuery(sql);
      assert.match(steps, /USING (COVERING )?INDEX/, `${sql}: ${steps}`);
      assert.doesNotMatch(steps, /TEMP B-TREE/, `${sql}: ${steps}`);
    }
    assert.match(explainQuery(buildListStatement({ limit: 1, projectDir: "/" }).pageSql), /sessions_of_dir/);
    assert.match(explainQuery(buildListStatement({ limit: 1, emptyBefore: "" }).pageSql), /sessions_empty/);
    assert.match(explainQuery(buildListStatement({ limit: 1, archived: "only" }).pageSql), /sessions_archived/);
    assert.match(explainQuery(buildListStatement({ limit: 1, archived: "only" }).countSql), /sessions_archived/);
    for (const query of [{}, { projectDir: "/" }, { archived: "only" as const }]) {
      const { pageSql, countSql } = buildListStatement({ limit: 1, visibleTo: "ann", ...query });
      assert.match(explainQuery(pageSql), /MERGE.*INDEX sessions_of_owner \(owner=\?.*INDEX sessions_shared/);
      assert.match(
        explainQuery(countSql),
        /COVERING INDEX sessions_of_owner \(owner=\?.*COVERING INDEX sessions_shared/,
      );
    }
    const before = { startedAt: "", createdAt: "", id: "" };
    for (const query of [{}, { before }])
      assert.match(
        explainQuery(buildRunsStatement({ limit: 1, startedBy: "ann", ...query }).sql),
        /^SEARCH r USING INDEX runs_of_user \(started_by=\?/,
      );
    for (const query of [{}, { before }]) {
      const visible = { limit: 1, visibleTo: "ann", ...query };
      for (const [sql, index] of [
        [buildRunsStatement(visible).sql, "runs_of_reader"],
        [buildRunsStatement(visible, "running").sql, "runs_of_reader_state"],
        [buildAsksStatement(visible).sql, "asks_of_reader"],
        [buildAsksStatement({ ...visible, open: true }).sql, "asks_of_reader_state"],
      ] as const)
        assert.match(explainQuery(sql), new RegExp(`MERGE.*INDEX ${index} \\(reader=\\?.*INDEX ${index} \\(reader=`));
    }
    for (const [query, index] of [
      [{ id: "a" }, "PRIMARY KEY"],
      [{ sessionId: "a" }, "runs_of_chain"],
      [{ idempotencyKey: "a" }, "runs_key"],
    ] as const)
      assert.match(explainQuery(buildRunsStatement({ limit: 1, visibleTo: "ann", ...query }).sql), new RegExp(index));
    assert.match(explainQuery(buildListStatement({ limit: 1, spawnedBy: "a" }).pageSql), /sessions_spawned/);
    assert.match(explainQuery(buildRunsStatement({ limit: 1 }, "running").sql), /runs_of_state/);
    assert.match(explainQuery(buildRunsStatement({ limit: 1, sessionId: "a" }).sql), /runs_of_chain/);
    assert.match(explainQuery(buildRunsStatement({ limit: 1, sessionId: "a" }, "running").sql), /runs_of_chain_state/);
    assert.match(
      explainQuery(UNFINISHED_RUNS_SQL),
      /runs_of_chain_state \(root=\? AND state=\?\)/,
      "the query reads only the unfinished runs of a chain",
    );
    db.close();
  });
});
