import assert from "node:assert/strict";
import { appendFile, mkdtemp, readFile, readdir, rm, stat, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { hasCode } from "gantry";
import type { Logger } from "gantry";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import {
  aMessage,
  aRun,
  aSession,
  at,
  change,
  aGrowingMessage,
  acquireLease,
  listIds,
  findNewest,
  releaseLease,
  findRun,
  someMessages,
  joinParts,
} from "../../../src/testing/session-driver/rule.js";
import { messagesInFile } from "../../helpers/json-store.js";
import { until } from "../../helpers/lab.js";
import { makeTempDir } from "../../helpers/temp.js";

describe("the files of LowdbJsonDriver", () => {
  let folder = "";
  let path = "";
  let dataFolder = "";
  /** Path of the log: all data that the session files do not hold yet, and the data for lists. */
  let log = "";
  let reports: string[] = [];
  const logger: Logger = {
    debug: () => undefined,
    info: () => undefined,
    warn: (message, fields) => reports.push(`${message}: ${JSON.stringify(fields)}`),
    error: (message, fields) => reports.push(`${message}: ${JSON.stringify(fields)}`),
  };
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "gantry-json-"));
    path = join(folder, "sessions");
    dataFolder = `${path}.d`;
    log = join(dataFolder, "log.jsonl");
    reports = [];
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  async function openDriver(): Promise<LowdbJsonDriver> {
    const driver = new LowdbJsonDriver({ path }, logger);
    await driver.open();
    return driver;
  }
  const messagesIn = (id: string): Promise<unknown[]> => messagesInFile(join(path, `${id}.json`));
  /**
   * Resolves when the file of a session has `count` messages. The driver writes the file after the call has returned.
   */
  async function waitForFile(id: string, count: number): Promise<void> {
    await until(async () => (await messagesIn(id).catch(() => undefined))?.length === count);
  }
  const append = (messageId: string, text: string) =>
    change({ append: [{ messageId, part: 0, type: "text" as const, text }] });

  it("are one JSON file per session, with modes 600 and 700 under umask 0", async () => {
    const before = process.umask(0);
    try {
      const driver = await openDriver();
      await driver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
      await driver.create({ session: aSession("../b") });
      await driver.write("a", append("a-1", "x"));
      await acquireLease(driver, "a", "h");
      await until(async () => (await readdir(path)).length === 2);
      const names = await readdir(path);
      assert.ok(
        names.includes("a.json") && names.every((name) => /^(a|~[0-9a-f]{64})\.json$/.test(name)),
        names.join(),
      );
      const walk = async (at: string): Promise<void> => {
        assert.equal((await stat(at)).mode & 0o777, 0o700, at);
        for (const entry of await readdir(at, { withFileTypes: true })) {
          const file = join(at, entry.name);
          if (entry.isDirectory()) await walk(file);
          else assert.equal((await stat(file)).mode & 0o777, 0o600, file);
        }
      };
      await walk(path);
      await walk(dataFolder);
      await driver.close();
    } finally {
      process.umask(before);
    }
  });

  const long = (seq: number, length: number) =>
    aMessage("a", seq, { parts: [{ type: "text", text: "x".repeat(length) }] });

  it("the log grows only by new data, and the session file has all messages after the lease is released", async () => {
    const driver = await openDriver();
    await driver.create({ session: aSession("a"), messages: [long(1, 50_000)] });
    await waitForFile("a", 1);
    const lease = await acquireLease(driver, "a", "h");
    await driver.write("a", { ...change({ add: [aGrowingMessage("a", 2)] }), fence: lease.fence });
    const before = (await stat(log)).size;
    for (let n = 0; n < 10; n++) await driver.write("a", { ...append("a-2", "token "), fence: lease.fence });
    assert.ok((await stat(log)).size - before < 10 * 300);
    await releaseLease(driver, lease);
    await waitForFile("a", 2);
    assert.equal(joinParts((await driver.messages("a"))[1]), "token ".repeat(10));
    await driver.close();
  });

  it("are written after a change, also with a large message, and by close()", async () => {
    const driver = await openDriver();
    await driver.create({ session: aSession("a"), messages: [long(1, 1_000_000)] });
    await waitForFile("a", 1);
    await driver.write("a", change({ add: [long(2, 1000)] }));
    await waitForFile("a", 2);
    await driver.write("a", change({ add: [long(3, 1000)] }));
    await driver.close();
    assert.equal((await messagesIn("a")).length, 3);
  });

  it("are restored from the log if a crash came before they were written", async () => {
    const driver = await openDriver();
    await driver.create({
      session: aSession("a", { alias: "x" }),
      messages: [aGrowingMessage("a", 1)],
      run: aRun("r", "a"),
    });
    await driver.write("a", append("a-1", "one"));
    await driver.create({
      session: aSession("a.1", { chain: { root: "a", index: 1 } }),
      messages: [aMessage("a.1", 2)],
    });
    const lines = await readFile(log, "utf8");
    const dump = await driver.dump("a");
    await driver.close();
    await rm(join(path, "a.json"));
    await writeFile(log, lines);
    const secondDriver = await openDriver();
    assert.deepEqual(await listIds(secondDriver), ["a"]);
    assert.deepEqual(await secondDriver.dump("a"), dump);
    await waitForFile("a", 2);
    await assert.rejects(secondDriver.create({ session: aSession("b", { alias: "x" }) }), (error) =>
      hasCode(error, "session_exists"),
    );
    await secondDriver.close();
    assert.deepEqual(reports, []);
  });

  it("are not read to list sessions", async () => {
    const driver = await openDriver();
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 3) });
    await driver.close();
    await writeFile(join(path, "a.json"), "nothing to see");
    const second = await openDriver();
    assert.deepEqual(await listIds(second), ["a"]);
    assert.equal((await second.get("a"))?.lastSeq, 3);
    await second.close();
  });

  it("an invalid session file is reported and kept, is not read as empty, and blocks its id", async () => {
    const driver = await openDriver();
    for (const id of ["good", "bad", "empty"])
      await driver.create({ session: aSession(id), messages: [aMessage(id, 1)] });
    await driver.close();
    await writeFile(join(path, "bad.json"), '{"half": ');
    await writeFile(join(path, "empty.json"), "null");
    await writeFile(join(path, "stray.json"), "[]");
    await writeFile(join(path, "newer.json"), JSON.stringify({ version: 99 }));
    const second = await openDriver();
    for (const id of ["bad", "empty"])
      await assert.rejects(
        second.messages(id),
        (error) => hasCode(error, "store") && error.message.includes(`${id}.json`),
      );
    assert.deepEqual(await listIds(second), ["good", "empty", "bad"]);
    assert.equal((await second.messages("good")).length, 1);
    await assert.rejects(second.create({ session: aSession("bad") }), (error) => hasCode(error, "session_exists"));
    await assert.rejects(second.create({ session: aSession("stray") }), (error) => hasCode(error, "session_exists"));
    for (const name of ["stray", "newer"])
      assert.equal(reports.filter((report) => report.includes(`${name}.json`)).length, 1, name);
    await second.close();
    assert.equal(await readFile(join(path, "bad.json"), "utf8"), '{"half": ');
  });

  it("the index is rebuilt after loss or damage, and follows added and removed session files", async () => {
    const driver = await openDriver();
    await driver.create({ session: aSession("a", { alias: "x", updatedAt: at(3) }), messages: [aMessage("a", 1)] });
    await driver.create({ session: aSession("b") });
    await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }), messages: [aMessage("a1", 2)] });
    await driver.close();
    for (const damage of [
      () => rm(log),
      () => writeFile(log, "\0\0\0rubbish\n"),
      () => appendFile(log, "{half a line"),
      () => truncate(log, 30),
      () => truncate(log, 60),
      () => rm(dataFolder, { recursive: true }),
    ]) {
      await damage();
      const again = await openDriver();
      assert.deepEqual(await listIds(again), ["a", "b"]);
      assert.equal((await again.get("x"))?.id, "a");
      assert.equal((await findNewest(again, "a"))?.id, "a1");
      assert.equal((await again.messages("a", { scope: "chain" })).length, 2);
      await again.write("b", change({ set: { title: "still written" } }));
      await again.close();
    }
    await writeFile(
      join(path, "c.json"),
      (await readFile(join(path, "b.json"), "utf8")).replaceAll(/(?<=["/])b(?=["/])/g, "c"),
    );
    await rm(join(path, "a.json"));
    const last = await openDriver();
    assert.deepEqual(await listIds(last), ["c", "b"]);
    assert.equal(await last.get("a1"), undefined);
    await last.close();
  });

  it("the log keeps all acknowledged lines after a torn write, and a damaged log is copied", async () => {
    const driver = await openDriver();
    await driver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
    await driver.write("a", append("a-1", "one "));
    await driver.write("a", append("a-1", "two"));
    await driver.close();
    await appendFile(log, '{"version":9,"set":[["a","gro');
    const second = await openDriver();
    assert.equal(joinParts((await second.messages("a"))[0]), "one two");
    await second.write("a", append("a-1", " three"));
    await second.close();
    assert.deepEqual(reports, []);
    for (const rubbish of ["rubbish from a power cut", "{}", "5", '{"version":9,"set":[["a"]]}'])
      await appendFile(log, `${rubbish}\n`);
    const third = await openDriver();
    assert.equal(joinParts((await third.messages("a"))[0]), "one two three");
    assert.ok((await readdir(dataFolder)).some((name) => name.startsWith("bad-")));
    await third.close();
  });

  it("usage and text count once, whether a crash came before or after the file was written", async () => {
    const usage = { promptTokens: 1, completionTokens: 1, totalTokens: 2, cost: 1 };
    const driver = await openDriver();
    await driver.create({ session: aSession("a") });
    await waitForFile("a", 0);
    const lease = await acquireLease(driver, "a", "h");
    const before = await readFile(join(path, "a.json"), "utf8");
    const follow = aSession("a.1", { chain: { root: "a", index: 1 } });
    await driver.create({ session: follow, messages: [aGrowingMessage("a.1", 1)], fence: lease.fence });
    await driver.write("a.1", { ...change({ add: [aMessage("a.1", 2)], usage }), fence: lease.fence });
    await driver.write("a.1", { ...append("a.1-1", "grown"), fence: lease.fence });
    const lines = await readFile(log, "utf8");
    await releaseLease(driver, lease);
    await driver.close();
    const after = await readFile(join(path, "a.json"), "utf8");
    assert.notEqual(after, before);

    for (const file of [before, after]) {
      await writeFile(join(path, "a.json"), file);
      await writeFile(log, lines);
      const again = await openDriver();
      assert.equal((await again.get("a"))?.usage.promptTokens, 1);
      assert.equal((await again.get("a.1"))?.usage.promptTokens, 1);
      const messages = await again.messages("a.1");
      assert.deepEqual([messages.length, joinParts(messages[0])], [2, "grown"]);
      await again.write("a.1", append("a.1-1", "!"));
      await again.close();
      const last = await openDriver();
      assert.equal(joinParts((await last.messages("a.1"))[0]), "grown!");
      await last.close();
    }
    assert.deepEqual(reports, []);
  });

  it("a long log is replaced by a shorter one, and two drivers continue with the same data", async () => {
    const driver = await openDriver();
    const secondDriver = await openDriver();
    await driver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
    await driver.create({ session: aSession("b") });
    const lease = await acquireLease(driver, "a", "h");
    const run = aRun("r", "a", { idempotencyKey: "k" });
    await driver.write("a", { ...change({ runs: [run] }), fence: lease.fence });
    const inode = async (): Promise<number> => (await stat(log)).ino;
    const first = await inode();
    const piece = "x".repeat(100_000);
    const count = 50;
    for (let n = 0; n < count; n++) await (n % 2 === 0 ? driver : secondDriver).write("a", append("a-1", piece));
    await until(async () => (await inode()) !== first);
    assert.ok((await stat(log)).size < 300_000);
    for (const eachDriver of [driver, secondDriver]) {
      assert.equal(joinParts((await eachDriver.messages("a"))[0]).length, count * piece.length);
      assert.deepEqual(await listIds(eachDriver), ["b", "a"]);
      assert.deepEqual(await findRun(eachDriver, "r"), { run, holder: lease.holder });
      await assert.rejects(
        eachDriver.write("b", change({ runs: [aRun("s", "b", { idempotencyKey: "k" })] })),
        (error) => hasCode(error, "run_key_taken"),
      );
    }
    await secondDriver.write("a", { ...append("a-1", "end"), fence: lease.fence });
    assert.ok(joinParts((await driver.messages("a"))[0]).endsWith("xend"));
    for (const eachDriver of [driver, secondDriver]) await eachDriver.close();
    assert.deepEqual(reports, []);
  });

  it("70 chains, more than the cache holds, are read again with their data in the log", async () => {
    const driver = await openDriver();
    for (let n = 0; n < 70; n++)
      await driver.create({ session: aSession(`s${n}`), messages: [aGrowingMessage(`s${n}`, 1)] });
    const secondDriver = await openDriver();
    for (let n = 0; n < 70; n++) await driver.write(`s${n}`, append(`s${n}-1`, `grown ${n}`));
    for (let n = 0; n < 70; n++) {
      for (const eachDriver of [driver, secondDriver])
        assert.equal(joinParts((await eachDriver.messages(`s${n}`))[0]), `grown ${n}`);
    }
    for (const eachDriver of [driver, secondDriver]) await eachDriver.close();
  });

  it("a session whose removal was interrupted by a crash does not exist", async () => {
    const driver = await openDriver();
    await driver.create({ session: aSession("a", { alias: "x" }) });
    await driver.write("a", change({ add: [aMessage("a", 1)] }));
    await waitForFile("a", 1);
    // The log records the write after the file exists.
    await until(async () => /"filed":\[\["a",\d+\]\].*\n$/.test(await readFile(log, "utf8")));
    const lines = await readFile(log, "utf8");
    await driver.close();
    await rm(join(path, "a.json"));
    await writeFile(log, lines);
    const again = await openDriver();
    assert.equal(await again.get("a"), undefined);
    await again.create({ session: aSession("a", { alias: "x" }) });
    assert.deepEqual(await again.messages("a"), []);
    await again.close();
    assert.deepEqual(
      (await readdir(dataFolder)).filter((name) => name.startsWith("bad-")),
      [],
    );
    assert.deepEqual(reports, []);
  });

  it("a store with another layout is rejected with its layout, and stays unchanged", async () => {
    const stores: [layout: string, files: Record<string, string>][] = [
      ["1", { "sessions.d/index.jsonl": "", "sessions/a.json": '{"version":1}' }],
      ["4", { "sessions.d/version.json": '{"version":4}', "sessions.d/log.jsonl": "", "sessions/a.json": "{}" }],
      ["6", { "sessions.d/version.json": '{"version":6}' }],
      ["unknown", { "sessions.d/version.json": '{"vers' }],
    ];
    for (const [layout, files] of stores) {
      const store = await makeTempDir();
      await store.write(files);
      const names = (await readdir(store.path, { recursive: true })).sort();
      const driver = new LowdbJsonDriver({ path: store.at("sessions") });
      await assert.rejects(
        driver.open(),
        (error) => hasCode(error, "store") && error.message.includes(`its layout is ${layout},`),
      );
      await driver.close();
      const after = (await readdir(store.path, { recursive: true })).filter((name) => name !== "sessions");
      assert.deepEqual(
        after.sort(),
        names.filter((name) => name !== "sessions"),
      );
      for (const [name, text] of Object.entries(files)) assert.equal(await store.read(name), text);
      await store.remove();
    }
  });

  it("reading a session file that is older or newer than the log is rejected", async () => {
    const driver = await openDriver();
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    await waitForFile("a", 1);
    const [file, lines] = [await readFile(join(path, "a.json"), "utf8"), await readFile(log, "utf8")];
    await driver.write("a", change({ add: [aMessage("a", 2)] }));
    await driver.close();
    const newer = [await readFile(join(path, "a.json"), "utf8"), await readFile(log, "utf8")] as const;
    for (const [old, text, why] of [
      [file, newer[1], /older than the log/],
      [newer[0], lines, /newer than the log/],
    ] as const) {
      await writeFile(join(path, "a.json"), old);
      await writeFile(log, text);
      const again = await openDriver();
      await assert.rejects(again.messages("a"), why);
      await again.close();
    }
  });

  it("two drivers of one process share a folder, also through a symlink, until the last one closes", async () => {
    const firstDriver = await openDriver();
    await symlink(path, join(folder, "link"));
    const secondDriver = new LowdbJsonDriver({ path: join(folder, "link") }, logger);
    await secondDriver.open();
    await firstDriver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    assert.deepEqual(await listIds(secondDriver), ["a"]);
    await firstDriver.close();
    await secondDriver.write("a", change({ add: [aMessage("a", 2)] }));
    // A driver that opens while the last one closes waits for the close.
    const [, thirdDriver] = await Promise.all([secondDriver.close(), openDriver()]);
    assert.equal((await thirdDriver.messages("a")).length, 2);
    await thirdDriver.close();
    assert.deepEqual(await readdir(join(dataFolder, "lock")), ["free"]);
  });
});
