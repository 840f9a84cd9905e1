import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { describe, it, type TestContext } from "node:test";
import { builtinTools, folderHistory } from "gantry";
import { ApiError, GantryClient } from "gantry/client";
import { callTools, type ScriptedStep } from "gantry/testing";
import { startApi } from "../../helpers/http-api.js";
import { tempDir } from "../../helpers/temp-dir.js";

const write = (path: string, content: string): ScriptedStep => callTools(["write", { path, content }]);

async function createSetup(t: TestContext, steps: readonly ScriptedStep[], files: Record<string, string> = {}) {
  const projectFiles = Object.entries(files).map(([name, text]) => [`project/${name}`, text]);
  const folder = await tempDir(t, Object.fromEntries([["home/x", ""], ...projectFiles]));
  await mkdir(folder.at("project"), { recursive: true });
  const rules = { deniedPaths: [folder.at("home")] };
  const { PATH = "" } = process.env;
  const api = await startApi(t, {
    steps,
    http: { environment: { PATH, HOME: folder.path } },
    agent: {
      projectDir: folder.at("project"),
      tools: builtinTools({ ...rules, bash: { sandbox: "off" } }),
      fileHistory: folderHistory({ folder: folder.at("home/files"), ...rules }),
    },
  });
  const client = new GantryClient({ url: api.url });
  const readFile = (name: string): string | null =>
    existsSync(folder.at("project", name)) ? readFileSync(folder.at("project", name), "utf8") : null;
  const run = (message: string, session_id?: string) =>
    client.run({ message, ...(session_id !== undefined && { session_id }) });
  const listChanges = async (id: string, query: Parameters<typeof client.sessions.changes>[1] = {}) => {
    const { files: changedFiles } = await client.sessions.changes(id, query);
    return changedFiles.map(({ path, kind, old_text, new_text, omitted, added, removed }) =>
      [path.slice(folder.at("project").length + 1), kind, old_text, new_text, omitted, added, removed].join("|"),
    );
  };
  return { api, client, folder, readFile, run, listChanges };
}

async function catchError(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ApiError, String(error));
  return `${error.status} ${error.code}`;
}

describe("GET /api/sessions/{id}/changes", { concurrency: true }, () => {
  it("lists created, changed and deleted files of a session and of a run", async (t) => {
    const steps = [
      callTools(
        ["write", { path: "new/a.txt", content: "1\n2\n" }],
        ["write", { path: "b.txt", content: "x\ny\nz\n" }],
      ),
      "done",
      callTools(["delete", { path: "c.txt" }], ["write", { path: "b.txt", content: "x\ny\nz\nlast\n" }]),
      "done",
    ];
    const setup = await createSetup(t, steps, { "b.txt": "x\nz\n", "c.txt": "gone\n", "d.txt": "same" });
    const { client, run, listChanges, folder } = setup;
    const { sessionId: id, runId: firstRunId } = await run("first");
    const { runId: secondRunId } = await run("second", id);
    assert.deepEqual(await listChanges(id), [
      "b.txt|changed|x\nz\n|x\ny\nz\nlast\n||2|0",
      "c.txt|deleted|gone\n|||0|1",
      "new/a.txt|created||1\n2\n||2|0",
    ]);
    assert.deepEqual(await listChanges(id, { runId: firstRunId }), [
      "b.txt|changed|x\nz\n|x\ny\nz\n||1|0",
      "new/a.txt|created||1\n2\n||2|0",
    ]);
    assert.deepEqual(await listChanges(id, { runId: secondRunId }), [
      "b.txt|changed|x\ny\nz\n|x\ny\nz\nlast\n||1|0",
      "c.txt|deleted|gone\n|||0|1",
    ]);
    const { files, total } = await client.sessions.changes(id, { page: 2, size: 1 });
    assert.deepEqual([files.map(({ run_ids }) => run_ids), total], [[[secondRunId]], 3]);
    const [onlyFile] = (await client.sessions.changes(id, { path: "b.txt" })).files;
    assert.deepEqual([onlyFile?.path, onlyFile?.run_ids], [folder.at("project/b.txt"), [firstRunId, secondRunId]]);
    // A file with its original content again is no change.
    writeFileSync(folder.at("project/b.txt"), "x\nz\n");
    assert.equal((await listChanges(id)).length, 2);
  });

  it("omits binary, large and lost texts", async (t) => {
    const steps = [
      callTools(
        ["write", { path: "binary.txt", content: "text" }],
        ["write", { path: "large.txt", content: "x".repeat(300_000) }],
        ["write", { path: "lost.txt", content: "first" }],
      ),
      "done",
    ];
    const { client, run, folder, listChanges } = await createSetup(t, steps);
    const { sessionId: id, runId } = await run("first");
    writeFileSync(folder.at("project/binary.txt"), Buffer.from([1, 0, 255]));
    writeFileSync(folder.at("project/lost.txt"), "other");
    assert.deepEqual(await listChanges(id), [
      "binary.txt|created|||binary||",
      "large.txt|created|||too_large||",
      "lost.txt|created||other||1|0",
    ]);
    assert.deepEqual((await listChanges(id, { runId })).at(-1), "lost.txt|created|||lost||");
    assert.equal((await client.sessions.changes(id)).files[0]?.added, null);
  });

  it("lists the changes of a subagent with the run that started it", async (t) => {
    const task = callTools(["task", { description: "help", prompt: "write it" }]);
    const steps = [task, write("sub.txt", "1\n"), "helped", "done"];
    const { client, run, listChanges, readFile } = await createSetup(t, steps);
    const { sessionId: id, runId } = await run("first");
    assert.deepEqual(await listChanges(id, { runId }), ["sub.txt|created||1\n||1|0"]);
    assert.deepEqual((await client.sessions.changes(id)).files[0]?.run_ids, [runId]);
    await client.sessions.undoChange(id, { path: "sub.txt", runId });
    assert.equal(readFile("sub.txt"), null);
  });
});

