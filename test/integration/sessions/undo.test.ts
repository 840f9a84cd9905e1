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
import { MAX_RECORDED_BYTES } from "../../../src/tools/files/record-file.js";
import { sqliteStore, STORES } from "../../helpers/stores.js";
import { tempDir, type TempDir } from "../../helpers/temp-dir.js";

interface TestSetup {
  agent: Agent;
  folder: TempDir;
  /** Runs these calls, one per answer, and then a final answer. Resolves with the session's id. */
  run(...calls: ToolCall[]): Promise<string>;
  /** Like `run`, with all calls in one answer. */
  runTogether(...calls: ToolCall[]): Promise<string>;
  /** Like `run`, with a first call whose subagent makes the other calls. */
  runSubagent(taskCall: ToolCall, ...calls: ToolCall[]): Promise<string>;
  /** Returns the session's id; `""` before the first run. */
  getId(): string;
}

type ToolCall = readonly [name: string, args: Record<string, unknown>];

async function createSetup(
  t: TestContext,
  files: Record<string, string> = {},
  { driver, history = true }: { driver?: SessionDriver; history?: boolean } = {},
): Promise<TestSetup> {
  const folder = await tempDir(t, { "home/x": "", ...toProjectPaths(files) });
  await mkdir(folder.at("project"), { recursive: true });
  return openSetup(t, folder, { driver, history });
}

/** Resolves with the error with which the promise rejects, or with undefined. */
async function catchRejection(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  );
}

function toProjectPaths(files: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(files).map(([name, text]) => [`project/${name}`, text]));
}

