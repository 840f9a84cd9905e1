import assert from "node:assert/strict";
import { appendFile, mkdir, mkdtemp, readFile, readdir, rename, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { hasCode } from "gantry";
import type { Logger } from "gantry";
import type { ChainData } from "gantry/plugin";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import {
  aMessage,
  aRun,
  aSession,
  at,
  change,
  growing,
  leaseOf,
  listed,
  someMessages,
  textOf,
} from "../../../src/testing/session-driver/rule.js";
import { messagesInFile } from "../../helpers/json-store.js";
import { until } from "../../helpers/lab.js";

describe("the files of LowdbJsonDriver", () => {
  let folder = "";
  let path = "";
  let beside = "";
  /** All that is not in the sessions' files yet, and what lists need. */
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
    beside = `${path}.d`;
    log = join(beside, "log.jsonl");
    reports = [];
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  async function opened(): Promise<LowdbJsonDriver> {
    const driver = new LowdbJsonDriver({ path }, logger);
    await driver.open();
    return driver;
  }
  const messagesIn = (id: string): Promise<unknown[]> => messagesInFile(join(path, `${id}.json`));
  /** Resolves when the file of a session has so many messages. The driver writes it after the call has returned. */
  async function filed(id: string, count: number): Promise<void> {
    await until(async () => (await messagesIn(id).catch(() => undefined))?.length === count);
  }
  const append = (messageId: string, text: string) =>
    change({ append: [{ messageId, part: 0, type: "text" as const, text }] });

  it("are one JSON file per session, for their owner alone, whatever the umask", async () => {
    const before = process.umask(0);
    try {
      const driver = await opened();
      await driver.create({ session: aSession("a"), messages: [growing("a", 1)] });
      await driver.create({ session: aSession("../b") });
      await driver.write("a", append("a-1", "x"));
      await filed("a", 1);
      await leaseOf(driver, "a", "h");
      const names = await readdir(path);
      assert.equal(names.length, 2);
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
      await walk(beside);
      await driver.close();
    } finally {
      process.umask(before);
    }
  });

  const long = (seq: number, length: number) =>
    aMessage("a", seq, { parts: [{ type: "text", text: "x".repeat(length) }] });

  it("grow by what is new alone, and are folded in when the lease is given back", async () => {
    const driver = await opened();
    await driver.create({ session: aSession("a"), messages: [long(1, 50_000)] });
    await filed("a", 1);
    const file = await stat(join(path, "a.json"));
    const lease = await leaseOf(driver, "a", "h");
    await driver.write("a", { ...change({ add: [growing("a", 2)] }), fence: lease.fence });
    const before = (await stat(log)).size;
    for (let n = 0; n < 10; n++) await driver.write("a", { ...append("a-2", "token "), fence: lease.fence });
    assert.ok((await stat(log)).size - before < 10 * 300);
    assert.equal((await stat(join(path, "a.json"))).mtimeMs, file.mtimeMs, "not written anew");
    await driver.release(lease);
    await filed("a", 2);
    assert.equal(textOf((await driver.messages("a"))[1]), "token ".repeat(10));
    await driver.close();
  });

  it("that are long are written when a quarter is new, or when the process ends", async () => {
    const driver = await opened();
    await driver.create({ session: aSession("a"), messages: [long(1, 1_000_000)] });
    await driver.create({ session: aSession("b") });
    await filed("a", 1);
    const file = await stat(join(path, "a.json"));
    await driver.write("a", change({ add: [long(2, 1000)] }));
    await driver.write("b", change({ add: [aMessage("b", 1)] }));
    await filed("b", 1);
    assert.equal((await stat(join(path, "a.json"))).ino, file.ino, "not written anew");
    await driver.write("a", change({ add: [long(3, 300_000)] }));
    await filed("a", 3);
    await driver.write("a", change({ add: [long(4, 1000)] }));
    await driver.close();
    assert.equal((await messagesIn("a")).length, 4);
  });

  it("that a crash left without are made of the log", async () => {
    const driver = await opened();
    await driver.create({ session: aSession("a", { alias: "x" }), messages: [growing("a", 1)], run: aRun("r", "a") });
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
    const other = await opened();
    assert.deepEqual(await listed(other), ["a"]);
    assert.deepEqual(await other.dump("a"), dump);
    await filed("a", 2);
    await assert.rejects(other.create({ session: aSession("b", { alias: "x" }) }), (error) =>
      hasCode(error, "session_exists"),
    );
    await other.close();
    assert.deepEqual(reports, []);
  });

  it("are not read for a list", async () => {
    const driver = await opened();
    await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 3) });
    await driver.close();
    await writeFile(join(path, "a.json"), "nothing to see");
    const second = await opened();
    assert.deepEqual(await listed(second), ["a"]);
    assert.equal((await second.get("a"))?.lastSeq, 3);
    await second.close();
  });

  it("that are bad are reported and kept, never read as empty sessions, and their ids are not used again", async () => {
    const driver = await opened();
    for (const id of ["good", "bad", "empty"])
      await driver.create({ session: aSession(id), messages: [aMessage(id, 1)] });
    await driver.close();
    await writeFile(join(path, "bad.json"), '{"half": ');
    await writeFile(join(path, "empty.json"), "null");
    await writeFile(join(path, "stray.json"), "[]");
    await writeFile(join(path, "newer.json"), JSON.stringify({ version: 99 }));
    const second = await opened();
    for (const id of ["bad", "empty"])
      await assert.rejects(
        second.messages(id),
        (error) => hasCode(error, "store") && error.message.includes(`${id}.json`),
      );
    assert.deepEqual(await listed(second), ["good", "empty", "bad"]);
    assert.equal((await second.messages("good")).length, 1);
    await assert.rejects(second.create({ session: aSession("bad") }), (error) => hasCode(error, "session_exists"));
    await assert.rejects(second.create({ session: aSession("stray") }), (error) => hasCode(error, "session_exists"));
    for (const name of ["bad", "empty", "stray", "newer"]) {
      assert.equal(reports.filter((report) => report.includes(`${name}.json`)).length, 1, name);
    }
    await second.close();
    assert.equal(await readFile(join(path, "bad.json"), "utf8"), '{"half": ');
  });

  it("make the index again when it is lost or damaged, and take in what was put there or taken away", async () => {
    const driver = await opened();
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
      () => rm(beside, { recursive: true }),
    ]) {
      await damage();
      const again = await opened();
      assert.deepEqual(await listed(again), ["a", "b"]);
      assert.equal((await again.get("x"))?.id, "a");
      assert.equal((await again.newest("a"))?.id, "a1");
      assert.equal((await again.messages("a", { scope: "chain" })).length, 2);
      await again.write("b", change({ set: { title: "still written" } }));
      await again.close();
    }
    await writeFile(
      join(path, "c.json"),
      (await readFile(join(path, "b.json"), "utf8")).replaceAll(/(?<=["/])b(?=["/])/g, "c"),
    );
    await rm(join(path, "a.json"));
    const last = await opened();
    assert.deepEqual(await listed(last), ["c", "b"]);
    assert.equal(await last.get("a1"), undefined);
    await last.close();
  });

  it("go on when the log is damaged under an open driver: the fence still grows, an old holder is shut out", async () => {
    const driver = await opened();
    await driver.create({ session: aSession("a") });
    let last = await leaseOf(driver, "a", "h");
    for (const text of ["", "{", '{"head":"x"', "null\n", "\0\0\0"]) {
      await writeFile(log, text);
      const next = await leaseOf(driver, "a", `after ${JSON.stringify(text)}`);
      assert.ok(next.fence > last.fence, text);
      await assert.rejects(driver.write("a", change({ fence: last.fence, add: [aMessage("a", 1)] })), (error) =>
        hasCode(error, "lease_lost"),
      );
      last = next;
    }
    await driver.close();
  });

  it("lose no acknowledged line when the log ends in the middle of one, and keep a copy of a damaged one", async () => {
    const driver = await opened();
    await driver.create({ session: aSession("a"), messages: [growing("a", 1)] });
    await driver.write("a", append("a-1", "one "));
    await driver.write("a", append("a-1", "two"));
    await appendFile(log, '{"root":"a","v":4}\t{"id":"a","change":{"fen');
    const second = await opened();
    assert.equal(textOf((await second.messages("a"))[0]), "one two");
    await second.write("a", append("a-1", " three"));
    assert.equal(textOf((await driver.messages("a"))[0]), "one two three");
    await appendFile(log, "rubbish from a power cut\n");
    const third = await opened();
    assert.equal(textOf((await third.messages("a"))[0]), "one two three");
    assert.ok((await readdir(beside)).some((name) => name.startsWith("bad-")));
    for (const one of [driver, second, third]) await one.close();
  });

  it("that were written when a crash came, before or after the log could say so, count nothing twice", async () => {
    const usage = { promptTokens: 1, completionTokens: 1, totalTokens: 2, cost: 1 };
    const driver = await opened();
    await driver.create({ session: aSession("a") });
    await filed("a", 0);
    const lease = await leaseOf(driver, "a", "h");
    const before = await readFile(join(path, "a.json"), "utf8");
    const follow = aSession("a.1", { chain: { root: "a", index: 1 } });
    await driver.create({ session: follow, messages: [growing("a.1", 1)], fence: lease.fence });
    await driver.write("a.1", { ...change({ add: [aMessage("a.1", 2)], usage }), fence: lease.fence });
    await driver.write("a.1", { ...append("a.1-1", "grown"), fence: lease.fence });
    const lines = await readFile(log, "utf8");
    await driver.release(lease);
    await driver.close();
    const after = await readFile(join(path, "a.json"), "utf8");
    assert.notEqual(after, before);

    for (const file of [before, after]) {
      await writeFile(join(path, "a.json"), file);
      await writeFile(log, lines);
      const again = await opened();
      assert.equal((await again.get("a"))?.usage.promptTokens, 1);
      assert.equal((await again.get("a.1"))?.usage.promptTokens, 1);
      const messages = await again.messages("a.1");
      assert.deepEqual([messages.length, textOf(messages[0])], [2, "grown"]);
      await again.write("a.1", append("a.1-1", "!"));
      await again.close();
      const last = await opened();
      assert.equal(textOf((await last.messages("a.1"))[0]), "grown!");
      await last.close();
    }
    assert.deepEqual(reports, []);
  });

  it("are written anew, and the log with them, when it has grown long, whoever works on", async () => {
    const driver = await opened();
    const other = await opened();
    await driver.create({ session: aSession("a"), messages: [growing("a", 1)] });
    await driver.create({ session: aSession("b") });
    const lease = await leaseOf(driver, "a", "h");
    const run = aRun("r", "a", { key: "k" });
    await driver.write("a", { ...change({ runs: [run] }), fence: lease.fence });
    const inode = async (): Promise<number> => (await stat(log)).ino;
    const first = await inode();
    const piece = "x".repeat(100_000);
    let count = 0;
    while ((await inode()) === first) {
      const [one = driver] = count % 2 === 0 ? [driver] : [other];
      await one.write("a", append("a-1", piece));
      assert.ok(++count < 200, "it grows for ever");
    }
    assert.ok((await stat(log)).size < 300_000);
    for (const one of [driver, other]) {
      assert.equal(textOf((await one.messages("a"))[0]).length, count * piece.length);
      assert.deepEqual(await listed(one), ["b", "a"]);
      assert.deepEqual(await one.run("r"), { run, holder: lease.holder });
      await assert.rejects(one.write("b", change({ runs: [aRun("s", "b", { key: "k" })] })), (error) =>
        hasCode(error, "run_key_taken"),
      );
    }
    await other.write("a", { ...append("a-1", "end"), fence: lease.fence });
    assert.ok(textOf((await driver.messages("a"))[0]).endsWith("xend"));
    for (const one of [driver, other]) await one.close();
    assert.deepEqual(reports, []);
  });

  it("of more chains than are kept in memory are read again, with what the log has of them", async () => {
    const driver = await opened();
    for (let n = 0; n < 70; n++) await driver.create({ session: aSession(`s${n}`), messages: [growing(`s${n}`, 1)] });
    const other = await opened();
    for (let n = 0; n < 70; n++) await driver.write(`s${n}`, append(`s${n}-1`, `grown ${n}`));
    for (let n = 0; n < 70; n++) {
      for (const one of [driver, other]) assert.equal(textOf((await one.messages(`s${n}`))[0]), `grown ${n}`);
    }
    for (const one of [driver, other]) await one.close();
  });

  it("whose removal a crash cut short are no sessions", async () => {
    const driver = await opened();
    await driver.create({ session: aSession("a", { alias: "x" }) });
    await driver.write("a", change({ add: [aMessage("a", 1)] }));
    await filed("a", 1);
    const lines = await readFile(log, "utf8");
    await driver.close();
    await rm(join(path, "a.json"));
    await writeFile(log, lines);
    const again = await opened();
    assert.equal(await again.get("a"), undefined);
    await again.create({ session: aSession("a", { alias: "x" }) });
    assert.deepEqual(await again.messages("a"), []);
    await again.close();
    assert.deepEqual(
      (await readdir(beside)).filter((name) => name.startsWith("bad-")),
      [],
    );
    assert.deepEqual(reports, []);
  });

  it("of version 1 are taken over: chains of several files, what a crash left in journals, half done folds and removals", async () => {
    const old = JSON.parse(await readFile(new URL("version-1.json", import.meta.url), "utf8")) as {
      files: Record<string, string>;
      dumps: ChainData[];
    };
    const check = async (): Promise<void> => {
      const driver = await opened();
      for (const dump of old.dumps) {
        const root = dump.sessions[0]?.session.id ?? "";
        // What there was not then.
        const sessions = dump.sessions.map((one) => {
          return { ...one, session: { ...one.session, mode: "auto", leave: [], cuts: [], spawnedBy: null } };
        });
        assert.deepEqual(await driver.dump(root), { ...dump, sessions, runs: [], asks: [] });
      }
      assert.deepEqual(await listed(driver), ["a", "b", "folding"]);
      assert.equal((await driver.get("x"))?.id, "a");
      await driver.close();
      assert.deepEqual((await readdir(path)).sort(), ["a.json", "b.json", "folding.json"]);
      assert.deepEqual(reports, []);
    };
    for (const [name, text] of Object.entries(old.files)) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), text);
    }
    const driver = await opened();
    const { fence } = await leaseOf(driver, "a", "h");
    const earlier = JSON.parse(old.files["sessions.d/fence.json"] ?? "") as { last: number };
    assert.ok(fence > earlier.last);
    await driver.close();
    await check();
    // A crash that came before the files of follow-ups went.
    for (const [name, text] of Object.entries(old.files)) {
      if (name.startsWith("sessions/~")) await writeFile(join(folder, name), text);
    }
    await rm(join(beside, "version.json"));
    await check();
  });

  it("of a store of a newer version are left untouched", async () => {
    await (await opened()).close();
    await writeFile(join(beside, "version.json"), '{"version":5}');
    const driver = new LowdbJsonDriver({ path });
    await assert.rejects(driver.open(), (error) => hasCode(error, "store") && /newer gantry/.test(error.message));
    await driver.close();
    assert.equal(await readFile(join(beside, "version.json"), "utf8"), '{"version":5}');
  });

  it("that cannot be written refuse the change and stay as they were", async () => {
    const driver = await opened();
    await driver.create({ session: aSession("a"), messages: [growing("a", 1)] });
    // Nobody may write: the log is replaced by a folder, later put back.
    await rename(log, join(folder, "log"));
    await mkdir(log);
    // None of what is asked for at once is done, and all hear of it.
    const refusals = [
      driver.write("a", append("a-1", "lost")),
      driver.create({ session: aSession("b", { alias: "y" }), messages: [aMessage("b", 1)] }),
      driver.write("a", append("a-1", "lost too")),
    ];
    for (const refused of refusals) await assert.rejects(refused, (error) => hasCode(error, "store"));
    await rm(log, { recursive: true });
    await rename(join(folder, "log"), log);
    assert.equal(textOf((await driver.messages("a"))[0]), "");
    await driver.write("a", append("a-1", "kept"));
    assert.equal(textOf((await driver.messages("a"))[0]), "kept");
    assert.equal(await driver.get("y"), undefined);
    await driver.create({ session: aSession("c", { alias: "y" }) });
    await driver.close();
  });

  it("locked by a process that died, or whose pid is another's now, are free at once", async () => {
    const driver = await opened();
    await driver.create({ session: aSession("a") });
    const [own = ""] = await readdir(join(beside, "open"));
    const self = JSON.parse(await readFile(join(beside, "open", own, "process.json"), "utf8")) as object;
    const left = [
      { ...self, id: "i1", pid: 2 ** 22 + 1 },
      { ...self, id: "i2", started: "1" },
      { ...self, id: "i3", boot: "an earlier one" },
      undefined,
    ];
    for (const [n, holder] of left.entries()) {
      const token = `i${n + 1}`;
      if (holder) {
        await mkdir(join(beside, "open", token));
        await writeFile(join(beside, "open", token, "process.json"), JSON.stringify(holder));
      }
      await rename(join(beside, "lock", "free"), join(beside, "lock", token));
      await driver.write("a", change({ set: { title: `after ${n}` } }));
      assert.equal((await driver.get("a"))?.title, `after ${n}`);
      assert.deepEqual(await readdir(join(beside, "lock")), ["free"]);
    }
    await driver.close();
    await (await opened()).close();
    assert.deepEqual(await readdir(join(beside, "open")), [], "what the dead left is gone");
  });
});
