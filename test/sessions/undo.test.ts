import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chmod, lstat, mkdir, readlink, rename, rm, stat, symlink, unlink, writeFile } from "node:fs/promises";
import { describe, it, type TestContext } from "node:test";
import { Agent, builtinTools, folderHistory, hasCode, type SessionDriver, type Undone } from "gantry";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { STORES } from "../helpers/stores.js";
import { tempDir, type TempDir } from "../helpers/temp.js";

interface Made {
  agent: Agent;
  folder: TempDir;
  /** A run that makes these calls, one an answer, and says a word. Resolves with the session's id. */
  run(...calls: Call[]): Promise<string>;
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

/** What a promise rejects with. */
async function caught(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (error: unknown) => error,
  );
}

function prefixed(files: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(files).map(([name, text]) => [`project/${name}`, text]));
}

/** Another process on the same folders, as it were. */
function resume(
  t: TestContext,
  folder: TempDir,
  {
    driver,
    history = true,
    id: given,
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
  let id = given ?? "";
  return {
    agent,
    folder,
    id: () => id,
    run: async (...calls) => {
      for (const [name, args] of calls) script.push(callTools([name, args]));
      script.push("done");
      const run = await agent.run({ message: `do ${calls.length}`, ...(id === "" ? {} : { sessionId: id }) });
      await run.result;
      id = run.sessionId;
      return id;
    },
  };
}

function told({ files }: Pick<Undone, "files">, folder: TempDir): string[] {
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
    it(`takes back the last run and then the one before, files and words, and brings them again: ${store}`, async (t) => {
      const driver = (await open(t))();
      const { agent, folder, run, id } = await make(t, { "a.txt": "one\n" }, { driver });
      await run(["write", { path: "a.txt", content: "two\n" }], ["write", { path: "new/deep/b.txt", content: "b\n" }]);
      await run(
        ["edit", { path: "a.txt", old_string: "two", new_string: "three" }],
        ["delete", { path: "new/deep/b.txt" }],
      );
      assert.equal(await folder.read("project/a.txt"), "three\n");

      const dry = await agent.sessions.undo(id(), { dryRun: true });
      assert.deepEqual(told(dry, folder), ["restored a.txt", "made new/deep/b.txt"]);
      assert.equal(await folder.read("project/a.txt"), "three\n");

      const first = await agent.sessions.undo(id());
      assert.deepEqual(told(first, folder), ["restored a.txt", "made new/deep/b.txt"]);
      assert.equal(await folder.read("project/a.txt"), "two\n");
      assert.equal(await folder.read("project/new/deep/b.txt"), "b\n");
      assert.equal((await texts(agent, id())).filter((text) => text.startsWith("user:")).length, 1);
      assert.equal((await agent.sessions.messages(id())).at(-1)?.id, first.to);

      const second = await agent.sessions.undo(id());
      assert.deepEqual(told(second, folder), ["restored a.txt", "removed new/deep/b.txt"]);
      assert.equal(await folder.read("project/a.txt"), "one\n");
      assert.equal(existsSync(folder.at("project/new")), false, "folders that were made go, too");
      assert.deepEqual(await texts(agent, id()), []);
      assert.equal(second.to, "");
      assert.ok(hasCode(await caught(agent.sessions.undo(id())), "nothing_to_undo"));

      assert.deepEqual(told(await agent.sessions.redo(id()), folder), ["restored a.txt", "made new/deep/b.txt"]);
      assert.equal(await folder.read("project/a.txt"), "two\n");
      assert.equal(await folder.read("project/new/deep/b.txt"), "b\n");
      assert.equal((await texts(agent, id())).filter((text) => text.startsWith("user:")).length, 1);
      assert.deepEqual(told(await agent.sessions.redo(id()), folder), ["restored a.txt", "removed new/deep/b.txt"]);
      assert.equal(await folder.read("project/a.txt"), "three\n");
      assert.equal((await texts(agent, id())).filter((text) => text.startsWith("user:")).length, 2);
      assert.ok(hasCode(await caught(agent.sessions.redo(id())), "nothing_to_undo"));

      // What was brought again can be taken back again.
      await agent.sessions.undo(id());
      assert.equal(await folder.read("project/a.txt"), "two\n");
      await run(["write", { path: "a.txt", content: "four\n" }]);
      assert.ok(hasCode(await caught(agent.sessions.redo(id())), "nothing_to_undo"), "something was said since");
      await agent.sessions.undo(id());
      assert.equal(await folder.read("project/a.txt"), "two\n");
    });

  it("overwrites nothing that somebody else changed, unless that is forced, and what it overwrote comes back", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "one\n", "b.txt": "b\n" });
    await run(["write", { path: "a.txt", content: "two\n" }], ["write", { path: "b.txt", content: "c\n" }]);
    await folder.write({ "project/a.txt": "a person's\n" });
    const error = await caught(agent.sessions.undo(id()));
    assert.ok(hasCode(error, "undo_conflict"));
    assert.deepEqual(told(error, folder), ["conflict a.txt", "restored b.txt"]);
    assert.equal(await folder.read("project/a.txt"), "a person's\n");
    assert.equal(await folder.read("project/b.txt"), "c\n", "nothing at all is undone");
    assert.equal((await texts(agent, id())).length, 6);

    assert.deepEqual(told(await agent.sessions.undo(id(), { force: true }), folder), [
      "restored a.txt",
      "restored b.txt",
    ]);
    assert.equal(await folder.read("project/a.txt"), "one\n");
    await agent.sessions.redo(id());
    assert.equal(await folder.read("project/a.txt"), "a person's\n");
    assert.equal(await folder.read("project/b.txt"), "c\n");
  });

  it("knows what somebody else changed between two changes of the session", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "one\n" });
    await run(
      ["write", { path: "a.txt", content: "two\n" }],
      ["bash", { command: "echo more >> a.txt" }],
      ["read", { path: "a.txt" }],
      ["edit", { path: "a.txt", old_string: "two", new_string: "three" }],
    );
    assert.equal(await folder.read("project/a.txt"), "three\nmore\n");
    const error = await caught(agent.sessions.undo(id()));
    assert.ok(hasCode(error, "undo_conflict"));
    assert.match(error.files[0]?.why ?? "", /in between/);
    await agent.sessions.undo(id(), { force: true });
    assert.equal(await folder.read("project/a.txt"), "one\n");
  });

  it("goes back to any message, and leaves what was said where only files are wanted", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "0" });
    await run(["write", { path: "a.txt", content: "1" }], ["write", { path: "a.txt", content: "2" }]);
    await run(["write", { path: "a.txt", content: "3" }]);
    const messages = await agent.sessions.messages(id());
    const results = messages.filter(({ role }) => role === "tool");
    const undone = await agent.sessions.undo(id(), { to: results[0]?.id ?? "", filesOnly: true });
    assert.equal(undone.snapshot, null);
    assert.equal(await folder.read("project/a.txt"), "1");
    assert.equal((await agent.sessions.messages(id())).length, messages.length);
    assert.deepEqual(told(await agent.sessions.undo(id(), { to: results[0]?.id ?? "", filesOnly: true }), folder), []);
    await agent.sessions.redo(id());
    assert.equal(await folder.read("project/a.txt"), "3");
    const calls = messages.filter(({ role }) => role === "assistant");
    await agent.sessions.undo(id(), { to: calls[0]?.id ?? "", filesOnly: true });
    await run();
    assert.ok(hasCode(await caught(agent.sessions.redo(id())), "nothing_to_undo"), "words alone count, too");
    assert.equal(await folder.read("project/a.txt"), "0", "a call that is answered behind the message is behind it");
    assert.ok(hasCode(await caught(agent.sessions.undo(id(), { to: "none" })), "point_not_found"));
    assert.ok(hasCode(await caught(agent.sessions.undo(id(), { to: "" })), "point_not_found"));
  });

  it("is what a revert does that is asked for files, and no other", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "0" });
    await run(["write", { path: "a.txt", content: "1" }]);
    const end = (await agent.sessions.messages(id())).at(-1)?.id ?? "";
    await run(["write", { path: "a.txt", content: "2" }]);
    const plain = await agent.sessions.revert(id(), end);
    assert.deepEqual(Object.keys(plain).sort(), ["after", "createdAt", "id"]);
    assert.equal(await folder.read("project/a.txt"), "2");
    await agent.sessions.restore(id(), plain.id);
    const whole = await agent.sessions.revert(id(), end, { files: true });
    assert.deepEqual(told({ files: whole.files ?? [] }, folder), ["restored a.txt"]);
    assert.equal(await folder.read("project/a.txt"), "1");
    assert.deepEqual(
      (await agent.sessions.snapshots(id())).map((one) => one.id),
      [whole.id],
    );
  });

  it("brings back modes, links, folders and all that was in one", async (t) => {
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

  it("writes nowhere else where a link takes the place of a folder, and changes nothing that is protected", async (t) => {
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
      assert.deepEqual(told({ files }, folder), ["failed src/a.txt", "failed src/b.txt", "removed sub/made.txt"]);
      await unlink(folder.at("project/src"));
    }
    await symlink(folder.at("outside"), folder.at("project/src"));
    await agent.sessions.undo(id(), { force: true });
    assert.equal(await folder.read("outside/a.txt"), "2");
    assert.equal(existsSync(folder.at("outside/b.txt")), false);
    assert.equal(existsSync(folder.at("project/sub/made.txt")), false);
  });

  it("works in another process, after a crash in the middle of a change too", async (t) => {
    const sqlite = STORES.find(([name]) => name === "sqlite");
    assert.ok(sqlite);
    const open = await sqlite[1](t);
    const { agent, folder, run, id } = await make(t, { "a.txt": "one\n", "b.txt": "b\n" }, { driver: open() });
    await run(["write", { path: "a.txt", content: "two\n" }], ["write", { path: "b.txt", content: "c\n" }]);
    await agent.close();
    // Noted, and then the power went: b.txt never changed, and a line is half written.
    const journal = folder.at("home/files", id(), "journal.jsonl");
    const lines = (await folder.read(`home/files/${id()}/journal.jsonl`)).trim().split("\n");
    await writeFile(journal, `${lines.slice(0, -1).join("\n")}\n{"done":"half`);
    await folder.write({ "project/b.txt": "b\n" });
    const next = resume(t, folder, { driver: open(), script: [], id: id() });
    assert.deepEqual(told(await next.agent.sessions.undo(id(), { dryRun: true }), folder), ["restored a.txt"]);
    await next.run(["write", { path: "b.txt", content: "d\n" }]);
    await next.agent.sessions.undo(id());
    assert.equal(await folder.read("project/b.txt"), "b\n");
    await next.agent.sessions.undo(id());
    assert.equal(await folder.read("project/a.txt"), "one\n");
  });

  it("keeps copies for nobody else, which go with the session", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "one\n" });
    await run(["write", { path: "a.txt", content: "two\n" }]);
    const kept = folder.at("home/files", id());
    assert.equal((await lstat(kept)).mode & 0o777, 0o700);
    assert.equal((await lstat(folder.at("home/files", id(), "0.pack"))).mode & 0o777, 0o600);
    await agent.sessions.delete(id());
    await agent.close();
    assert.equal(existsSync(kept), false);
  });

  it("says what it cannot bring back, and does the rest", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "one\n", "b.txt": "b\n" });
    await run(["write", { path: "a.txt", content: "two\n" }], ["write", { path: "b.txt", content: "c\n" }]);
    const pack = folder.at("home/files", id(), "0.pack");
    // The first copy is damaged.
    await writeFile(pack, (await folder.read(`home/files/${id()}/0.pack`)).replace("one", "xxx"));
    const undone = await agent.sessions.undo(id());
    assert.deepEqual(told(undone, folder), ["lost a.txt", "restored b.txt"]);
    assert.equal(await folder.read("project/a.txt"), "two\n");
  });

  it("works on where nothing can be kept, and undoes words where nobody keeps files", async (t) => {
    const { agent, folder, run, id } = await make(t, { "a.txt": "one\n" });
    await folder.write({ "home/files": "no folder" });
    await run(["write", { path: "a.txt", content: "two\n" }]);
    assert.equal(await folder.read("project/a.txt"), "two\n");
    await rm(folder.at("home/files"));
    assert.deepEqual((await agent.sessions.undo(id())).files, []);
    assert.equal(await folder.read("project/a.txt"), "two\n");

    const plain = await make(t, { "a.txt": "one\n" }, { history: false });
    await plain.run(["write", { path: "a.txt", content: "two\n" }]);
    assert.deepEqual((await plain.agent.sessions.undo(plain.id())).files, []);
    assert.deepEqual(await texts(plain.agent, plain.id()), []);
    await plain.run();
    assert.equal((await texts(plain.agent, plain.id())).length, 2, "a session that was emptied goes on");
  });
});