describe("POST /api/sessions/{id}/changes/undo", { concurrency: true }, () => {
  it("undoes one file, which redo reverts, and notifies watchers", async (t) => {
    const steps = [
      callTools(["write", { path: "new/a.txt", content: "1\n" }], ["write", { path: "b.txt", content: "two\n" }]),
      "done",
    ];
    const { api, client, run, readFile, folder } = await createSetup(t, steps, { "b.txt": "one\n" });
    const { sessionId: id } = await run("first");
    const messages = await client.sessions.messages(id);
    const controller = new AbortController();
    const events: string[] = [];
    let notify = () => {};
    const watcher = (async () => {
      for await (const { type } of client.sessions.watch(id, { signal: controller.signal })) {
        events.push(type);
        if (type === "state") notify();
      }
    })().catch(() => undefined);
    const nextState = () => new Promise<void>((resolve) => (notify = resolve));
    await nextState();
    const changedPaths: string[] = [];
    api.agent.on("session.files_restored", ({ paths }) => changedPaths.push(...paths));
    const stateAfterUndo = nextState();
    assert.equal((await client.sessions.undoChange(id, { path: "new/a.txt" })).outcome, "removed");
    await stateAfterUndo;
    assert.deepEqual(
      [readFile("new/a.txt"), existsSync(folder.at("project/new")), readFile("b.txt")],
      [null, false, "two\n"],
    );
    assert.deepEqual(changedPaths, [folder.at("project/new/a.txt")]);
    assert.deepEqual(await client.sessions.messages(id), messages);
    assert.equal(await catchError(client.sessions.undoChange(id, { path: "new/a.txt" })), "409 nothing_to_undo");
    assert.equal(await catchError(client.sessions.undoChange(id, { path: "other" })), "409 nothing_to_undo");
    await client.sessions.undoChange(id, { path: "b.txt" });
    await client.sessions.redo(id);
    await client.sessions.redo(id);
    assert.deepEqual([readFile("new/a.txt"), readFile("b.txt")], ["1\n", "two\n"]);
    await client.sessions.undoChange(id, { path: "b.txt" });
    // The undo of the run includes the rest.
    await client.sessions.undo(id);
    assert.deepEqual([readFile("new/a.txt"), readFile("b.txt")], [null, "one\n"]);
    controller.abort();
    await watcher;
  });

  it("undoes single lines, and refuses if the file has changed", async (t) => {
    const [before, after] = ["1\n2\n3\n4\n5\n", "1\n2b\n3\n4\n4b\n5\n"];
    const { client, run, readFile, folder } = await createSetup(t, [write("a.txt", after), "done"], {
      "a.txt": before,
    });
    const { sessionId: id } = await run("first");
    const readChange = async () => (await client.sessions.changes(id)).files[0]!;
    const { path, version } = await readChange();
    const addedLine = { old_start: 5, old_lines: 0, new_start: 5, new_lines: 1 };
    const outOfRange = { ...addedLine, new_lines: 9 };
    assert.equal(
      await catchError(client.sessions.undoChange(id, { path, version, hunk: outOfRange })),
      "400 invalid_field",
    );
    await client.sessions.undoChange(id, { path, version, hunk: addedLine });
    assert.equal(readFile("a.txt"), "1\n2b\n3\n4\n5\n");
    const changedLine = { old_start: 2, old_lines: 1, new_start: 2, new_lines: 1 };
    const staleRequest = { path, version, hunk: changedLine, force: true };
    assert.equal(await catchError(client.sessions.undoChange(id, staleRequest)), "409 undo_conflict");
    const { version: newVersion } = await readChange();
    await client.sessions.undoChange(id, { path, version: newVersion, hunk: changedLine });
    assert.equal(readFile("a.txt"), before);
    await client.sessions.redo(id);
    await client.sessions.redo(id);
    assert.equal(readFile("a.txt"), after);
    // The user's own edit is kept, because the version belongs to it.
    writeFileSync(folder.at("project/a.txt"), `${after}mine\n`);
    await client.sessions.undoChange(id, { path, version: (await readChange()).version, hunk: changedLine });
    assert.equal(readFile("a.txt"), "1\n2\n3\n4\n4b\n5\nmine\n");
    rmSync(folder.at("project/a.txt"));
    assert.equal(await catchError(client.sessions.undoChange(id, { path, version })), "409 undo_conflict");
  });

  it("undoes the changes of one run, unless a later run changed the file too", async (t) => {
    const steps = [write("a.txt", "1\n"), "done", write("a.txt", "2\n"), "done"];
    const { client, run, readFile } = await createSetup(t, steps, { "a.txt": "0\n" });
    const { sessionId: id, runId: firstRunId } = await run("first");
    const { runId: secondRunId } = await run("second", id);
    const path = "a.txt";
    assert.equal(await catchError(client.sessions.undoChange(id, { path, runId: firstRunId })), "409 undo_conflict");
    await client.sessions.undoChange(id, { path, runId: secondRunId });
    assert.equal(readFile(path), "1\n");
    await client.sessions.redo(id);
    await client.sessions.undoChange(id, { path, runId: firstRunId, force: true });
    assert.equal(readFile(path), "0\n");
  });
});

