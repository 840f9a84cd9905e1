import assert from "node:assert/strict";
import { appendFile, mkdir, mkdtemp, readFile, readdir, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { hasCode } from "gantry";
import type { Logger } from "gantry";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import { fileName, slotOf } from "../../adapters/lowdb-json-driver/layout.js";
import {
  aMessage,
  aSession,
  at,
  change,
  growing,
  leaseOf,
  listed,
  someMessages,
  textOf,
} from "../../src/testing/session-driver/rule.js";

describe("the files of LowdbJsonDriver", () => {
  let folder = "";
  let path = "";
  let beside = "";
  let reports: string[] = [];
  const logger: Logger = {
    debug: () => undefined,
    info: () => undefined,
    warn: (message) => reports.push(message),
    error: (message, fields) => reports.push(`${message}: ${JSON.stringify(fields)}`),
  };
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "gantry-json-"));
    path = join(folder, "sessions");
    beside = `${path}.d`;
    reports = [];
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  async function opened(): Promise<LowdbJsonDriver> {
    const driver = new LowdbJsonDriver({ path }, logger);
    await driver.open();
    return driver;
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

  it("grow by what is new alone, and are folded in when the lease is given back", async () => {
    const driver = await opened();
    await driver.create({
      session: aSession("a"),
      messages: [aMessage("a", 1, { parts: [{ type: "text", text: "x".repeat(100_000) }] })],
    });
    const file = await stat(join(path, "a.json"));
    const lease = await leaseOf(driver, "a", "h");
    await driver.write("a", { ...change({ add: [growing("a", 2)] }), fence: lease.fence });
    const journal = async (): Promise<number> => (await stat(join(beside, "journals", "a.jsonl"))).size;
    const before = await journal();
    for (let n = 0; n < 10; n++) await driver.write("a", { ...append("a-2", "token "), fence: lease.fence });
    assert.ok((await journal()) - before < 10 * 300);
    assert.equal((await stat(join(path, "a.json"))).mtimeMs, file.mtimeMs, "not written anew");
    await driver.release(lease);
    assert.deepEqual(await readdir(join(beside, "journals")), []);
    const folded = JSON.parse(await readFile(join(path, "a.json"), "utf8")) as { messages: unknown[] };
    assert.equal(folded.messages.length, 2);
    assert.equal(textOf((await driver.messages("a"))[1]), "token ".repeat(10));
    await driver.close();
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

  it("that are bad are left out, reported and kept, and their ids are not used again", async () => {
    const driver = await opened();
    for (const id of ["good", "bad"]) await driver.create({ session: aSession(id), messages: [aMessage(id, 1)] });
    await driver.close();
    await writeFile(join(path, "bad.json"), '{"half": ');
    await writeFile(join(path, "stray.json"), "[]");
    await writeFile(join(path, "newer.json"), JSON.stringify({ version: 99 }));
    const second = await opened();
    assert.deepEqual(await second.messages("bad"), []);
    assert.deepEqual(await listed(second), ["good"]);
    assert.equal((await second.messages("good")).length, 1);
    await assert.rejects(second.create({ session: aSession("bad") }), (error) => hasCode(error, "session_exists"));
    await assert.rejects(second.create({ session: aSession("stray") }), (error) => hasCode(error, "session_exists"));
    for (const name of ["bad", "stray", "newer"]) {
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
      () => rm(join(beside, "index.jsonl")),
      () => writeFile(join(beside, "index.jsonl"), "\0\0\0rubbish\n"),
      () => appendFile(join(beside, "index.jsonl"), "{half a line"),
      () => truncate(join(beside, "index.jsonl"), 60),
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
    await writeFile(join(path, "c.json"), (await readFile(join(path, "b.json"), "utf8")).replaceAll('"b"', '"c"'));
    await rm(join(path, "a.json"));
    const last = await opened();
    assert.deepEqual(await listed(last), ["c", "b"]);
    assert.equal(await last.get("a1"), undefined);
    await last.close();
  });

  it("go on when the counter of fences or a lease is damaged: the fence still grows, an old holder is shut out", async () => {
    const driver = await opened();
    await driver.create({ session: aSession("a") });
    const first = await leaseOf(driver, "a", "h");
    for (const text of ["", "{", '{"last":"x"}', "null", "\0\0\0"]) {
      reports = [];
      await writeFile(join(beside, "fence.json"), text);
      await writeFile(join(beside, "leases", "a.json"), text);
      const next = await leaseOf(driver, "a", `after ${JSON.stringify(text)}`);
      assert.ok(next.fence > first.fence, text);
      await assert.rejects(driver.write("a", change({ fence: first.fence, add: [aMessage("a", 1)] })), (error) =>
        hasCode(error, "lease_lost"),
      );
      await driver.release(next);
      if (text === "{")
        assert.deepEqual(new Set(reports), new Set(["a file beside the sessions is damaged; it is written anew"]));
    }
    await driver.close();
  });

  it("lose no acknowledged line when a journal ends in the middle of one, and keep a copy of a damaged one", async () => {
    const driver = await opened();
    await driver.create({ session: aSession("a"), messages: [growing("a", 1)] });
    await driver.write("a", append("a-1", "one "));
    await driver.write("a", append("a-1", "two"));
    const journal = join(beside, "journals", "a.jsonl");
    await appendFile(journal, '{"id":"a","change":{"fen');
    const second = await opened();
    assert.equal(textOf((await second.messages("a"))[0]), "one two");
    await second.write("a", append("a-1", " three"));
    assert.equal(textOf((await driver.messages("a"))[0]), "one two three");
    await appendFile(journal, "rubbish from a power cut\n");
    const third = await opened();
    assert.equal(textOf((await third.messages("a"))[0]), "one two three");
    assert.ok((await readdir(beside)).some((name) => name.startsWith("bad-")));
    for (const one of [driver, second, third]) await one.close();
  });

  it("that a crash left half folded are completed, and nothing counts twice", async () => {
    const usage = { promptTokens: 1, completionTokens: 1, totalTokens: 2, cost: 1 };
    const driver = await opened();
    await driver.create({ session: aSession("a") });
    const lease = await leaseOf(driver, "a", "h");
    const second = join(path, `${fileName("a.1")}.json`);
    const follow = aSession("a.1", { chain: { root: "a", index: 1 } });
    await driver.create({ session: follow, messages: [growing("a.1", 1)], fence: lease.fence });
    const before = await readFile(second, "utf8");
    await driver.write("a.1", { ...change({ add: [aMessage("a.1", 2)], usage }), fence: lease.fence });
    await driver.write("a.1", { ...append("a.1-1", "grown"), fence: lease.fence });
    const journal = join(beside, "journals", "a.jsonl");
    const lines = await readFile(journal, "utf8");
    await driver.release(lease);
    await driver.close();

    // As it was between the two renames: the original's file is in place, the follow-up's still waits.
    await mkdir(join(beside, "crashed"));
    await writeFile(join(beside, "crashed", "2.tmp"), await readFile(second));
    await writeFile(second, before);
    const moves = [
      [join("crashed", "1.tmp"), relative(beside, join(path, "a.json"))],
      [join("crashed", "2.tmp"), relative(beside, second)],
    ];
    await writeFile(journal, `${lines}${JSON.stringify({ fold: moves })}\n`);
    const again = await opened();
    assert.equal((await again.get("a"))?.usage.promptTokens, 1);
    assert.equal((await again.get("a.1"))?.usage.promptTokens, 1);
    const messages = await again.messages("a.1");
    assert.deepEqual([messages.length, textOf(messages[0])], [2, "grown"]);
    await again.close();
    assert.deepEqual(await readdir(join(beside, "journals")), []);
    assert.deepEqual(reports, []);
  });

  it("of a session whose deletion a crash cut short go with their journal", async () => {
    const driver = await opened();
    await driver.create({ session: aSession("a") });
    await driver.write("a", change({ add: [aMessage("a", 1)] }));
    const journal = join(beside, "journals", "a.jsonl");
    await appendFile(journal, `${JSON.stringify({ gone: ["a"] })}\n`);
    await rm(join(path, "a.json"));
    await driver.close();
    const again = await opened();
    assert.equal(await again.get("a"), undefined);
    await again.create({ session: aSession("a") });
    assert.deepEqual(await again.messages("a"), []);
    await again.close();
    assert.deepEqual(
      (await readdir(beside)).filter((name) => name.startsWith("bad-")),
      [],
    );
    assert.deepEqual(reports, []);
  });

  it("of a store of a newer version are left untouched", async () => {
    await (await opened()).close();
    await writeFile(join(beside, "version.json"), '{"version":2}');
    const driver = new LowdbJsonDriver({ path });
    await assert.rejects(driver.open(), (error) => hasCode(error, "store") && /newer gantry/.test(error.message));
    await driver.close();
    assert.equal(await readFile(join(beside, "version.json"), "utf8"), '{"version":2}');
  });

  it("that cannot be written refuse the change and stay as they were", async () => {
    const driver = await opened();
    await driver.create({ session: aSession("a"), messages: [growing("a", 1)] });
    const journal = join(beside, "journals", "a.jsonl");
    await mkdir(journal);
    await assert.rejects(driver.write("a", append("a-1", "lost")), (error) => hasCode(error, "store"));
    await rm(journal, { recursive: true });
    assert.equal(textOf((await driver.messages("a"))[0]), "");
    await driver.write("a", append("a-1", "kept"));
    assert.equal(textOf((await driver.messages("a"))[0]), "kept");
    await driver.close();
  });

  it("locked by a process that died, or whose pid is another's now, are free at once", async () => {
    const driver = await opened();
    await driver.create({ session: aSession("a") });
    const slot = join(beside, "locks", slotOf("a"));
    const newest = Math.max(...(await readdir(slot)).map((name) => Number.parseInt(name, 10)));
    const [own = ""] = await readdir(join(beside, "open"));
    const self = JSON.parse(await readFile(join(beside, "open", own, "process.json"), "utf8")) as object;
    const left = [
      { ...self, instance: "i1", pid: 2 ** 22 + 1 },
      { ...self, instance: "i2", started: "1" },
      { ...self, instance: "i3", boot: "an earlier one" },
    ];
    for (const [n, holder] of left.entries()) {
      await writeFile(join(slot, `${newest + 1000 * (n + 1)}`), JSON.stringify(holder));
      await driver.write("a", change({ set: { title: `after ${n}` } }));
      assert.equal((await driver.get("a"))?.title, `after ${n}`);
    }
    await driver.close();
  });
});
