import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import Sqlite from "better-sqlite3";
import { retain, readPragma } from "../../../adapters/sqlite-driver/retained-objects.js";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { aMessage, aSession, change } from "../../../src/testing/session-driver/records.js";
import { Child, runAtOnce } from "../../helpers/child.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { createRandom, readSeed } from "../../helpers/random.js";

const TRIAL_COUNT = Number(process.env["TRIALS"] ?? 2);
const SEED = readSeed();
/** Maximum number of acknowledged writes between the first write and the kill. */
const MAX_WRITES = 200;

describe("SqliteDriver in several processes", () => {
  let folder = "";
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "gantry-sqlite-"));
  });
  after(() => rm(folder, { recursive: true, force: true }));
  const startChild = (path: string, ...args: string[]): Child =>
    new Child("./session-process.ts", ["sqlite", path, ...args]);
  const openDriver = async (path: string): Promise<SqliteDriver> => {
    const driver = new SqliteDriver({ path });
    await driver.open();
    return driver;
  };
  const checkIntegrity = (path: string): unknown => {
    const db = retain(new Sqlite(path));
    try {
      return readPragma(db, "integrity_check");
    } finally {
      db.close();
    }
  };

  it("opens and migrates one new file in four processes at the same time", async () => {
    const path = join(folder, "fresh", "sessions.db");
    await runAtOnce(Array.from({ length: 4 }, () => startChild(path, "open")));
    assert.equal(checkIntegrity(path), "ok");
  });

  it("loses none of fifty writes from each of four processes", async () => {
    const path = join(folder, "four.db");
    const driver = await openDriver(path);
    await driver.create({ session: aSession("shared") });
    await runAtOnce(Array.from({ length: 4 }, (_, n) => startChild(path, "write", `own${n}`, "50", "shared")));
    for (let n = 0; n < 4; n++) assert.equal((await driver.messages(`own${n}`)).length, 50);
    // Each write adds one prompt token to the shared session.
    assert.equal((await driver.get("shared"))?.usage.promptTokens, 200);
    assert.equal((await driver.list({ limit: 1 })).total, 5);
    await driver.close();
    assert.equal(checkIntegrity(path), "ok");
  });

  it(`loses no acknowledged write after SIGKILL at random moments (SEED=${SEED})`, async () => {
    const random = createRandom(SEED);
    const path = join(folder, "kill.db");
    for (let trial = 0; trial < TRIAL_COUNT; trial++) {
      const id = `s${trial}`;
      const child = startChild(path, "append", id);
      await child.waitForLines(1 + Math.floor(random() * MAX_WRITES));
      await child.kill();
      const acknowledgedCount = child.stdout.split("\n").length - 1;
      const driver = await openDriver(path);
      const messageTexts = (await driver.messages(id)).map((message) =>
        message.parts.map((part) => "text" in part && part.text),
      );
      await driver.close();
      const storedText = messageTexts.flat().join("");
      const storedNumbers = storedText.split(";").slice(0, -1);
      assert.deepEqual(
        storedNumbers,
        storedNumbers.map((_, n) => `${n}`),
        `trial ${trial}: the writes are stored in order, each once`,
      );
      assert.ok(
        storedNumbers.length >= acknowledgedCount,
        `trial ${trial}: ${acknowledgedCount} acknowledged, ${storedNumbers.length} found`,
      );
      assert.ok(storedNumbers.length <= acknowledgedCount + 1, `trial ${trial}: only sent writes are stored`);
      assert.equal(checkIntegrity(path), "ok");
    }
  });

  it("reads during another process's write lock without blocking the event loop, then writes in order", async (t) => {
    const path = join(folder, "locked.db");
    const driver = await openDriver(path);
    await driver.create({ session: aSession("a") });
    const child = new Child("./sqlite-lock.ts", [path]);
    t.after(() => child.kill());
    assert.equal(await child.waitForMessage(), "held");
    const completedWrites: string[] = [];
    // The driver draws a random delay after each attempt that SQLite rejects.
    const attemptMock = t.mock.method(Math, "random");
    const writes = [1, 2, 3].map(async (seq) => {
      await driver.write("a", change({ add: [aMessage("a", seq)], set: { title: `${seq}` }, sync: true }));
      completedWrites.push(`written ${seq}`);
    });
    await waitUntil(() => attemptMock.mock.callCount() >= 5);
    assert.equal((await driver.get("a"))?.lastSeq, 0, "a read does not wait");
    assert.deepEqual(completedWrites, [], "no write succeeds while another process holds the lock");
    child.send("let go");
    await Promise.all(writes);
    assert.deepEqual(completedWrites, ["written 1", "written 2", "written 3"]);
    assert.equal((await driver.get("a"))?.title, "3");
    await child.waitForEnd();
    await driver.close();
  });

  it("opens a store while another process holds the write lock", async (t) => {
    const path = join(folder, "locked-open.db");
    await (await openDriver(path)).close();
    const child = new Child("./sqlite-lock.ts", [path]);
    t.after(() => child.kill());
    await child.waitForMessage();
    const driver = await openDriver(path);
    child.send("let go");
    await driver.create({ session: aSession("a") });
    assert.equal((await driver.get("a"))?.id, "a");
    await child.waitForEnd();
    await driver.close();
  });
});
