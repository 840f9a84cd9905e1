import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import {
  chmod,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  unlink,
  writeFile,
} from "node:fs/promises";
import { describe, it, type TestContext } from "node:test";
import { Agent, builtinTools, folderHistory, hasCode, type UndoResult } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { sqliteStore, STORES } from "../../helpers/stores.js";
import { tempDir, type TempDir } from "../../helpers/temp.js";

interface Made {
  agent: Agent;
  folder: TempDir;
  /** Runs these calls, one per answer, and then a final answer. Resolves with the session's id. */
  run(...calls: Call[]): Promise<string>;
  /** Like `run`, with all calls in one answer. */
  together(...calls: Call[]): Promise<string>;
  /** Like `run`, with a first call whose subagent makes the other calls. */
  subagent(taskCall: Call, ...calls: Call[]): Promise<string>;
  id(): string;
}

type Call = readonly [name: string, args: Record<string, unknown>];

async function make(
  t: TestContext,
  files: Record<string, string> = {},
  { driver, history = true }: { driver?: SessionDriver; history?: boolean } = {},
): Promise<Made> {
  const folder = await tempDir(t, { "home/x": "", ...prefixed(files) });
  await mkdir(folder.at("project"), { recursive: true });
  return resume(t, folder, { driver, history, script: [] });
}

/** The error with which a promise rejects. */
async function rejectionOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (error: unknown) => error,
  );
}

function prefixed(files: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(files).map(([name, text]) => [`project/${name}`, text]));
}

/** Acts like another process on the same folders. */
function resume(
  t: TestContext,
  folder: TempDir,
  {
    driver,
    history = true,
    id: sessionId,
  }: { driver?: SessionDriver | undefined; history?: boolean; script: []; id?: string },
): Made {
  const script: ScriptedStep[] = [];
  const provider = new ScriptedProvider(script, { fallback: () => script.shift() as never });
  const rules = { deniedPaths: [folder.at("home")] };
  const agent = new Agent({
    providers: [provider],
    projectDir: folder.at("project"),
    tools: builtinTools({ ...rules, bash: { sandbox: "off" } }),
    ...(history && { fileHistory: folderHistory({ folder: folder.at("home/files"), ...rules }) }),
    ...(driver && { driver }),
  });
  t.after(() => agent.close());
  let id = sessionId ?? "";
  const sendMessage = async (message: string): Promise<string> => {
    script.push("done");
    const run = await agent.run({ message, ...(id === "" ? {} : { sessionId: id }) });
    await run.result;
    return (id = run.sessionId);
  };
  return {
    agent,
    folder,
    id: () => id,
    run: async (...calls) => {
      for (const [name, args] of calls) script.push(callTools([name, args]));
      return sendMessage(`do ${calls.length}`);
    },
    subagent: async (taskCall, ...calls) => {
      script.push(...[taskCall, ...calls].map((childCall) => callTools(childCall)), "helped");
      return sendMessage("have it done");
    },
    together: async (...calls) => {
      script.push(callTools(...calls));
      return sendMessage("do all");
    },
  };
}

function describeFiles({ files }: Pick<UndoResult, "files">, folder: TempDir): string[] {
  return files.map(({ path, outcome }) => `${outcome} ${path.slice(folder.at("project").length + 1)}`);
}

async function texts(agent: Agent, id: string): Promise<string[]> {
  const messages = await agent.sessions.messages(id);
  return messages.map(
    ({ role, parts }) => `${role}:${parts.map((part) => ("text" in part ? part.text : "")).join("")}`,
  );
}