describe("GET /api/git", { concurrency: true }, () => {
  it("returns branch, commit and number of changed files, and runs no program of the repository", async (t) => {
    const { client, folder, api } = await createSetup(t, [], { "a.txt": "1\n", "b.txt": "1\n", "sub/c.txt": "1\n" });
    const { branch: noBranch, commit: noCommit } = await client.git();
    assert.deepEqual([noBranch, noCommit], [null, null]);
    const git = (...args: string[]): string =>
      execFileSync("git", ["-c", "user.name=x", "-c", "user.email=x@example.com", ...args], {
        cwd: folder.at("project"),
        encoding: "utf8",
        env: { PATH: process.env["PATH"] ?? "", HOME: folder.path, GIT_CONFIG_NOSYSTEM: "1" },
      }).trim();
    git("init", "--quiet", "--initial-branch=main");
    const { branch, commit } = await client.git();
    assert.deepEqual([branch, commit], ["main", null]);
    git("add", ".");
    git("commit", "--quiet", "--message=first");
    const program = folder.at("program.sh");
    writeFileSync(program, `#!/bin/sh\necho ran >> ${folder.at("ran")}\ncat\n`, { mode: 0o755 });
    writeFileSync(folder.at("project/.git/hooks/post-index-change"), `#!/bin/sh\n${program}\n`, { mode: 0o755 });
    git("config", "core.fsmonitor", program);
    git("config", "filter.evil.clean", program);
    git("config", "filter.evil.process", program);
    git("config", "filter.evil.required", "true");
    writeFileSync(folder.at("project/.gitattributes"), "* filter=evil\n");
    writeFileSync(folder.at("project/a.txt"), "2\n");
    writeFileSync(folder.at("project/sub/c.txt"), "2\n");
    rmSync(folder.at("ran"), { force: true });
    assert.deepEqual(await client.git(), {
      project_dir: folder.at("project"),
      ...{ branch: "main", commit: git("rev-parse", "HEAD"), detached: false },
      ...{ dirty: 3, ahead: null, behind: null },
    });
    assert.equal((await client.git({ projectDir: "sub" })).dirty, 1);
    assert.equal(existsSync(folder.at("ran")), false);
    assert.equal(await catchError(client.git({ projectDir: ".." })), "400 invalid_field");
    const { id } = await api.agent.sessions.create();
    assert.equal((await client.git({ sessionId: id })).branch, "main");
    git("config", "--unset", "core.fsmonitor");
    git("config", "--remove-section", "filter.evil");
    git("checkout", "--quiet", "--detach");
    const { branch: detachedBranch, detached } = await client.git();
    assert.deepEqual([detachedBranch, detached], [null, true]);
  });

  it("counts the commits ahead of and behind the upstream branch", async (t) => {
    const { client, folder } = await createSetup(t, [], { "a.txt": "1\n" });
    const git = (...args: string[]) =>
      execFileSync("git", ["-c", "user.name=x", "-c", "user.email=x@example.com", ...args], {
        cwd: folder.at("project"),
        env: { PATH: process.env["PATH"] ?? "", HOME: folder.path, GIT_CONFIG_NOSYSTEM: "1" },
      });
    let commitCount = 0;
    const commit = () => git("commit", "--quiet", "--allow-empty", `--message=${(commitCount += 1)}`);
    git("init", "--quiet", "--initial-branch=main");
    commit();
    git("branch", "other");
    commit();
    git("branch", "--quiet", "--set-upstream-to=other");
    git("checkout", "--quiet", "other");
    commit();
    commit();
    git("checkout", "--quiet", "main");
    const { ahead, behind, dirty } = await client.git();
    assert.deepEqual([ahead, behind, dirty], [1, 2, 1]);
  });
});