/** Opens an agent on existing folders, like another process. */
function openSetup(
  t: TestContext,
  folder: TempDir,
  { driver, history = true, id: sessionId }: { driver?: SessionDriver | undefined; history?: boolean; id?: string },
): TestSetup {
  const script: ScriptedStep[] = [];
  const provider = new ScriptedProvider(script, { fallback: () => script.shift() as never });
  const guardOptions = { deniedPaths: [folder.at("home")] };
  const agent = new Agent({
    providers: [provider],
    projectDir: folder.at("project"),
    tools: builtinTools({ ...guardOptions, bash: { sandbox: "off" } }),
    ...(history && { fileHistory: folderHistory({ folder: folder.at("home/files"), ...guardOptions }) }),
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
    getId: () => id,
    run: async (...calls) => {
      for (const [name, args] of calls) script.push(callTools([name, args]));
      return sendMessage(`do ${calls.length}`);
    },
    runSubagent: async (taskCall, ...calls) => {
      script.push(...[taskCall, ...calls].map((childCall) => callTools(childCall)), "helped");
      return sendMessage("have it done");
    },
    runTogether: async (...calls) => {
      script.push(callTools(...calls));
      return sendMessage("do all");
    },
  };
}

function describeFiles({ files }: Pick<UndoResult, "files">, folder: TempDir): string[] {
  return files.map(({ path, outcome }) => `${outcome} ${path.slice(folder.at("project").length + 1)}`);
}

async function readTexts(agent: Agent, id: string): Promise<string[]> {
  const messages = await agent.sessions.messages(id);
  return messages.map(
    ({ role, parts }) => `${role}:${parts.map((part) => ("text" in part ? part.text : "")).join("")}`,
  );
}

describe("undo", () => {
  for (const [storeName, makeStore] of STORES)
    it(`reverts files and messages of one run after the other, and redo restores them: ${storeName}`, async (t) => {
      const driver = (await makeStore(t))();
      const { agent, folder, run, getId } = await createSetup(t, { "a.txt": "one\n" }, { driver });
      await run(["write", { path: "a.txt", content: "two\n" }], ["write", { path: "new/deep/b.txt", content: "b\n" }]);
      await run(
        ["edit", { path: "a.txt", old_string: "two", new_string: "three" }],
        ["delete", { path: "new/deep/b.txt" }],
      );
      assert.equal(await folder.read("project/a.txt"), "three\n");

      const plannedUndo = await agent.sessions.undo(getId(), { dryRun: true });
      assert.deepEqual(describeFiles(plannedUndo, folder), ["restored a.txt", "recreated new/deep/b.txt"]);
      assert.equal(await folder.read("project/a.txt"), "three\n");

      const firstUndo = await agent.sessions.undo(getId());
      assert.deepEqual(describeFiles(firstUndo, folder), ["restored a.txt", "recreated new/deep/b.txt"]);
      assert.equal(await folder.read("project/a.txt"), "two\n");
      assert.equal(await folder.read("project/new/deep/b.txt"), "b\n");
      assert.equal((await readTexts(agent, getId())).filter((text) => text.startsWith("user:")).length, 1);
      assert.equal((await agent.sessions.messages(getId())).at(-1)?.id, firstUndo.to);

      const secondUndo = await agent.sessions.undo(getId());
      assert.deepEqual(describeFiles(secondUndo, folder), ["restored a.txt", "removed new/deep/b.txt"]);
      assert.equal(await folder.read("project/a.txt"), "one\n");
      assert.equal(existsSync(folder.at("project/new")), false, "created folders are removed, too");
      assert.deepEqual(await readTexts(agent, getId()), []);
      assert.equal(secondUndo.to, "");
      assert.ok(hasCode(await catchRejection(agent.sessions.undo(getId())), "nothing_to_undo"));

      assert.deepEqual(describeFiles(await agent.sessions.redo(getId()), folder), [
        "restored a.txt",
        "recreated new/deep/b.txt",
      ]);
      assert.equal(await folder.read("project/a.txt"), "two\n");
      assert.equal(await folder.read("project/new/deep/b.txt"), "b\n");
      assert.equal((await readTexts(agent, getId())).filter((text) => text.startsWith("user:")).length, 1);
      assert.deepEqual(describeFiles(await agent.sessions.redo(getId()), folder), [
        "restored a.txt",
        "removed new/deep/b.txt",
      ]);
      assert.equal(await folder.read("project/a.txt"), "three\n");
      assert.equal((await readTexts(agent, getId())).filter((text) => text.startsWith("user:")).length, 2);
      assert.ok(hasCode(await catchRejection(agent.sessions.redo(getId())), "nothing_to_undo"));

      // A redone change can be undone again.
      await agent.sessions.undo(getId());
      assert.equal(await folder.read("project/a.txt"), "two\n");
      await run(["write", { path: "a.txt", content: "four\n" }]);
      assert.ok(
        hasCode(await catchRejection(agent.sessions.redo(getId())), "nothing_to_undo"),
        "a later run prevents the redo",
      );
      await agent.sessions.undo(getId());
      assert.equal(await folder.read("project/a.txt"), "two\n");
    });

  it("overwrites foreign changes only with `force`, and redo restores what it overwrote", async (t) => {
    const { agent, folder, run, getId } = await createSetup(t, { "a.txt": "one\n", "b.txt": "b\n" });
    await run(["write", { path: "a.txt", content: "two\n" }], ["write", { path: "b.txt", content: "c\n" }]);
    await folder.write({ "project/a.txt": "a person's\n" });
    const error = await catchRejection(agent.sessions.undo(getId()));
    assert.ok(hasCode(error, "undo_conflict"));
    assert.deepEqual(describeFiles(error, folder), ["conflict a.txt", "restored b.txt"]);
    assert.equal(await folder.read("project/a.txt"), "a person's\n");
    assert.equal(await folder.read("project/b.txt"), "c\n", "no file is undone");
    assert.equal((await readTexts(agent, getId())).length, 6);

    assert.deepEqual(describeFiles(await agent.sessions.undo(getId(), { force: true }), folder), [
      "restored a.txt",
      "restored b.txt",
    ]);
    assert.equal(await folder.read("project/a.txt"), "one\n");
    await agent.sessions.redo(getId());
    assert.equal(await folder.read("project/a.txt"), "a person's\n");
    assert.equal(await folder.read("project/b.txt"), "c\n");
  });

  it("detects a foreign change between two changes of the session", async (t) => {
    const { agent, folder, run, getId } = await createSetup(t, { "a.txt": "one\n" });
    await run(
      ["write", { path: "a.txt", content: "two\n" }],
      ["bash", { command: "echo more >> a.txt" }],
      ["read", { path: "a.txt" }],
      ["edit", { path: "a.txt", old_string: "two", new_string: "three" }],
    );
    assert.equal(await folder.read("project/a.txt"), "three\nmore\n");
    const error = await catchRejection(agent.sessions.undo(getId()));
    assert.ok(hasCode(error, "undo_conflict"));
    assert.match(error.files[0]?.reason ?? "", /in between/);
    await agent.sessions.undo(getId(), { force: true });
    assert.equal(await folder.read("project/a.txt"), "one\n");
  });

  it("reverts to any message, and with `filesOnly` keeps the messages", async (t) => {
    const { agent, folder, run, getId } = await createSetup(t, { "a.txt": "0" });
    await run(["write", { path: "a.txt", content: "1" }], ["write", { path: "a.txt", content: "2" }]);
    await run(["write", { path: "a.txt", content: "3" }]);
    const messages = await agent.sessions.messages(getId());
    const results = messages.filter(({ role }) => role === "tool");
    const result = await agent.sessions.undo(getId(), { to: results[0]?.id ?? "", filesOnly: true });
    assert.equal(result.snapshot, null);
    assert.equal(await folder.read("project/a.txt"), "1");
    assert.equal((await agent.sessions.messages(getId())).length, messages.length);
    assert.deepEqual(
      describeFiles(await agent.sessions.undo(getId(), { to: results[0]?.id ?? "", filesOnly: true }), folder),
      [],
    );
    await agent.sessions.redo(getId());
    assert.equal(await folder.read("project/a.txt"), "3");
    const callMessages = messages.filter(({ role }) => role === "assistant");
    await agent.sessions.undo(getId(), { to: callMessages[0]?.id ?? "", filesOnly: true });
    await run();
    assert.ok(
      hasCode(await catchRejection(agent.sessions.redo(getId())), "nothing_to_undo"),
      "a run without tool calls prevents the redo, too",
    );
    assert.equal(await folder.read("project/a.txt"), "0", "a call whose result follows the message is undone");
    assert.ok(hasCode(await catchRejection(agent.sessions.undo(getId(), { to: "none" })), "point_not_found"));
    assert.ok(hasCode(await catchRejection(agent.sessions.undo(getId(), { to: "" })), "point_not_found"));
  });

  it("reverts to a point between the results of calls in one answer", async (t) => {
    const { agent, folder, getId, runTogether } = await createSetup(t, { "a.txt": "0", "b.txt": "0" });
    await runTogether(["write", { path: "a.txt", content: "1" }], ["write", { path: "b.txt", content: "1" }]);
    const results = (await agent.sessions.messages(getId())).filter(({ role }) => role === "tool");
    const undoResult = await agent.sessions.undo(getId(), { to: results[0]?.id ?? "" });
    assert.deepEqual(describeFiles(undoResult, folder), ["restored b.txt"]);
    assert.equal(await folder.read("project/a.txt"), "1");
    await agent.sessions.redo(getId());
    assert.equal(await folder.read("project/b.txt"), "1");
  });

  it("is part of a revert only with `files: true`", async (t) => {
    const { agent, folder, run, getId } = await createSetup(t, { "a.txt": "0" });
    await run(["write", { path: "a.txt", content: "1" }]);
    const firstAnswerId = (await agent.sessions.messages(getId())).at(-1)?.id ?? "";
    await run(["write", { path: "a.txt", content: "2" }]);
    const messageSnapshot = await agent.sessions.revert(getId(), firstAnswerId);
    assert.deepEqual(Object.keys(messageSnapshot).sort(), ["after", "createdAt", "id"]);
    assert.equal(await folder.read("project/a.txt"), "2");
    await agent.sessions.restore(getId(), messageSnapshot.id);
    const fileSnapshot = await agent.sessions.revert(getId(), firstAnswerId, { files: true });
    assert.deepEqual(describeFiles({ files: fileSnapshot.files ?? [] }, folder), ["restored a.txt"]);
    assert.equal(await folder.read("project/a.txt"), "1");
    assert.deepEqual(
      (await agent.sessions.snapshots(getId())).map((snapshot) => snapshot.id),
      [fileSnapshot.id],
    );
  });

  it("restores file modes, links, and deleted folders with their content", async (t) => {
    const { agent, folder, run, getId } = await createSetup(t, {
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
    await agent.sessions.undo(getId());
    assert.equal((await stat(folder.at("project/run.sh"))).mode & 0o777, 0o751);
    assert.equal((await stat(folder.at("project/tree/a"))).mode & 0o777, 0o750);
    assert.equal(await folder.read("project/tree/a/b.txt"), "b");
    assert.ok((await stat(folder.at("project/tree/empty"))).isDirectory());
    assert.equal(await readlink(folder.at("project/tree/link")), "c.txt");
    await agent.sessions.redo(getId());
    assert.equal(existsSync(folder.at("project/tree")), false);
    assert.equal(existsSync(folder.at("project/run.sh")), false);
  });

  it("writes through no link that replaced a folder; with `force` it reverts the other files", async (t) => {
    const { agent, folder, run, getId } = await createSetup(t, {
      "src/a.txt": "1",
      "src/b.txt": "b",
      "sub/c.txt": "c",
    });
    await folder.write({ "outside/a.txt": "2", "project/other/a.txt": "2" });
    await run(
      ["write", { path: "src/a.txt", content: "2" }],
      ["delete", { path: "src/b.txt" }],
      ["write", { path: "sub/made.txt", content: "x" }],
    );
    await rename(folder.at("project/src"), folder.at("project/away"));
    for (const target of [folder.at("outside"), folder.at("project/other")]) {
      await symlink(target, folder.at("project/src"));
      const { files } = await agent.sessions.undo(getId(), { dryRun: true, force: true });
      assert.deepEqual(describeFiles({ files }, folder), [
        "failed src/a.txt",
        "failed src/b.txt",
        "removed sub/made.txt",
      ]);
      await unlink(folder.at("project/src"));
    }
    await symlink(folder.at("outside"), folder.at("project/src"));
    await agent.sessions.undo(getId(), { force: true });
    assert.equal(await folder.read("outside/a.txt"), "2");
    assert.equal(existsSync(folder.at("outside/b.txt")), false);
    assert.equal(existsSync(folder.at("project/sub/made.txt")), false);
  });

  it("works in another process, also after a crash in the middle of a change", async (t) => {
    const openDriver = await sqliteStore[1](t);
    const { agent, folder, run, getId } = await createSetup(
      t,
      { "a.txt": "one\n", "b.txt": "b\n" },
      { driver: openDriver() },
    );
    await run(["write", { path: "a.txt", content: "two\n" }], ["write", { path: "b.txt", content: "c\n" }]);
    await agent.close();
    // Simulates a power failure after the plan was recorded: b.txt is unchanged, and the last line is incomplete.
    const journalPath = folder.at("home/files", getId(), "journal.jsonl");
    const lines = (await folder.read(`home/files/${getId()}/journal.jsonl`)).trim().split("\n");
    const lastChangeIndex = lines.findLastIndex((line) => line.startsWith('{"change"'));
    await writeFile(journalPath, `${lines.slice(0, lastChangeIndex + 1).join("\n")}\n{"done":"half`);
    await folder.write({ "project/b.txt": "b\n" });
    const secondProcess = openSetup(t, folder, { driver: openDriver(), id: getId() });
    assert.deepEqual(describeFiles(await secondProcess.agent.sessions.undo(getId(), { dryRun: true }), folder), [
      "restored a.txt",
    ]);
    await secondProcess.run(["write", { path: "b.txt", content: "d\n" }]);
    await secondProcess.agent.sessions.undo(getId());
    assert.equal(await folder.read("project/b.txt"), "b\n");
    await secondProcess.agent.sessions.undo(getId());
    assert.equal(await folder.read("project/a.txt"), "one\n");
  });

  it("resumes or reverts an undo that was killed between removing one entry and creating another", async (t) => {
    for (const operation of ["undo", "redo"] as const) {
      const openDriver = await sqliteStore[1](t);
      const { agent, folder, run, getId } = await createSetup(
        t,
        { place: "a file", "old/a.txt": "a" },
        { driver: openDriver() },
      );
      await run(
        ["delete", { path: "place" }],
        ["write", { path: "place/inner.txt", content: "i" }],
        ["delete", { path: "old", recursive: true }],
      );
      await agent.sessions.undo(getId(), { filesOnly: true });
      await agent.close();
      const journalPath = folder.at("home/files", getId(), "journal.jsonl");
      const lines = (await readFile(journalPath, "utf8")).trim().split("\n");
      const lastChangeIndex = lines.findLastIndex((line) => line.startsWith('{"change"'));
      await writeFile(journalPath, `${lines.slice(0, lastChangeIndex + 1).join("\n")}\n`);
      const { change } = JSON.parse(lines[lastChangeIndex] ?? "") as { change: string };
      // The folder is missing, and both files are half written beside their targets.
      await rm(folder.at("project/place"));
      await rm(folder.at("project/old/a.txt"));
      const toPartialName = (name: string) => `.${name}.${change.replaceAll("-", "").slice(-12)}.tmp`;
      await folder.write({
        [`project/${toPartialName("place")}`]: "a f",
        [`project/old/${toPartialName("a.txt")}`]: "",
      });
      const secondProcess = openSetup(t, folder, { driver: openDriver(), id: getId() });
      await secondProcess.agent.sessions[operation](getId());
      const entries = await readdir(folder.at("project"), { recursive: true });
      if (operation === "undo") assert.deepEqual(entries.sort(), ["old", "old/a.txt", "place"]);
      else assert.deepEqual(entries.sort(), ["place", "place/inner.txt"]);
    }
  });

  it("stores copies that only the owner can read, and deletes them with the session", async (t) => {
    const { agent, folder, run, getId } = await createSetup(t, { "a.txt": "one\n" });
    await run(["write", { path: "a.txt", content: "two\n" }]);
    const historyFolder = folder.at("home/files", getId());
    assert.equal((await lstat(historyFolder)).mode & 0o777, 0o700);
    assert.equal((await lstat(folder.at("home/files", getId(), "0.pack"))).mode & 0o777, 0o600);
    await agent.sessions.delete(getId());
    await agent.close();
    assert.equal(existsSync(historyFolder), false);
  });

  it("reports files that it cannot restore, and with `force` restores the others", async (t) => {
    const { agent, folder, run, getId } = await createSetup(t, { "a.txt": "one\n", "b.txt": "b\n" });
    await run(["write", { path: "a.txt", content: "two\n" }], ["write", { path: "b.txt", content: "c\n" }]);
    const packPath = folder.at("home/files", getId(), "0.pack");
    // Damages the first copy.
    await writeFile(packPath, (await folder.read(`home/files/${getId()}/0.pack`)).replace("one", "xxx"));
    const error = await catchRejection(agent.sessions.undo(getId()));
    assert.ok(hasCode(error, "undo_conflict"));
    assert.match(error.message, /^no copy of a file is stored; nothing was undone$/);
    assert.deepEqual(describeFiles(error, folder), ["lost a.txt", "restored b.txt"]);
    assert.equal(await folder.read("project/b.txt"), "c\n");
    await agent.sessions.undo(getId(), { force: true });
    assert.equal(await folder.read("project/a.txt"), "two\n");
    assert.equal(await folder.read("project/b.txt"), "b\n");
  });

  it("reports lost files if no copy is stored; only `force` and `messagesOnly` revert the messages", async (t) => {
    const { agent, folder, run, getId } = await createSetup(t, { "a.txt": "one\n" });
    await folder.write({ "home/files": "no folder" });
    await run(["write", { path: "a.txt", content: "two\n" }]);
    assert.equal(await folder.read("project/a.txt"), "two\n");
    await rm(folder.at("home/files"));
    const error = await catchRejection(agent.sessions.undo(getId()));
    assert.ok(hasCode(error, "undo_conflict"));
    assert.deepEqual(describeFiles(error, folder), ["lost a.txt"]);
    assert.equal((await readTexts(agent, getId())).length, 4);
    assert.deepEqual(describeFiles(await agent.sessions.undo(getId(), { force: true }), folder), ["lost a.txt"]);
    assert.deepEqual(await readTexts(agent, getId()), []);
    assert.equal(await folder.read("project/a.txt"), "two\n");

    const withoutHistory = await createSetup(t, { "a.txt": "one\n" }, { history: false });
    await withoutHistory.run(["write", { path: "a.txt", content: "two\n" }]);
    const rejection = await catchRejection(withoutHistory.agent.sessions.undo(withoutHistory.getId()));
    assert.ok(hasCode(rejection, "undo_conflict"), String(rejection));
    const plannedUndo = await withoutHistory.agent.sessions.undo(withoutHistory.getId(), { dryRun: true });
    assert.deepEqual(describeFiles(plannedUndo, withoutHistory.folder), ["lost a.txt"]);
    assert.deepEqual(
      (await withoutHistory.agent.sessions.undo(withoutHistory.getId(), { messagesOnly: true })).files,
      [],
    );
    assert.deepEqual(await readTexts(withoutHistory.agent, withoutHistory.getId()), []);
    await withoutHistory.run();
    assert.equal(
      (await readTexts(withoutHistory.agent, withoutHistory.getId())).length,
      2,
      "an emptied session can continue",
    );
    await withoutHistory.run(["write", { path: "a.txt", content: "three\n" }]);
    const forcedUndo = await withoutHistory.agent.sessions.undo(withoutHistory.getId(), { force: true });
    assert.deepEqual(describeFiles(forcedUndo, withoutHistory.folder), ["lost a.txt"]);
    assert.equal((await readTexts(withoutHistory.agent, withoutHistory.getId())).length, 2);
  });

  it("restores folders, files and links that another type of entry replaced, and binary files", async (t) => {
    const { agent, folder, run, getId } = await createSetup(t, {
      "d/x/y": "y",
      "case.txt": "c",
      empty: "",
      file: "f",
      twice: "t",
    });
    const bytes = Buffer.from([0, 255, 254, 13, 10, 0]);
    const longName = `${"\u5b57".repeat(80)}.txt`;
    await folder.write({ "project/b.bin": bytes, [`project/${longName}`]: "1" });
    await symlink("case.txt", folder.at("project/link"));
    await symlink("d", folder.at("project/link2"));
    const initialNames = ["b.bin", "case.txt", "d", "empty", "file", "link", "link2", longName, "twice"].sort();
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
        ["write", { path: longName, content: "2" }],
        // The write of a file creates folders in place of deleted entries.
        ["delete", { path: "file" }],
        ["write", { path: "file/in/it", content: "3" }],
        ["delete", { path: "link2" }],
        ["write", { path: "link2/x/y", content: "3" }],
        ["delete", { path: "twice" }],
        ["write", { path: "twice/x", content: "3" }],
        ["delete", { path: "twice", recursive: true }],
      ] satisfies ToolCall[]),
    );
    const failedMessages = (await agent.sessions.messages(getId())).filter((message) => message.failed);
    assert.deepEqual(
      failedMessages.map(({ parts }) => parts),
      [],
    );
    for (let i = 0; i < 2; i++) {
      await agent.sessions.undo(getId());
      assert.deepEqual((await readdir(folder.at("project"))).sort(), initialNames);
      assert.equal(await folder.read("project/file"), "f");
      assert.equal(await folder.read("project/twice"), "t");
      assert.equal(await readlink(folder.at("project/link2")), "d");
      assert.equal(await folder.read("project/d/x/y"), "y");
      assert.equal(await readlink(folder.at("project/link")), "case.txt");
      assert.ok((await readFile(folder.at("project/b.bin"))).equals(bytes));
      assert.equal(await folder.read("project/empty"), "");
      assert.equal(await folder.read(`project/${longName}`), "1");
      await agent.sessions.redo(getId());
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
    const { agent, folder, getId, run, runSubagent } = await createSetup(t, { "a.txt": "one\n" });
    await runSubagent(["task", { description: "d", prompt: "p" }], ["write", { path: "a.txt", content: "two\n" }]);
    assert.equal(await folder.read("project/a.txt"), "two\n");
    const [subagentSession] = (await agent.sessions.list({ spawnedBy: getId() })).sessions;
    const error = await catchRejection(agent.sessions.undo(subagentSession?.id ?? ""));
    assert.ok(hasCode(error, "undo_conflict"), String(error));
    assert.equal(error.files[0]?.reason, `undo it with session ${getId()}`);
    assert.deepEqual(describeFiles(await agent.sessions.undo(getId()), folder), ["restored a.txt"]);
    assert.equal(await folder.read("project/a.txt"), "one\n");
    await agent.sessions.redo(getId());
    assert.equal(await folder.read("project/a.txt"), "two\n");
    await run();
  });

  it("is reported as impossible in a tool result, once per file, if no copy was stored", async (t) => {
    const { agent, folder, run, getId } = await createSetup(t, { "a.txt": "one\n" });
    await folder.write({ "project/large.txt": "x".repeat(MAX_RECORDED_BYTES + 1), "home/files": "no folder" });
    const readToolResults = async (): Promise<string[]> => {
      const allTexts = await readTexts(agent, getId());
      return allTexts.filter((text) => text.startsWith("tool:"));
    };
    await run(["write", { path: "a.txt", content: "two\n" }], ["write", { path: "a.txt", content: "three\n" }]);
    const [firstResult, secondResult] = await readToolResults();
    assert.match(firstResult ?? "", /\. No copy was stored of the previous content: undo cannot restore it\.$/);
    assert.doesNotMatch(secondResult ?? "", /No copy/);
    await rm(folder.at("home/files"));
    await run(["write", { path: "large.txt", content: "small\n" }], ["write", { path: "large.txt", content: "s\n" }]);
    const [, , thirdResult, fourthResult] = await readToolResults();
    assert.match(thirdResult ?? "", /No copy was stored of large\.txt: undo cannot restore it\.$/);
    assert.doesNotMatch(fourthResult ?? "", /No copy/);
    const error = await catchRejection(agent.sessions.undo(getId()));
    assert.ok(hasCode(error, "undo_conflict"));
    assert.deepEqual(describeFiles(error, folder), ["lost large.txt"]);
  });

  it("stores the content that `force` overwrites, and changes nothing if this content cannot be stored", async (t) => {
    const { agent, folder, run, getId } = await createSetup(t, { "a.txt": "one\n", "b.txt": "b\n" });
    await run(["write", { path: "a.txt", content: "two\n" }], ["write", { path: "b.txt", content: "c\n" }]);
    const largeText = "x".repeat(MAX_RECORDED_BYTES + 1);
    await folder.write({ "project/b.txt": largeText });
    const error = await catchRejection(agent.sessions.undo(getId(), { force: true }));
    assert.ok(hasCode(error, "undo_conflict"));
    assert.deepEqual(describeFiles(error, folder), ["restored a.txt", "conflict b.txt"]);
    assert.match(error.files[1]?.reason ?? "", /too large/);
    assert.equal(await folder.read("project/a.txt"), "two\n");
    assert.equal((await readTexts(agent, getId())).length, 6);
    await rename(folder.at("project/b.txt"), folder.at("project/large"));

    await folder.write({ "project/b.txt": "a person's\n" });
    // The history cannot store a copy.
    await mkdir(folder.at("home/files", getId(), "1.pack"));
    const saveError = await catchRejection(agent.sessions.undo(getId(), { force: true }));
    assert.ok(hasCode(saveError, "undo_conflict"));
    assert.deepEqual(describeFiles(saveError, folder), ["failed a.txt", "restored b.txt"]);
    assert.match(saveError.files[0]?.reason ?? "", /^the current content could not be saved: EISDIR/);
    assert.equal(await folder.read("project/a.txt"), "two\n");
    await rm(folder.at("home/files", getId(), "1.pack"), { recursive: true });
    assert.equal(await folder.read("project/b.txt"), "a person's\n");
    await agent.sessions.undo(getId(), { force: true });
    await agent.sessions.redo(getId());
    assert.equal(await folder.read("project/b.txt"), "a person's\n");
  });

  it("removes folders that were created for a file, unless they contain foreign files", async (t) => {
    const { agent, folder, run, getId } = await createSetup(t, { "f.txt": "f", place: "a file" });
    await run(["delete", { path: "place" }], ["write", { path: "ways/a/x", content: "1" }]);
    await run(
      ["write", { path: "place/b/y", content: "2" }],
      // The folder is not empty, so the call is rejected and nothing is deleted.
      ["delete", { path: "ways/a" }],
      ["write", { path: "gone/z", content: "3" }],
      ["delete", { path: "gone/z" }],
    );
    const readEntries = async () => (await readdir(folder.at("project"), { recursive: true })).sort();
    const entriesAfterRuns = await readEntries();
    assert.deepEqual(describeFiles(await agent.sessions.undo(getId()), folder), ["removed place/b/y"]);
    assert.deepEqual(await readEntries(), ["f.txt", "ways", "ways/a", "ways/a/x"]);
    await agent.sessions.undo(getId());
    assert.deepEqual(await readEntries(), ["f.txt", "place"]);
    await agent.sessions.redo(getId());
    await agent.sessions.redo(getId());
    assert.deepEqual(await readEntries(), entriesAfterRuns);

    await folder.write({ "project/ways/own.txt": "mine" });
    await rm(folder.at("project/place"), { recursive: true });
    await folder.write({ "project/place": "mine" });
    await agent.sessions.undo(getId());
    assert.equal(await folder.read("project/place"), "mine");
    assert.ok(hasCode(await catchRejection(agent.sessions.undo(getId())), "undo_conflict"));
    await agent.sessions.undo(getId(), { force: true });
    assert.equal(await folder.read("project/place"), "a file");
    assert.deepEqual(await readEntries(), ["f.txt", "place", "ways", "ways/own.txt"]);
  });

  it("restores the mode of a file that was deleted and created again, and keeps a folder with content", async (t) => {
    const { agent, folder, run, getId } = await createSetup(t, {
      "run.sh": "one\n",
      "same.sh": "same\n",
      "c.txt": "c",
    });
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
    const error = await catchRejection(agent.sessions.undo(getId(), { force: true }));
    assert.ok(hasCode(error, "undo_conflict"));
    assert.match(error.files.find(({ outcome }) => outcome === "conflict")?.reason ?? "", /now a folder/);
    assert.equal(await folder.read("project/run.sh"), "two\n");
    await rm(folder.at("project/c.txt"), { recursive: true });
    await agent.sessions.undo(getId());
    for (const name of ["run.sh", "same.sh"])
      assert.equal((await stat(folder.at("project", name))).mode & 0o777, 0o755);
    await agent.sessions.redo(getId());
    assert.equal(await folder.read("project/run.sh"), "two\n");
    assert.equal((await stat(folder.at("project/run.sh"))).mode & 0o111, 0);
  });

  it("rolls back its changes if writing one path fails", async (t) => {
    const { agent, folder, run, getId } = await createSetup(t, { "a.txt": "a", "z/b.txt": "b" });
    await run(["write", { path: "a.txt", content: "A" }], ["write", { path: "z/b.txt", content: "B" }]);
    const readOnlyFolder = folder.at("project/z");
    if (process.getuid?.() === 0) return t.skip("root may write everywhere");
    await chmod(readOnlyFolder, 0o555);
    const error = await catchRejection(agent.sessions.undo(getId()));
    const redoError = await catchRejection(agent.sessions.redo(getId()));
    await chmod(readOnlyFolder, 0o755);
    assert.ok(hasCode(error, "undo_conflict"));
    assert.ok(hasCode(redoError, "nothing_to_undo"));
    assert.equal(await folder.read("project/a.txt"), "A");
    assert.equal((await agent.sessions.undo(getId())).files.length, 2);
    assert.equal(await folder.read("project/a.txt"), "a");
  });
});
