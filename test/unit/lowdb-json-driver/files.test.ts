import assert from "node:assert/strict";
import { appendFile, mkdtemp, readFile, readdir, rm, stat, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { hasCode } from "gantry";
import type { Logger } from "gantry";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import {
  acquireLease,
  findNewest,
  findRun,
  listIds,
  releaseLease,
} from "../../../src/testing/session-driver/driver-calls.js";
import {
  aGrowingMessage,
  aMessage,
  aRun,
  aSession,
  at,
  change,
  joinParts,
  someMessages,
} from "../../../src/testing/session-driver/records.js";
import { readFileMessages } from "../../helpers/json-file-messages.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { makeTempDir } from "../../helpers/temp-dir.js";

describe("the files of LowdbJsonDriver", () => {
  let folder = "";
  let path = "";
  let dataFolder = "";
  /** Path of the log. The log has the data for lists, and all data that is not yet in a session file. */
  let logPath = "";
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
    logPath = join(dataFolder, "log.jsonl");
    reports = [];
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  async function openDriver(): Promise<LowdbJsonDriver> {
    const driver = new LowdbJsonDriver({ path }, logger);
    await driver.open();
    return driver;
  }
  const readStoredMessages = (id: string): Promise<unknown[]> => readFileMessages(join(path, `${id}.json`));
  /**
   * Resolves when the file of a session has `count` messages. The driver writes the file after the call has returned.
   */
  async function waitForFile(id: string, count: number): Promise<void> {
    await waitUntil(async () => (await readStoredMessages(id).catch(() => undefined))?.length === count);
  }
  /**
   * Resolves when the last line of the log states that the file of a session is written. The driver adds this line
   * only after it has written the file.
   */
  async function waitForLoggedFile(id: string): Promise<void> {
    const pattern = new RegExp(`"filed":\\[\\["${id}",\\d+\\]\\].*\\n$`);
    await waitUntil(async () => pattern.test(await readFile(logPath, "utf8")));
  }
  /** The log as a crash leaves it before any file is written: without the lines that follow the writing of a file. */
  const withoutFiledLines = (logText: string): string =>
    logText
      .split("\n")
      .filter((line) => !line.includes('"filed":'))
      .join("\n");
  const createAppend = (messageId: string, text: string) =>
    change({ append: [{ messageId, part: 0, type: "text" as const, text }] });

  it("are one JSON file per session, with modes 600 and 700 under umask 0", async () => {
    const previousUmask = process.umask(0);
    try {
      const driver = await openDriver();
      await driver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
      await driver.create({ session: aSession("../b") });
      await driver.write("a", createAppend("a-1", "x"));
      await acquireLease(driver, "a", "h");
      await waitUntil(async () => (await readdir(path)).length === 2);
      const names = await readdir(path);
      assert.ok(
        names.includes("a.json") && names.every((name) => /^(a|~[0-9a-f]{64})\.json$/.test(name)),
        names.join(),
      );
      const assertModes = async (folderPath: string): Promise<void> => {
        assert.equal((await stat(folderPath)).mode & 0o777, 0o700, folderPath);
        for (const entry of await readdir(folderPath, { withFileTypes: true })) {
          const file = join(folderPath, entry.name);
          if (entry.isDirectory()) await assertModes(file);
          else assert.equal((await stat(file)).mode & 0o777, 0o600, file);
        }
      };
      await assertModes(path);
      await assertModes(dataFolder);
      await driver.close();
    } finally {
      process.umask(previousUmask);
    }
  });

  const createLongMessage = (seq: number, length: number) =>
    aMessage("a", seq, { parts: [{ type: "text", text: "x".repeat(length) }] });

  it("the log grows only by new data, and the session file has all messages after the lease is released", async () => {
    const driver = await openDriver();
    await driver.create({ session: aSession("a"), messages: [createLongMessage(1, 50_000)] });
    await waitForFile("a", 1);
    const lease = await acquireLease(driver, "a", "h");
    await driver.write("a", { ...change({ add: [aGrowingMessage("a", 2)] }), fence: lease.fence });
    const initialLogBytes = (await stat(logPath)).size;
    for (let n = 0; n < 10; n++) await driver.write("a", { ...createAppend("a-2", "token "), fence: lease.fence });
    // Each of the ten writes adds less than 300 bytes.
    assert.ok((await stat(logPath)).size - initialLogBytes < 10 * 300);
    await releaseLease(driver, lease);
    await waitForFile("a", 2);
    assert.equal(joinParts((await driver.messages("a"))[1]), "token ".repeat(10));
    await driver.close();
  });

  it("are written after a change, including a large message, and by close()", async () => {
    const driver = await openDriver();
    await driver.create({ session: aSession("a"), messages: [createLongMessage(1, 1_000_000)] });
    await waitForFile("a", 1);
    await driver.write("a", change({ add: [createLongMessage(2, 1000)] }));
    await waitForFile("a", 2);
    await driver.write("a", change({ add: [createLongMessage(3, 1000)] }));
    await driver.close();
    assert.equal((await readStoredMessages("a")).length, 3);
  });

  it("are restored from the log if a crash came before the files were written", async () => {
    const driver = await openDriver();
    await driver.create({
      session: aSession("a", { alias: "x" }),
      messages: [aGrowingMessage("a", 1)],
      run: aRun("r", "a"),
    });
    await driver.write("a", createAppend("a-1", "one"));
    await driver.create({
      session: aSession("a.1", { chain: { root: "a", index: 1 } }),
      messages: [aMessage("a.1", 2)],
    });
    const logText = withoutFiledLines(await readFile(logPath, "utf8"));
    const dump = await driver.dump("a");
    await driver.close();
    await rm(join(path, "a.json"));
    await writeFile(logPath, logText);
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
    const secondDriver = await openDriver();
    assert.deepEqual(await listIds(secondDriver), ["a"]);
    assert.equal((await secondDriver.get("a"))?.lastSeq, 3);
    await secondDriver.close();
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
    const secondDriver = await openDriver();
    for (const id of ["bad", "empty"])
      await assert.rejects(
        secondDriver.messages(id),
        (error) => hasCode(error, "store") && error.message.includes(`${id}.json`),
      );
    assert.deepEqual(await listIds(secondDriver), ["good", "empty", "bad"]);
    assert.equal((await secondDriver.messages("good")).length, 1);
    await assert.rejects(secondDriver.create({ session: aSession("bad") }), (error) =>
      hasCode(error, "session_exists"),
    );
    await assert.rejects(secondDriver.create({ session: aSession("stray") }), (error) =>
      hasCode(error, "session_exists"),
    );
    for (const name of ["stray", "newer"])
      assert.equal(reports.filter((report) => report.includes(`${name}.json`)).length, 1, name);
    await secondDriver.close();
    assert.equal(await readFile(join(path, "bad.json"), "utf8"), '{"half": ');
  });

  it("the log is rebuilt after loss or damage, and follows added and removed session files", async () => {
    const driver = await openDriver();
    await driver.create({ session: aSession("a", { alias: "x", updatedAt: at(3) }), messages: [aMessage("a", 1)] });
    await driver.create({ session: aSession("b") });
    await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }), messages: [aMessage("a1", 2)] });
    await driver.close();
    for (const damage of [
      () => rm(logPath),
      () => writeFile(logPath, "\0\0\0rubbish\n"),
      () => appendFile(logPath, "{half a line"),
      () => truncate(logPath, 30),
      () => truncate(logPath, 60),
      () => rm(dataFolder, { recursive: true }),
    ]) {
      await damage();
      const rebuiltDriver = await openDriver();
      assert.deepEqual(await listIds(rebuiltDriver), ["a", "b"]);
      assert.equal((await rebuiltDriver.get("x"))?.id, "a");
      assert.equal((await findNewest(rebuiltDriver, "a"))?.id, "a1");
      assert.equal((await rebuiltDriver.messages("a", { scope: "chain" })).length, 2);
      await rebuiltDriver.write("b", change({ set: { title: "still written" } }));
      await rebuiltDriver.close();
    }
    await writeFile(
      join(path, "c.json"),
      (await readFile(join(path, "b.json"), "utf8")).replaceAll(/(?<=["/])b(?=["/])/g, "c"),
    );
    await rm(join(path, "a.json"));
    const lastDriver = await openDriver();
    assert.deepEqual(await listIds(lastDriver), ["c", "b"]);
    assert.equal(await lastDriver.get("a1"), undefined);
    await lastDriver.close();
  });

  it("the log keeps all acknowledged lines after a torn write, and a damaged log is copied", async () => {
    const driver = await openDriver();
    await driver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
    await driver.write("a", createAppend("a-1", "one "));
    await driver.write("a", createAppend("a-1", "two"));
    await driver.close();
    await appendFile(logPath, '{"version":9,"set":[["a","gro');
    const secondDriver = await openDriver();
    assert.equal(joinParts((await secondDriver.messages("a"))[0]), "one two");
    await secondDriver.write("a", createAppend("a-1", " three"));
    await secondDriver.close();
    assert.deepEqual(reports, []);
    for (const rubbish of ["rubbish from a power cut", "{}", "5", '{"version":9,"set":[["a"]]}'])
      await appendFile(logPath, `${rubbish}\n`);
    const thirdDriver = await openDriver();
    assert.equal(joinParts((await thirdDriver.messages("a"))[0]), "one two three");
    assert.ok((await readdir(dataFolder)).some((name) => name.startsWith("bad-")));
    await thirdDriver.close();
  });

  it("usage and text count once, whether a crash came before or after the file was written", async () => {
    const usage = { promptTokens: 1, completionTokens: 1, totalTokens: 2, cost: 1 };
    const driver = await openDriver();
    await driver.create({ session: aSession("a") });
    await waitForFile("a", 0);
    await waitForLoggedFile("a");
    const [oldFileText, oldLogText] = [await readFile(join(path, "a.json"), "utf8"), await readFile(logPath, "utf8")];
    const lease = await acquireLease(driver, "a", "h");
    const followUp = aSession("a.1", { chain: { root: "a", index: 1 } });
    await driver.create({ session: followUp, messages: [aGrowingMessage("a.1", 1)], fence: lease.fence });
    await driver.write("a.1", { ...change({ add: [aMessage("a.1", 2)], usage }), fence: lease.fence });
    await driver.write("a.1", { ...createAppend("a.1-1", "grown"), fence: lease.fence });
    const logText = oldLogText + withoutFiledLines((await readFile(logPath, "utf8")).slice(oldLogText.length));
    await releaseLease(driver, lease);
    await driver.close();
    const newFileText = await readFile(join(path, "a.json"), "utf8");
    assert.notEqual(newFileText, oldFileText);

    for (const fileText of [oldFileText, newFileText]) {
      await writeFile(join(path, "a.json"), fileText);
      await writeFile(logPath, logText);
      const restoredDriver = await openDriver();
      assert.equal((await restoredDriver.get("a"))?.usage.promptTokens, 1);
      assert.equal((await restoredDriver.get("a.1"))?.usage.promptTokens, 1);
      const messages = await restoredDriver.messages("a.1");
      assert.deepEqual([messages.length, joinParts(messages[0])], [2, "grown"]);
      await restoredDriver.write("a.1", createAppend("a.1-1", "!"));
      await restoredDriver.close();
      const lastDriver = await openDriver();
      assert.equal(joinParts((await lastDriver.messages("a.1"))[0]), "grown!");
      await lastDriver.close();
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
    const readInode = async (): Promise<number> => (await stat(logPath)).ino;
    const firstInode = await readInode();
    const piece = "x".repeat(100_000);
    const writeCount = 50;
    for (let n = 0; n < writeCount; n++)
      await (n % 2 === 0 ? driver : secondDriver).write("a", createAppend("a-1", piece));
    await waitUntil(async () => (await readInode()) !== firstInode);
    assert.ok((await stat(logPath)).size < 300_000);
    for (const eachDriver of [driver, secondDriver]) {
      assert.equal(joinParts((await eachDriver.messages("a"))[0]).length, writeCount * piece.length);
      assert.deepEqual(await listIds(eachDriver), ["b", "a"]);
      assert.deepEqual(await findRun(eachDriver, "r"), { run, holder: lease.holder });
      await assert.rejects(
        eachDriver.write("b", change({ runs: [aRun("s", "b", { idempotencyKey: "k" })] })),
        (error) => hasCode(error, "run_key_taken"),
      );
    }
    await secondDriver.write("a", { ...createAppend("a-1", "end"), fence: lease.fence });
    assert.ok(joinParts((await driver.messages("a"))[0]).endsWith("xend"));
    for (const eachDriver of [driver, secondDriver]) await eachDriver.close();
    assert.deepEqual(reports, []);
  });

  it("chains evicted from the cache are read again from their files and the log (70 chains)", async () => {
    const driver = await openDriver();
    for (let n = 0; n < 70; n++)
      await driver.create({ session: aSession(`s${n}`), messages: [aGrowingMessage(`s${n}`, 1)] });
    const secondDriver = await openDriver();
    for (let n = 0; n < 70; n++) await driver.write(`s${n}`, createAppend(`s${n}-1`, `grown ${n}`));
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
    await waitForLoggedFile("a");
    const logText = await readFile(logPath, "utf8");
    await driver.close();
    await rm(join(path, "a.json"));
    await writeFile(logPath, logText);
    const restoredDriver = await openDriver();
    assert.equal(await restoredDriver.get("a"), undefined);
    await restoredDriver.create({ session: aSession("a", { alias: "x" }) });
    assert.deepEqual(await restoredDriver.messages("a"), []);
    await restoredDriver.close();
    assert.deepEqual(
      (await readdir(dataFolder)).filter((name) => name.startsWith("bad-")),
      [],
    );
    assert.deepEqual(reports, []);
  });

  it("a store with another layout is rejected with an error that names the layout, and stays unchanged", async () => {
    const stores: [layout: string, files: Record<string, string>][] = [
      ["1", { "sessions.d/index.jsonl": "", "sessions/a.json": '{"version":1}' }],
      ["4", { "sessions.d/version.json": '{"version":4}', "sessions.d/log.jsonl": "", "sessions/a.json": "{}" }],
      ["6", { "sessions.d/version.json": '{"version":6}' }],
      ["unknown", { "sessions.d/version.json": '{"vers' }],
    ];
    for (const [layout, files] of stores) {
      const store = await makeTempDir();
      await store.write(files);
      const originalNames = (await readdir(store.path, { recursive: true })).sort();
      const driver = new LowdbJsonDriver({ path: store.at("sessions") });
      await assert.rejects(
        driver.open(),
        (error) => hasCode(error, "store") && error.message.includes(`its layout is ${layout},`),
      );
      await driver.close();
      const currentNames = (await readdir(store.path, { recursive: true })).filter((name) => name !== "sessions");
      assert.deepEqual(
        currentNames.sort(),
        originalNames.filter((name) => name !== "sessions"),
      );
      for (const [name, text] of Object.entries(files)) assert.equal(await store.read(name), text);
      await store.remove();
    }
  });

  it("reading a session file that is older or newer than the log is rejected", async () => {
    const driver = await openDriver();
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    await waitForFile("a", 1);
    await waitForLoggedFile("a");
    const [olderFile, olderLog] = [await readFile(join(path, "a.json"), "utf8"), await readFile(logPath, "utf8")];
    await driver.write("a", change({ add: [aMessage("a", 2)] }));
    await driver.close();
    const newerState = [await readFile(join(path, "a.json"), "utf8"), await readFile(logPath, "utf8")] as const;
    for (const [fileText, logText, expectedError] of [
      [olderFile, newerState[1], /older than the log/],
      [newerState[0], olderLog, /newer than the log/],
    ] as const) {
      await writeFile(join(path, "a.json"), fileText);
      await writeFile(logPath, logText);
      const restoredDriver = await openDriver();
      await assert.rejects(restoredDriver.messages("a"), expectedError);
      await restoredDriver.close();
    }
  });

  it("two drivers of one process share a folder, even through a symlink, until the last one closes", async () => {
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
