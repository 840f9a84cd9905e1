import assert from "node:assert/strict";
import fs from "node:fs";
import { readdir, rename, rm, stat } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { it, type TestContext } from "node:test";
import Sqlite, { type Database } from "better-sqlite3";
import { hasCode, type Logger } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { readPragma, retain, setPragma } from "../../../adapters/sqlite-driver/retained-objects.js";
import { APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION } from "../../../adapters/sqlite-driver/schema.js";
import { tempDir } from "../../helpers/temp-dir.js";

const OLD_VERSION = 2;

/** Creates a store of an older version with one session. */
async function createOldStore(t: TestContext) {
  const folder = await tempDir(t);
  const path = join(folder.path, "sessions.db");
  const db = retain(new Sqlite(path));
  setPragma(db, "journal_mode = WAL");
  db.exec(MIGRATIONS.slice(0, OLD_VERSION).join(""));
  setPragma(db, `application_id = ${APPLICATION_ID}`);
  setPragma(db, `user_version = ${OLD_VERSION}`);
  const columns = db.pragma("table_info(sessions)") as { name: string; type: string }[];
  const values = columns.map(({ name, type }) =>
    ["id", "root"].includes(name) ? "'old'" : type === "INTEGER" ? "1" : "''",
  );
  db.exec(`INSERT INTO sessions VALUES (${values.join(", ")})`);
  db.close();
  const logLines: string[] = [];
  const log = (message: string, fields: object = {}) => void logLines.push(`${message} ${JSON.stringify(fields)}`);
  const logger: Logger = { debug: log, info: log, warn: log, error: log };
  const listCopies = async () => (await readdir(folder.path)).filter((name) => /^sessions\.db\.(v|partial)/.test(name));
  return { folder: folder.path, path, logger, logLines, listCopies };
}

function readStore<T>(path: string, read: (db: Database) => T): T {
  const db = retain(new Sqlite(path));
  try {
    return read(db);
  } finally {
    db.close();
  }
}

const readVersion = (path: string) => readStore(path, (db) => readPragma(db, "user_version"));

it("the migration of an old store keeps a copy with its version, which an older gantry can use again", async (t) => {
  const { folder, path, logger, logLines, listCopies } = await createOldStore(t);
  const driver = new SqliteDriver({ path }, logger);
  await driver.open();
  assert.equal((await driver.get("old"))?.id, "old");
  await driver.close();
  const [copyName = "", ...otherCopies] = await listCopies();
  assert.match(copyName, /^sessions\.db\.v2-\d{4}-\d\d-\d\dT\d{6}Z$/);
  assert.deepEqual(otherCopies, []);
  const copyPath = join(folder, copyName);
  assert.equal((await stat(copyPath)).mode & 0o777, 0o600);
  assert.deepEqual(logLines, [
    `the session store was migrated; a copy of the old file is kept ${JSON.stringify({ path, copy: copyPath, fromVersion: OLD_VERSION, toVersion: SCHEMA_VERSION })}`,
  ]);
  assert.equal(readVersion(path), SCHEMA_VERSION);
  assert.equal(readVersion(copyPath), OLD_VERSION);
  assert.equal(
    readStore(copyPath, (db) => readPragma(db, "integrity_check")),
    "ok",
  );
  // The downgrade of docs/operations.md, and the upgrade after it.
  for (const suffix of ["", "-wal", "-shm"]) await rm(`${path}${suffix}`, { force: true });
  await rename(copyPath, path);
  assert.equal(readVersion(path), OLD_VERSION);
  const secondDriver = new SqliteDriver({ path }, logger);
  await secondDriver.open();
  assert.equal((await secondDriver.get("old"))?.id, "old");
  await secondDriver.close();
  assert.equal((await listCopies()).length, 1);
  // A store of the current version is not copied.
  const thirdDriver = new SqliteDriver({ path }, logger);
  await thirdDriver.open();
  await thirdDriver.close();
  assert.equal((await listCopies()).length, 1);
});

it("of several drivers that open an old store, one makes the copy", async (t) => {
  const { path, logger, logLines, listCopies } = await createOldStore(t);
  const drivers = Array.from({ length: 5 }, () => new SqliteDriver({ path }, logger));
  await Promise.all(drivers.map((driver) => driver.open()));
  for (const driver of drivers) assert.equal((await driver.get("old"))?.id, "old");
  await Promise.all(drivers.map((driver) => driver.close()));
  assert.equal((await listCopies()).length, 1);
  assert.equal(logLines.length, 1, logLines.join("\n"));
});

it("without space for the copy the store is rejected unchanged; migrationCopy: false migrates it without a copy", async (t) => {
  const { path, logger, logLines, listCopies } = await createOldStore(t);
  const { statfsSync } = fs;
  t.mock.method(fs, "statfsSync", (...args: Parameters<typeof statfsSync>) => ({ ...statfsSync(...args), bavail: 3 }));
  syncBuiltinESMExports();
  const restore = () => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  };
  t.after(restore);
  await assert.rejects(new SqliteDriver({ path }, logger).open(), (error) => {
    assert.ok(hasCode(error, "store") && error.isFull);
    assert.match(error.message, /keeps a copy and needs \d+ MB, but the disk has 1 MB; it was not modified/);
    return true;
  });
  assert.equal(readVersion(path), OLD_VERSION);
  const driver = new SqliteDriver({ path, migrationCopy: false }, logger);
  await driver.open();
  assert.equal((await driver.get("old"))?.id, "old");
  await driver.close();
  assert.deepEqual(await listCopies(), []);
  assert.deepEqual(logLines, []);
});

it("a migration that fails leaves the store unchanged and no copy", async (t) => {
  const { path, logger, logLines, listCopies } = await createOldStore(t);
  // A table of a later version is in the way.
  readStore(path, (db) => db.exec("CREATE TABLE asks (unexpected)"));
  await assert.rejects(new SqliteDriver({ path }, logger).open());
  assert.equal(readVersion(path), OLD_VERSION);
  assert.deepEqual(await listCopies(), []);
  assert.deepEqual(logLines, []);
});