describe("undo", () => {
  for (const [store, open] of STORES)
    it(`reverts files and messages of one run after the other, and redo restores them: ${store}`, async (t) => {
      const driver = (await open(t))();
      const { agent, folder, run, id } = await make(t, { "a.txt": "one\n" }, { driver });
      await run(["write", { path: "a.txt", content: "two\n" }], ["write", { path: "new/deep/b.txt", content: "b\n" }]);
      await run(
        ["edit", { path: "a.txt", old_string: "two", new_string: "three" }],
        ["delete", { path: "new/deep/b.txt" }],
      );
      assert.equal(await folder.read("project/a.txt"), "three\n");

      const dry = await agent.sessions.undo(id(), { dryRun: true });
      assert.deepEqual(describeFiles(dry, folder), ["restored a.txt", "recreated new/deep/b.txt"]);
      assert.equal(await folder.read("project/a.txt"), "three\n");

      const first = await agent.sessions.undo(id());
      assert.deepEqual(describeFiles(first, folder), ["restored a.txt", "recreated new/deep/b.txt"]);
      assert.equal(await folder.read("project/a.txt"), "two\n");
      assert.equal(await folder.read("project/new/deep/b.txt"), "b\n");
      assert.equal((await texts(agent, id())).filter((text) => text.startsWith("user:")).length, 1);
      assert.equal((await agent.sessions.messages(id())).at(-1)?.id, first.to);

      const second = await agent.sessions.undo(id());
      assert.deepEqual(describeFiles(second, folder), ["restored a.txt", "removed new/deep/b.txt"]);
      assert.equal(await folder.read("project/a.txt"), "one\n");
      assert.equal(existsSync(folder.at("project/new")), false, "folders that were made go, too");
      assert.deepEqual(await texts(agent, id()), []);
      assert.equal(second.to, "");
      assert.ok(hasCode(await rejectionOf(agent.sessions.undo(id())), "nothing_to_undo"));

      assert.deepEqual(describeFiles(await agent.sessions.redo(id()), folder), [
        "restored a.txt",
        "recreated new/deep/b.txt",
      ]);
      assert.equal(await folder.read("project/a.txt"), "two\n");
      assert.equal(await folder.read("project/new/deep/b.txt"), "b\n");
      assert.equal((await texts(agent, id())).filter((text) => text.startsWith("user:")).length, 1);
      assert.deepEqual(describeFiles(await agent.sessions.redo(id()), folder), [
        "restored a.txt",
        "removed new/deep/b.txt",
      ]);
      assert.equal(await folder.read("project/a.txt"), "three\n");
      assert.equal((await texts(agent, id())).filter((text) => text.startsWith("user:")).length, 2);
      assert.ok(hasCode(await rejectionOf(agent.sessions.redo(id())), "nothing_to_undo"));

      // A redone change can be undone again.
      await agent.sessions.undo(id());
      assert.equal(await folder.read("project/a.txt"), "two\n");
      await run(["write", { path: "a.txt", content: "four\n" }]);
      assert.ok(hasCode(await rejectionOf(agent.sessions.redo(id())), "nothing_to_undo"), "something was said since");
      await agent.sessions.undo(id());
      assert.equal(await folder.read("project/a.txt"), "two\n");
    });

  it("overwrites foreign changes only with `force`, and redo restores what it overwrote", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "one\n", "b.txt": "b\n" });
    await run(["write", { path: "a.txt", content: "two\n" }], ["write", { path: "b.txt", content: "c\n" }]);
    await folder.write({ "project/a.txt": "a person's\n" });
    const error = await rejectionOf(agent.sessions.undo(id()));
    assert.ok(hasCode(error, "undo_conflict"));
    assert.deepEqual(describeFiles(error, folder), ["conflict a.txt", "restored b.txt"]);
    assert.equal(await folder.read("project/a.txt"), "a person's\n");
    assert.equal(await folder.read("project/b.txt"), "c\n", "nothing at all is undone");
    assert.equal((await texts(agent, id())).length, 6);

    assert.deepEqual(describeFiles(await agent.sessions.undo(id(), { force: true }), folder), [
      "restored a.txt",
      "restored b.txt",
    ]);
    assert.equal(await folder.read("project/a.txt"), "one\n");
    await agent.sessions.redo(id());
    assert.equal(await folder.read("project/a.txt"), "a person's\n");
    assert.equal(await folder.read("project/b.txt"), "c\n");
  });

  it("detects a foreign change between two changes of the session", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "one\n" });
    await run(
      ["write", { path: "a.txt", content: "two\n" }],
      ["bash", { command: "echo more >> a.txt" }],
      ["read", { path: "a.txt" }],
      ["edit", { path: "a.txt", old_string: "two", new_string: "three" }],
    );
    assert.equal(await folder.read("project/a.txt"), "three\nmore\n");
    const error = await rejectionOf(agent.sessions.undo(id()));
    assert.ok(hasCode(error, "undo_conflict"));
    assert.match(error.files[0]?.reason ?? "", /in between/);
    await agent.sessions.undo(id(), { force: true });
    assert.equal(await folder.read("project/a.txt"), "one\n");
  });

  it("reverts to any message, and with `filesOnly` keeps the messages", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "0" });
    await run(["write", { path: "a.txt", content: "1" }], ["write", { path: "a.txt", content: "2" }]);
    await run(["write", { path: "a.txt", content: "3" }]);
    const messages = await agent.sessions.messages(id());
    const results = messages.filter(({ role }) => role === "tool");
    const undone = await agent.sessions.undo(id(), { to: results[0]?.id ?? "", filesOnly: true });
    assert.equal(undone.snapshot, null);
    assert.equal(await folder.read("project/a.txt"), "1");
    assert.equal((await agent.sessions.messages(id())).length, messages.length);
    assert.deepEqual(
      describeFiles(await agent.sessions.undo(id(), { to: results[0]?.id ?? "", filesOnly: true }), folder),
      [],
    );
    await agent.sessions.redo(id());
    assert.equal(await folder.read("project/a.txt"), "3");
    const calls = messages.filter(({ role }) => role === "assistant");
    await agent.sessions.undo(id(), { to: calls[0]?.id ?? "", filesOnly: true });
    await run();
    assert.ok(hasCode(await rejectionOf(agent.sessions.redo(id())), "nothing_to_undo"), "words alone count, too");
    assert.equal(await folder.read("project/a.txt"), "0", "a call that is answered behind the message is behind it");
    assert.ok(hasCode(await rejectionOf(agent.sessions.undo(id(), { to: "none" })), "point_not_found"));
    assert.ok(hasCode(await rejectionOf(agent.sessions.undo(id(), { to: "" })), "point_not_found"));
  });

  it("reverts to a point between the results of calls in one answer", async (t) => {
    const { agent, folder, id, together } = await make(t, { "a.txt": "0", "b.txt": "0" });
    await together(["write", { path: "a.txt", content: "1" }], ["write", { path: "b.txt", content: "1" }]);
    const results = (await agent.sessions.messages(id())).filter(({ role }) => role === "tool");
    const undone = await agent.sessions.undo(id(), { to: results[0]?.id ?? "" });
    assert.deepEqual(describeFiles(undone, folder), ["restored b.txt"]);
    assert.equal(await folder.read("project/a.txt"), "1");
    await agent.sessions.redo(id());
    assert.equal(await folder.read("project/b.txt"), "1");
  });

  it("is part of a revert only with `files: true`", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "0" });
    await run(["write", { path: "a.txt", content: "1" }]);
    const end = (await agent.sessions.messages(id())).at(-1)?.id ?? "";
    await run(["write", { path: "a.txt", content: "2" }]);
    const plain = await agent.sessions.revert(id(), end);
    assert.deepEqual(Object.keys(plain).sort(), ["after", "createdAt", "id"]);
    assert.equal(await folder.read("project/a.txt"), "2");
    await agent.sessions.restore(id(), plain.id);
    const fileSnapshot = await agent.sessions.revert(id(), end, { files: true });
    assert.deepEqual(describeFiles({ files: fileSnapshot.files ?? [] }, folder), ["restored a.txt"]);
    assert.equal(await folder.read("project/a.txt"), "1");
    assert.deepEqual(
      (await agent.sessions.snapshots(id())).map((snapshot) => snapshot.id),
      [fileSnapshot.id],
    );
  });

  it("restores file modes, links, and deleted folders with their content", async (t) => {
    const { agent, folder, run, id } = await make(t, {
      "run.sh": "#!/bin/sh\n",
      "tree/a/b.txt": "b",
      "tree/c.txt": "c",
    });
    await chmod(folder.at("project/run.sh"), 0o751);
    await chmod(folder.at("project/tree/a"), 0o750);
    await mkdir(folder.at("project/tree/empty"));
    await symlink("c.txt", folder.at("project/tree/link"));
    await run(
      ["delete", { path: "run.sh" }],
      ["delete", { path: "tree/link" }],
      ["delete", { path: "tree", recursive: true }],
    );
    assert.equal(existsSync(folder.at("project/tree")), false);
    await agent.sessions.undo(id());
    assert.equal((await stat(folder.at("project/run.sh"))).mode & 0o777, 0o751);
    assert.equal((await stat(folder.at("project/tree/a"))).mode & 0o777, 0o750);
    assert.equal(await folder.read("project/tree/a/b.txt"), "b");
    assert.ok((await stat(folder.at("project/tree/empty"))).isDirectory());
    assert.equal(await readlink(folder.at("project/tree/link")), "c.txt");
    await agent.sessions.redo(id());
    assert.equal(existsSync(folder.at("project/tree")), false);
    assert.equal(existsSync(folder.at("project/run.sh")), false);
  });

  it("writes through no link that replaced a folder; with `force` it reverts the other files", async (t) => {
    const { agent, folder, run, id } = await make(t, { "src/a.txt": "1", "src/b.txt": "b", "sub/c.txt": "c" });
    await folder.write({ "outside/a.txt": "2", "project/other/a.txt": "2" });
    await run(
      ["write", { path: "src/a.txt", content: "2" }],
      ["delete", { path: "src/b.txt" }],
      ["write", { path: "sub/made.txt", content: "x" }],
    );
    await rename(folder.at("project/src"), folder.at("project/away"));
    for (const to of [folder.at("outside"), folder.at("project/other")]) {
      await symlink(to, folder.at("project/src"));
      const { files } = await agent.sessions.undo(id(), { dryRun: true, force: true });
      assert.deepEqual(describeFiles({ files }, folder), [
        "failed src/a.txt",
        "failed src/b.txt",
        "removed sub/made.txt",
      ]);
      await unlink(folder.at("project/src"));
    }
    await symlink(folder.at("outside"), folder.at("project/src"));
    await agent.sessions.undo(id(), { force: true });
    assert.equal(await folder.read("outside/a.txt"), "2");
    assert.equal(existsSync(folder.at("outside/b.txt")), false);
    assert.equal(existsSync(folder.at("project/sub/made.txt")), false);
  });

  it("works in another process, also after a crash in the middle of a change", async (t) => {
    const open = await sqliteStore[1](t);
    const { agent, folder, run, id } = await make(t, { "a.txt": "one\n", "b.txt": "b\n" }, { driver: open() });
    await run(["write", { path: "a.txt", content: "two\n" }], ["write", { path: "b.txt", content: "c\n" }]);
    await agent.close();
    // Simulates a power failure after the plan was recorded: b.txt is unchanged, and the last line is incomplete.
    const journal = folder.at("home/files", id(), "journal.jsonl");
    const lines = (await folder.read(`home/files/${id()}/journal.jsonl`)).trim().split("\n");
    const last = lines.findLastIndex((line) => line.startsWith('{"change"'));
    await writeFile(journal, `${lines.slice(0, last + 1).join("\n")}\n{"done":"half`);
    await folder.write({ "project/b.txt": "b\n" });
    const next = resume(t, folder, { driver: open(), script: [], id: id() });
    assert.deepEqual(describeFiles(await next.agent.sessions.undo(id(), { dryRun: true }), folder), ["restored a.txt"]);
    await next.run(["write", { path: "b.txt", content: "d\n" }]);
    await next.agent.sessions.undo(id());
    assert.equal(await folder.read("project/b.txt"), "b\n");
    await next.agent.sessions.undo(id());
    assert.equal(await folder.read("project/a.txt"), "one\n");
  });

  it("resumes or reverts an undo that was killed between removing one entry and creating another", async (t) => {
    for (const verb of ["undo", "redo"] as const) {
      const open = await sqliteStore[1](t);
      const { agent, folder, run, id } = await make(t, { place: "a file", "old/a.txt": "a" }, { driver: open() });
      await run(
        ["delete", { path: "place" }],
        ["write", { path: "place/inner.txt", content: "i" }],
        ["delete", { path: "old", recursive: true }],
      );
      await agent.sessions.undo(id(), { filesOnly: true });
      await agent.close();
      const journal = folder.at("home/files", id(), "journal.jsonl");
      const lines = (await readFile(journal, "utf8")).trim().split("\n");
      const last = lines.findLastIndex((line) => line.startsWith('{"change"'));
      await writeFile(journal, `${lines.slice(0, last + 1).join("\n")}\n`);
      const { change } = JSON.parse(lines[last] ?? "") as { change: string };
      // The folder is missing, and both files are half written beside their targets.
      await rm(folder.at("project/place"));
      await rm(folder.at("project/old/a.txt"));
      const half = (name: string) => `.${name}.${change.replaceAll("-", "").slice(-12)}.tmp`;
      await folder.write({ [`project/${half("place")}`]: "a f", [`project/old/${half("a.txt")}`]: "" });
      const next = resume(t, folder, { driver: open(), script: [], id: id() });
      await next.agent.sessions[verb](id());
      const there = await readdir(folder.at("project"), { recursive: true });
      if (verb === "undo") assert.deepEqual(there.sort(), ["old", "old/a.txt", "place"]);
      else assert.deepEqual(there.sort(), ["place", "place/inner.txt"]);
    }
  });

  it("stores copies that only the owner can read, and deletes them with the session", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "one\n" });
    await run(["write", { path: "a.txt", content: "two\n" }]);
    const historyFolder = folder.at("home/files", id());
    assert.equal((await lstat(historyFolder)).mode & 0o777, 0o700);
    assert.equal((await lstat(folder.at("home/files", id(), "0.pack"))).mode & 0o777, 0o600);
    await agent.sessions.delete(id());
    await agent.close();
    assert.equal(existsSync(historyFolder), false);
  });

  it("reports files that it cannot restore, and with `force` restores the others", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "one\n", "b.txt": "b\n" });
    await run(["write", { path: "a.txt", content: "two\n" }], ["write", { path: "b.txt", content: "c\n" }]);
    const pack = folder.at("home/files", id(), "0.pack");
    // Damages the first copy.
    await writeFile(pack, (await folder.read(`home/files/${id()}/0.pack`)).replace("one", "xxx"));
    const error = await rejectionOf(agent.sessions.undo(id()));
    assert.ok(hasCode(error, "undo_conflict"));
    assert.match(error.message, /^no copy of a file is stored; nothing was undone$/);
    assert.deepEqual(describeFiles(error, folder), ["lost a.txt", "restored b.txt"]);
    assert.equal(await folder.read("project/b.txt"), "c\n");
    await agent.sessions.undo(id(), { force: true });
    assert.equal(await folder.read("project/a.txt"), "two\n");
    assert.equal(await folder.read("project/b.txt"), "b\n");
  });

  it("reports lost files if no copy is stored; only `force` and `messagesOnly` revert the messages", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "one\n" });
    await folder.write({ "home/files": "no folder" });
    await run(["write", { path: "a.txt", content: "two\n" }]);
    assert.equal(await folder.read("project/a.txt"), "two\n");
    await rm(folder.at("home/files"));
    const error = await rejectionOf(agent.sessions.undo(id()));
    assert.ok(hasCode(error, "undo_conflict"));
    assert.deepEqual(describeFiles(error, folder), ["lost a.txt"]);
    assert.equal((await texts(agent, id())).length, 4);
    assert.deepEqual(describeFiles(await agent.sessions.undo(id(), { force: true }), folder), ["lost a.txt"]);
    assert.deepEqual(await texts(agent, id()), []);
    assert.equal(await folder.read("project/a.txt"), "two\n");

    const plain = await make(t, { "a.txt": "one\n" }, { history: false });
    await plain.run(["write", { path: "a.txt", content: "two\n" }]);
    const refused = await rejectionOf(plain.agent.sessions.undo(plain.id()));
    assert.ok(hasCode(refused, "undo_conflict"), String(refused));
    const dry = await plain.agent.sessions.undo(plain.id(), { dryRun: true });
    assert.deepEqual(describeFiles(dry, plain.folder), ["lost a.txt"]);
    assert.deepEqual((await plain.agent.sessions.undo(plain.id(), { messagesOnly: true })).files, []);
    assert.deepEqual(await texts(plain.agent, plain.id()), []);
    await plain.run();
    assert.equal((await texts(plain.agent, plain.id())).length, 2, "a session that was emptied goes on");
    await plain.run(["write", { path: "a.txt", content: "three\n" }]);
    const forced = await plain.agent.sessions.undo(plain.id(), { force: true });
    assert.deepEqual(describeFiles(forced, plain.folder), ["lost a.txt"]);
    assert.equal((await texts(plain.agent, plain.id())).length, 2);
  });

  it("restores folders, files and links that another type of entry replaced, and binary files", async (t) => {
    const { agent, folder, run, id } = await make(t, {
      "d/x/y": "y",
      "case.txt": "c",
      empty: "",
      file: "f",
      twice: "t",
    });
    const bytes = Buffer.from([0, 255, 254, 13, 10, 0]);
    const long = `${"\u5b57".repeat(80)}.txt`;
    await folder.write({ "project/b.bin": bytes, [`project/${long}`]: "1" });
    await symlink("case.txt", folder.at("project/link"));
    await symlink("d", folder.at("project/link2"));
    const before = ["b.bin", "case.txt", "d", "empty", "file", "link", "link2", long, "twice"].sort();
    await run(
      ...([
        ["delete", { path: "d", recursive: true }],
        ["write", { path: "d", content: "a file" }],
        ["delete", { path: "link" }],
        ["write", { path: "link", content: "a file" }],
        ["delete", { path: "b.bin" }],
        ["write", { path: "b.bin", content: "text" }],
        ["delete", { path: "case.txt" }],
        ["write", { path: "Case.txt", content: "C" }],
        ["write", { path: "e/f/g", content: "1" }],
        ["delete", { path: "e/f/g" }],
        ["delete", { path: "e/f" }],
        ["write", { path: "e/f", content: "a file" }],
        ["write", { path: "empty", content: "full" }],
        ["write", { path: long, content: "2" }],
        // Folders in place of deleted entries, created for a file below them.
        ["delete", { path: "file" }],
        ["write", { path: "file/in/it", content: "3" }],
        ["delete", { path: "link2" }],
        ["write", { path: "link2/x/y", content: "3" }],
        ["delete", { path: "twice" }],
        ["write", { path: "twice/x", content: "3" }],
        ["delete", { path: "twice", recursive: true }],
      ] satisfies Call[]),
    );
    const failed = (await agent.sessions.messages(id())).filter((message) => message.failed);
    assert.deepEqual(
      failed.map(({ parts }) => parts),
      [],
    );
    for (let i = 0; i < 2; i++) {
      await agent.sessions.undo(id());
      assert.deepEqual((await readdir(folder.at("project"))).sort(), before);
      assert.equal(await folder.read("project/file"), "f");
      assert.equal(await folder.read("project/twice"), "t");
      assert.equal(await readlink(folder.at("project/link2")), "d");
      assert.equal(await folder.read("project/d/x/y"), "y");
      assert.equal(await readlink(folder.at("project/link")), "case.txt");
      assert.ok((await readFile(folder.at("project/b.bin"))).equals(bytes));
      assert.equal(await folder.read("project/empty"), "");
      assert.equal(await folder.read(`project/${long}`), "1");
      await agent.sessions.redo(id());
      assert.equal(await folder.read("project/d"), "a file");
      assert.equal(await folder.read("project/e/f"), "a file");
      assert.equal(await folder.read("project/file/in/it"), "3");
      assert.equal(await folder.read("project/link2/x/y"), "3");
      assert.equal(await folder.read("project/link"), "a file");
      assert.equal(await folder.read("project/Case.txt"), "C");
      assert.equal(existsSync(folder.at("project/case.txt")), false);
    }
  });

  it("reverts a subagent's changes with the parent session, and rejects an undo of the subagent's session", async (t) => {
    const { agent, folder, id, run, subagent } = await make(t, { "a.txt": "one\n" });
    await subagent(["task", { description: "d", prompt: "p" }], ["write", { path: "a.txt", content: "two\n" }]);
    assert.equal(await folder.read("project/a.txt"), "two\n");
    const [subagentSession] = (await agent.sessions.list({ spawnedBy: id() })).sessions;
    const error = await rejectionOf(agent.sessions.undo(subagentSession?.id ?? ""));
    assert.ok(hasCode(error, "undo_conflict"), String(error));
    assert.equal(error.files[0]?.reason, `undo it with session ${id()}`);
    assert.deepEqual(describeFiles(await agent.sessions.undo(id()), folder), ["restored a.txt"]);
    assert.equal(await folder.read("project/a.txt"), "one\n");
    await agent.sessions.redo(id());
    assert.equal(await folder.read("project/a.txt"), "two\n");
    await run();
  });

  it("a tool result says once for each file that no copy was stored", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "one\n" });
    await folder.write({ "project/large.txt": "x".repeat(21 * 1024 * 1024), "home/files": "no folder" });
    const results = async (): Promise<string[]> => {
      const allTexts = await texts(agent, id());
      return allTexts.filter((text) => text.startsWith("tool:"));
    };
    await run(["write", { path: "a.txt", content: "two\n" }], ["write", { path: "a.txt", content: "three\n" }]);
    const [first, second] = await results();
    assert.match(first ?? "", /\. No copy was stored of the previous content: undo cannot restore it\.$/);
    assert.doesNotMatch(second ?? "", /No copy/);
    await rm(folder.at("home/files"));
    await run(["write", { path: "large.txt", content: "small\n" }], ["write", { path: "large.txt", content: "s\n" }]);
    const [, , third, fourth] = await results();
    assert.match(third ?? "", /No copy was stored of large\.txt: undo cannot restore it\.$/);
    assert.doesNotMatch(fourth ?? "", /No copy/);
    const error = await rejectionOf(agent.sessions.undo(id()));
    assert.ok(hasCode(error, "undo_conflict"));
    assert.deepEqual(describeFiles(error, folder), ["lost large.txt"]);
  });

  it("stores the content that `force` overwrites, and changes nothing if it cannot", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "one\n", "b.txt": "b\n" });
    await run(["write", { path: "a.txt", content: "two\n" }], ["write", { path: "b.txt", content: "c\n" }]);
    const large = "x".repeat(21 * 1024 * 1024);
    await folder.write({ "project/b.txt": large });
    const error = await rejectionOf(agent.sessions.undo(id(), { force: true }));
    assert.ok(hasCode(error, "undo_conflict"));
    assert.deepEqual(describeFiles(error, folder), ["restored a.txt", "conflict b.txt"]);
    assert.match(error.files[1]?.reason ?? "", /too large/);
    assert.equal(await folder.read("project/a.txt"), "two\n");
    assert.equal((await texts(agent, id())).length, 6);
    await rename(folder.at("project/b.txt"), folder.at("project/large"));

    await folder.write({ "project/b.txt": "a person's\n" });
    // The history cannot store a copy.
    await mkdir(folder.at("home/files", id(), "1.pack"));
    const full = await rejectionOf(agent.sessions.undo(id(), { force: true }));
    assert.ok(hasCode(full, "undo_conflict"));
    assert.deepEqual(describeFiles(full, folder), ["failed a.txt", "restored b.txt"]);
    assert.match(full.files[0]?.reason ?? "", /^the current content could not be saved: EISDIR/);
    assert.equal(await folder.read("project/a.txt"), "two\n");
    await rm(folder.at("home/files", id(), "1.pack"), { recursive: true });
    assert.equal(await folder.read("project/b.txt"), "a person's\n");
    await agent.sessions.undo(id(), { force: true });
    await agent.sessions.redo(id());
    assert.equal(await folder.read("project/b.txt"), "a person's\n");
  });

  it("removes folders that were created for a file, unless they contain foreign files", async (t) => {
    const { agent, folder, run, id } = await make(t, { "f.txt": "f", place: "a file" });
    await run(["delete", { path: "place" }], ["write", { path: "ways/a/x", content: "1" }]);
    await run(
      ["write", { path: "place/b/y", content: "2" }],
      // The folder is not empty, so the call is rejected and nothing is deleted.
      ["delete", { path: "ways/a" }],
      ["write", { path: "gone/z", content: "3" }],
      ["delete", { path: "gone/z" }],
    );
    const there = async () => (await readdir(folder.at("project"), { recursive: true })).sort();
    const after = await there();
    assert.deepEqual(describeFiles(await agent.sessions.undo(id()), folder), ["removed place/b/y"]);
    assert.deepEqual(await there(), ["f.txt", "ways", "ways/a", "ways/a/x"]);
    await agent.sessions.undo(id());
    assert.deepEqual(await there(), ["f.txt", "place"]);
    await agent.sessions.redo(id());
    await agent.sessions.redo(id());
    assert.deepEqual(await there(), after);

    await folder.write({ "project/ways/own.txt": "mine" });
    await rm(folder.at("project/place"), { recursive: true });
    await folder.write({ "project/place": "mine" });
    await agent.sessions.undo(id());
    assert.equal(await folder.read("project/place"), "mine");
    assert.ok(hasCode(await rejectionOf(agent.sessions.undo(id())), "undo_conflict"));
    await agent.sessions.undo(id(), { force: true });
    assert.equal(await folder.read("project/place"), "a file");
    assert.deepEqual(await there(), ["f.txt", "place", "ways", "ways/own.txt"]);
  });

  it("restores the mode of a file that was deleted and created again, and keeps a folder with content", async (t) => {
    const { agent, folder, run, id } = await make(t, { "run.sh": "one\n", "same.sh": "same\n", "c.txt": "c" });
    for (const name of ["run.sh", "same.sh"]) await chmod(folder.at("project", name), 0o755);
    await run(
      ["delete", { path: "run.sh" }],
      ["write", { path: "run.sh", content: "two\n" }],
      ["delete", { path: "same.sh" }],
      ["write", { path: "same.sh", content: "same\n" }],
      ["delete", { path: "c.txt" }],
    );
    assert.equal((await stat(folder.at("project/run.sh"))).mode & 0o111, 0);
    await folder.write({ "project/c.txt/theirs": "1" });
    const error = await rejectionOf(agent.sessions.undo(id(), { force: true }));
    assert.ok(hasCode(error, "undo_conflict"));
    assert.match(error.files.find(({ outcome }) => outcome === "conflict")?.reason ?? "", /now a folder/);
    assert.equal(await folder.read("project/run.sh"), "two\n");
    await rm(folder.at("project/c.txt"), { recursive: true });
    await agent.sessions.undo(id());
    for (const name of ["run.sh", "same.sh"])
      assert.equal((await stat(folder.at("project", name))).mode & 0o777, 0o755);
    await agent.sessions.redo(id());
    assert.equal(await folder.read("project/run.sh"), "two\n");
    assert.equal((await stat(folder.at("project/run.sh"))).mode & 0o111, 0);
  });

  it("rolls back its changes if writing one path fails", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "a", "z/b.txt": "b" });
    await run(["write", { path: "a.txt", content: "A" }], ["write", { path: "z/b.txt", content: "B" }]);
    const full = folder.at("project/z");
    if (process.getuid?.() === 0) return t.skip("root may write everywhere");
    await chmod(full, 0o555);
    const error = await rejectionOf(agent.sessions.undo(id()));
    const redone = await rejectionOf(agent.sessions.redo(id()));
    await chmod(full, 0o755);
    assert.ok(hasCode(error, "undo_conflict"));
    assert.ok(hasCode(redone, "nothing_to_undo"));
    assert.equal(await folder.read("project/a.txt"), "A");
    assert.equal((await agent.sessions.undo(id())).files.length, 2);
    assert.equal(await folder.read("project/a.txt"), "a");
  });
});
