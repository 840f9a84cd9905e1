import assert from "node:assert/strict";
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { Agent, builtinTools, gitWorktrees, WorktreeConflictError } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { callTools, ScriptedProvider } from "gantry/testing";
import { findBubblewrap } from "../../../src/tools/shell/sandbox/bubblewrap.js";
import { Child } from "../../helpers/child.js";
import { createRepository } from "../../helpers/git-repository.js";
import { ALL_STORES } from "../../helpers/stores.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { createGitEnvironment, listWorktreeFolders, serveWorktrees } from "../../helpers/worktree-project.js";

const bubblewrap = findBubblewrap({ env: { PATH: process.env["PATH"] ?? "" }, network: false });

describe("the worktree of a stored session", () => {
  for (const [name, makeStore] of ALL_STORES)
    it(`is found, applied and removed by another process: ${name}`, async (t) => {
      const folder = await tempDir(t, { "project/a.txt": "one\n", "home/x": "" });
      createRepository(folder.at("project"));
      const createDriver = await makeStore(t);
      const createAgent = (steps: readonly string[]) =>
        new Agent({
          providers: [new ScriptedProvider(steps)],
          projectDir: folder.at("project"),
          driver: createDriver(),
          worktrees: gitWorktrees(folder.at("worktrees"), { environment: createGitEnvironment(folder.at("home")) }),
        });
      const firstAgent = createAgent(["done"]);
      const run = await firstAgent.run({ message: "work", worktree: true });
      await run.result;
      await firstAgent.close();
      const agent = createAgent([]);
      t.after(() => agent.close());
      const worktree = await agent.sessions.worktree(run.sessionId);
      assert.equal(worktree?.projectDir, folder.at("project"));
      assert.equal((await agent.sessions.get(run.sessionId))?.projectDir, worktree.folder);
      writeFileSync(path.join(worktree.folder, "a.txt"), "two\n");
      assert.equal((await agent.sessions.applyWorktree(run.sessionId)).length, 1);
      assert.equal(await folder.read("project/a.txt"), "two\n");
      await agent.sessions.delete(run.sessionId);
      assert.deepEqual(listWorktreeFolders(folder.at("worktrees")), []);
    });

  it("is removed by the next session if its process was killed, unless a session was stored", async (t) => {
    const { api, folder, git, listWorktrees, startSession } = await serveWorktrees(
      t,
      { "a.txt": "one\n" },
      { steps: ["done", "done", "done", "done"] },
    );
    // Git stops after it has created the worktree.
    // Time: the process is killed while Git waits.
    const script = `#!/bin/sh\nPATH='${process.env["PATH"]}'\ncase " $* " in\n*" worktree add "*) git "$@"; echo x > ${folder.at("added")}; exec sleep 600;;\nesac\nexec git "$@"\n`;
    await folder.write({ "bin/git": "" });
    writeFileSync(folder.at("bin/git"), script);
    chmodSync(folder.at("bin/git"), 0o755);
    const child = new Child("worktree-process.ts", [folder.path, folder.at("bin")]);
    await folder.readWhenWritten("added");
    await child.kill();
    const [orphan = ""] = listWorktrees();
    assert.equal(git("worktree", "list").split("\n").length, 2);
    const pendingText = readFileSync(folder.at("worktrees", orphan, ".gantry/pending.json"), "utf8");

    const { id, dir } = await startSession();
    assert.deepEqual(listWorktrees(), [path.basename(path.dirname(dir))]);
    assert.equal(git("worktree", "list").split("\n").length, 2);

    // A process that died after it stored the session.
    const pendingFile = path.join(path.dirname(dir), ".gantry/pending.json");
    writeFileSync(pendingFile, pendingText);
    const second = await startSession();
    assert.ok(existsSync(dir) && !existsSync(pendingFile));

    // A process that died after it deleted the session.
    writeFileSync(pendingFile, pendingText);
    await api.driver.delete([id]);
    const third = await startSession();
    assert.ok(!existsSync(dir) && existsSync(second.dir) && existsSync(third.dir));
    assert.equal(git("worktree", "list").split("\n").length, 3);
  });

  it("is removed if the run does not start, and if its repository no longer exists", async (t) => {
    const { api, folder, git, listWorktrees, startSession } = await serveWorktrees(
      t,
      { "a.txt": "one\n" },
      { steps: ["done"] },
    );
    const refused = await api.postRun({ message: "x", worktree: true, provider: "none", model: "none" });
    assert.equal(refused.status, 400);
    assert.deepEqual(listWorktrees(), []);
    assert.equal(git("worktree", "list").split("\n").length, 1);
    const { id } = await startSession();
    rmSync(folder.at("project"), { recursive: true });
    const applied = await api.send(`/api/sessions/${id}/worktree/apply`, { body: "{}" });
    assert.equal(applied.status, 400);
    assert.equal((await api.send(`/api/sessions/${id}`, { method: "DELETE" })).status, 200);
    assert.deepEqual(listWorktrees(), []);
  });

  it("can be read and committed to by commands in the sandbox, which cannot change the repository's settings", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    const commit = "git -c user.name=x -c user.email=x@example.com commit --quiet --all --message=second";
    const command = `echo two > a.txt; git status --short; git diff --stat | cat; ${commit}; git log --format=%s; echo x >> ../.gantry/worktree.json; echo x >> "$(git rev-parse --git-common-dir)/config"; true`;
    const { client, folder, git, startSession } = await serveWorktrees(
      t,
      { "a.txt": "one\n" },
      {
        steps: [callTools(["bash", { command }]), "done"],
        agent: { tools: builtinTools({ bash: { sandbox: "required" } }) },
      },
    );
    const config = await folder.read("project/.git/config");
    const { id } = await startSession();
    const messages = await client.sessions.messages(id);
    const output = String(messages.find(({ role }) => role === "tool")?.content);
    assert.match(output, /^ M a\.txt\n a\.txt \| 2 \+-\n.*second\nfirst\n/s, output);
    assert.equal(await folder.read("project/.git/config"), config);
    assert.equal(git("log", "--format=%s"), "first");
    // A commit in the worktree counts as a change of its files.
    assert.equal((await client.sessions.applyWorktree(id)).length, 1);
    assert.equal(await folder.read("project/a.txt"), "two\n");
  });
});

describe("worktrees of an agent with its own store", () => {
  it("are created for tools that write", async (t) => {
    const folder = await tempDir(t, { "project/a.txt": "one\n", "home/x": "" });
    createRepository(folder.at("project"));
    await using agent = new Agent({
      providers: [new ScriptedProvider([callTools(["write", { path: "b.txt", content: "b\n" }]), "done"])],
      projectDir: folder.at("project"),
      driver: new SqliteDriver({ path: folder.at("store") }),
      tools: builtinTools({}),
      worktrees: gitWorktrees(folder.at("worktrees"), () =>
        Promise.resolve({ environment: createGitEnvironment(folder.at("home")) }),
      ),
    });
    const run = await agent.run({ message: "work", worktree: true, projectDir: folder.at("project") });
    await run.result;
    assert.ok(!existsSync(folder.at("project/b.txt")));
    const [file] = await agent.sessions.applyWorktree(run.sessionId);
    assert.deepEqual(file, { path: folder.at("project/b.txt"), change: "added", reason: "" });
    assert.equal(await folder.read("project/b.txt"), "b\n");
    rmSync(path.join((await agent.sessions.worktree(run.sessionId))?.folder ?? "", "b.txt"));
    await folder.write({ "project/b.txt": "mine\n" });
    await assert.rejects(agent.sessions.applyWorktree(run.sessionId), WorktreeConflictError);
  });
});
