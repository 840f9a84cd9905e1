import assert from "node:assert/strict";
import { chmodSync, existsSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { ApiError } from "gantry/client";
import { callTools } from "gantry/testing";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { createGitEnvironment, serveWorktrees } from "../../helpers/worktree-project.js";

const BINARY = new Uint8Array([0, 1, 2, 255, 0, 10]);
const LINES = Array.from({ length: 30 }, (_, i) => `line ${i}\n`);

/** Returns the changed files of an apply as `<change> <name> <reason>`. */
function formatFiles(files: readonly { path: string; change: string; reason: string }[], root: string): string[] {
  return files.map(({ path: file, change, reason }) => `${change} ${path.relative(root, file)} ${reason}`.trim());
}

async function catchConflict(promise: Promise<unknown>): Promise<{ code: string; status: number; message: string }> {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof ApiError, String(error));
    return { code: error.code, status: error.status, message: error.message };
  }
  throw new assert.AssertionError({ message: "no error" });
}

describe("a session in a worktree", () => {
  it("works beside another session on the same files, and both are applied", async (t) => {
    const { api, client, folder, git, startSession } = await serveWorktrees(
      t,
      { "a.txt": "one\n", "b.txt": "one\n" },
      {
        steps: [
          callTools(["write", { path: "a.txt", content: "first\n" }]),
          "done",
          callTools(["write", { path: "a.txt", content: "one\n" }], ["write", { path: "b.txt", content: "second\n" }]),
          "done",
        ],
      },
    );
    writeFileSync(folder.at("project/uncommitted.txt"), "mine\n");
    const first = await startSession();
    const second = await startSession();
    assert.notEqual(first.dir, second.dir);
    assert.equal(path.basename(first.dir), "project");
    assert.equal(path.dirname(path.dirname(first.dir)), folder.at("worktrees"));
    assert.equal(statSync(folder.at("worktrees")).mode & 0o777, 0o700);
    assert.ok(!existsSync(path.join(first.dir, "uncommitted.txt")));
    assert.equal(await folder.read("project/a.txt"), "one\n");
    assert.equal(readFileSync(path.join(first.dir, "a.txt"), "utf8"), "first\n");
    assert.equal(readFileSync(path.join(second.dir, "a.txt"), "utf8"), "one\n");
    const worktree = await client.sessions.worktree(first.id);
    assert.deepEqual(worktree, {
      folder: first.dir,
      project_dir: folder.at("project"),
      base: git("rev-parse", "HEAD"),
    });
    // Changes, undo and the state of Git work in the worktree.
    const { files } = await client.sessions.changes(first.id);
    assert.deepEqual(
      files.map((file) => file.path),
      [path.join(first.dir, "a.txt")],
    );
    assert.deepEqual(await client.git({ sessionId: first.id }), {
      ...{ project_dir: first.dir, branch: null, commit: git("rev-parse", "HEAD"), detached: true },
      ...{ dirty: 1, ahead: null, behind: null },
    });
    await client.sessions.undo(second.id, { filesOnly: true });
    assert.deepEqual(await client.sessions.applyWorktree(second.id), []);
    await client.sessions.redo(second.id);
    for (const [{ id }, name] of [[first, "a.txt"] as const, [second, "b.txt"] as const])
      assert.deepEqual(formatFiles(await client.sessions.applyWorktree(id), folder.at("project")), [`changed ${name}`]);
    assert.deepEqual([await folder.read("project/a.txt"), await folder.read("project/b.txt")], ["first\n", "second\n"]);
    assert.deepEqual(
      git("status", "--porcelain").split("\n").sort(),
      ["?? uncommitted.txt", "M a.txt", " M b.txt"].sort(),
    );
    assert.deepEqual(
      api.logLines.filter((line) => /worktree/.test(line)),
      [],
    );
  });

  it("applies binary, renamed, deleted, untracked, executable and linked files, and later only what is new", async (t) => {
    const { client, folder, startSession } = await serveWorktrees(
      t,
      {
        ...{ "text.txt": LINES.join(""), "old.txt": "moved\n", "gone/deep/x.txt": "x\n", "run.sh": "#!/bin/sh\n" },
        ...{ "image.bin": BINARY, "file-or-link": "file\n", "ü n.txt": "one\n", ".gitignore": "*.log\n" },
      },
      { steps: ["done"] },
    );
    const { id, dir } = await startSession();
    const at = (name: string) => path.join(dir, name);
    const project = (name: string) => folder.at("project", name);
    writeFileSync(at("text.txt"), LINES.with(3, "changed\n").join(""));
    // The user changes other lines of the file meanwhile.
    writeFileSync(project("text.txt"), LINES.with(25, "mine\n").join(""));
    renameSync(at("old.txt"), at("new.txt"));
    rmSync(at("gone"), { recursive: true });
    chmodSync(at("run.sh"), 0o755);
    writeFileSync(at("image.bin"), new Uint8Array([...BINARY, 7, 0, 9]));
    writeFileSync(at("added.bin"), BINARY);
    writeFileSync(at("empty"), "");
    writeFileSync(at("ü n.txt"), "two\n");
    writeFileSync(at("build.log"), "ignored\n");
    rmSync(at("file-or-link"));
    symlinkSync("text.txt", at("file-or-link"));
    const expectedFiles = [
      ...["added added.bin", "added empty", "changed file-or-link", "deleted gone/deep/x.txt", "changed image.bin"],
      ...["added new.txt", "deleted old.txt", "changed run.sh", "changed text.txt", "changed ü n.txt"],
    ];
    const preview = await client.sessions.applyWorktree(id, { dryRun: true });
    assert.deepEqual(formatFiles(preview, folder.at("project")), expectedFiles);
    assert.ok(existsSync(project("old.txt")));
    assert.deepEqual(formatFiles(await client.sessions.applyWorktree(id), folder.at("project")), expectedFiles);
    assert.equal(readFileSync(project("text.txt"), "utf8"), LINES.with(3, "changed\n").with(25, "mine\n").join(""));
    assert.deepEqual([existsSync(project("old.txt")), readFileSync(project("new.txt"), "utf8")], [false, "moved\n"]);
    assert.ok(!existsSync(project("gone")) && !existsSync(project("build.log")));
    assert.equal(statSync(project("run.sh")).mode & 0o111, 0o111);
    assert.deepEqual(new Uint8Array(readFileSync(project("image.bin"))), new Uint8Array([...BINARY, 7, 0, 9]));
    assert.deepEqual(new Uint8Array(readFileSync(project("added.bin"))), BINARY);
    assert.equal(readFileSync(project("file-or-link"), "utf8"), readFileSync(project("text.txt"), "utf8"));
    assert.equal(readFileSync(project("ü n.txt"), "utf8"), "two\n");
    assert.deepEqual(await client.sessions.applyWorktree(id), []);
    writeFileSync(at("new.txt"), "moved again\n");
    assert.deepEqual(formatFiles(await client.sessions.applyWorktree(id), folder.at("project")), ["changed new.txt"]);
    assert.equal(readFileSync(project("new.txt"), "utf8"), "moved again\n");
  });

  it("changes nothing in a conflict, and names the files with their reasons", async (t) => {
    const { api, folder, startSession } = await serveWorktrees(
      t,
      { "a.txt": "one\n", "b.txt": "one\n", "c.txt": "one\n", "ok.txt": "one\n" },
      { steps: ["done"] },
    );
    const { id, dir } = await startSession();
    for (const name of ["a.txt", "b.txt", "ok.txt", "new.txt"]) writeFileSync(path.join(dir, name), "two\n");
    rmSync(path.join(dir, "c.txt"));
    writeFileSync(folder.at("project/a.txt"), "mine\n");
    rmSync(folder.at("project/b.txt"));
    writeFileSync(folder.at("project/c.txt"), "mine\n");
    writeFileSync(folder.at("project/new.txt"), "mine\n");
    const { status, json } = await api.send(`/api/sessions/${id}/worktree/apply`, { body: "{}" });
    assert.equal(status, 409);
    const conflict = json() as {
      code: string;
      error: string;
      files: { path: string; change: string; reason: string }[];
    };
    assert.equal(conflict.code, "worktree_conflict");
    assert.equal(conflict.error, "4 of 5 changed files conflict with the project folder; nothing was applied");
    assert.deepEqual(formatFiles(conflict.files, folder.at("project")), [
      "changed a.txt was changed in the project folder too",
      "changed b.txt does not exist in the project folder",
      "deleted c.txt was changed in the project folder too",
      "added new.txt exists already in the project folder",
      "changed ok.txt",
    ]);
    assert.equal(await folder.read("project/ok.txt"), "one\n");
    assert.equal(await folder.read("project/a.txt"), "mine\n");
  });

  it("applies the rest if the project folder contains a part of the changes", async (t) => {
    const names = ["a.txt", "b [1]*?.txt", "back\\slash.txt"] as const;
    const files = { ...Object.fromEntries(names.map((name) => [name, "one\n"])), "gone.txt": "one\n", "x.sh": "one\n" };
    const { client, folder, startSession } = await serveWorktrees(t, files, { steps: ["done"] });
    const { id, dir } = await startSession();
    const recordPath = path.join(path.dirname(dir), ".gantry/worktree.json");
    const record = readFileSync(recordPath);
    for (const name of names) writeFileSync(path.join(dir, name), "two\n");
    rmSync(path.join(dir, "gone.txt"));
    symlinkSync("a.txt", path.join(dir, "link"));
    chmodSync(path.join(dir, "x.sh"), 0o755);
    const applyFiles = async () => formatFiles(await client.sessions.applyWorktree(id), folder.at("project"));
    // A full disk interrupted an earlier application.
    await folder.write({ [`project/${names[1]}`]: "two\n", [`project/${names[2]}`]: "two\n" });
    symlinkSync("a.txt", folder.at("project/link"));
    const expectedFiles = [
      ...["changed a.txt", "changed b [1]*?.txt", "changed back\\slash.txt", "deleted gone.txt", "added link"],
      "changed x.sh",
    ];
    assert.deepEqual(await applyFiles(), expectedFiles);
    for (const name of names) assert.equal(await folder.read(`project/${name}`), "two\n");
    assert.ok(!existsSync(folder.at("project/gone.txt")));
    assert.equal(statSync(folder.at("project/x.sh")).mode & 0o111, 0o111);
    // A process was killed before it recorded the application.
    writeFileSync(recordPath, record);
    assert.deepEqual(await applyFiles(), expectedFiles);
    assert.deepEqual(await applyFiles(), []);
    // Content with another mode is not the same change.
    writeFileSync(recordPath, record);
    chmodSync(folder.at("project/x.sh"), 0o644);
    assert.deepEqual(await applyFiles(), expectedFiles);
    assert.equal(statSync(folder.at("project/x.sh")).mode & 0o111, 0o111);
  });

  it("keeps the changes of all worktrees that are applied to one file at the same time", async (t) => {
    const count = 6;
    const { client, folder, startSession } = await serveWorktrees(
      t,
      { "a.txt": LINES.join("") },
      { steps: Array.from({ length: count }, () => "done") },
    );
    const ids: string[] = [];
    for (let i = 0; i < count; i++) {
      const { id, dir } = await startSession();
      writeFileSync(path.join(dir, "a.txt"), LINES.with(i * 5, `changed ${i}\n`).join(""));
      ids.push(id);
    }
    await Promise.all(ids.map((id) => client.sessions.applyWorktree(id)));
    const expectedLines = LINES.map((line, i) => (i % 5 === 0 && i < count * 5 ? `changed ${i / 5}\n` : line));
    assert.equal(await folder.read("project/a.txt"), expectedLines.join(""));
  });

  it("works in the same subfolder, and applies only its files", async (t) => {
    const { client, folder, startSession } = await serveWorktrees(
      t,
      { "sub/a.txt": "one\n", "other.txt": "one\n" },
      { steps: ["done"] },
    );
    const { id, dir } = await startSession({ project_dir: "sub" });
    assert.equal(path.basename(dir), "sub");
    writeFileSync(path.join(dir, "a.txt"), "two\n");
    writeFileSync(path.join(dir, "../other.txt"), "two\n");
    assert.deepEqual(formatFiles(await client.sessions.applyWorktree(id), folder.at("project")), ["changed sub/a.txt"]);
    assert.deepEqual(
      [await folder.read("project/sub/a.txt"), await folder.read("project/other.txt")],
      ["two\n", "one\n"],
    );
    assert.deepEqual(await client.files({ sessionId: id, query: "a.t" }), ["a.txt"]);
  });

  it("runs no hook, filter or command of the repository", async (t) => {
    const { api, client, folder, git, startSession } = await serveWorktrees(
      t,
      { "a.txt": "one\n", "b.txt": "one\n", ".gitattributes": "* filter=evil diff=evil\n" },
      { steps: ["done"] },
    );
    const marker = folder.at("ran");
    const program = `touch ${marker}; cat`;
    for (const setting of ["clean", "smudge", "process"]) git("config", `filter.evil.${setting}`, program);
    git("config", "filter.evil.required", "true");
    git("config", "core.fsmonitor", program);
    git("config", "diff.external", program);
    git("config", "diff.evil.textconv", program);
    git("config", "diff.evil.command", program);
    for (const hook of ["post-checkout", "post-index-change", "reference-transaction", "pre-applypatch"])
      writeFileSync(folder.at("project/.git/hooks", hook), `#!/bin/sh\n${program}\n`, { mode: 0o755 });
    const { id, dir } = await startSession();
    for (const name of ["a.txt", "new.txt"]) writeFileSync(path.join(dir, name), "two\n");
    assert.equal((await client.sessions.applyWorktree(id)).length, 2);
    assert.equal(await folder.read("project/a.txt"), "two\n");
    // A session could replace the link to the repository.
    writeFileSync(path.join(dir, ".git"), `gitdir: ${folder.at("evil")}\n`);
    writeFileSync(path.join(dir, "a.txt"), "three\n");
    assert.equal((await client.sessions.applyWorktree(id)).length, 1);
    await api.agent.sessions.delete(id);
    assert.ok(!existsSync(marker));
    assert.equal(git("-c", "core.fsmonitor=false", "worktree", "list", "--porcelain").split("worktree ").length, 2);
  });

  it("does not change files from which gantry or Git runs programs, nor files through a link", async (t) => {
    const readOnlyPaths: string[] = [];
    const { api, client, folder, git, startSession } = await serveWorktrees(
      t,
      { "plugin.mjs": "1\n", "hooks/x": "1\n", "linked/x": "1\n" },
      { steps: ["done", "done", "done"], worktrees: { readOnlyPaths } },
    );
    readOnlyPaths.push(folder.at("project/plugin.mjs"));
    git("config", "core.hooksPath", "hooks");
    for (const [name, reason] of [
      ["plugin.mjs", "is protected, because gantry loads it at its next start"],
      ["hooks/x", "is protected, because gantry loads it at its next start"],
      ["linked/x", "outside the project folder"],
    ] as const) {
      const { id, dir } = await startSession();
      if (name === "linked/x") {
        renameSync(folder.at("project/linked"), folder.at("outside"));
        symlinkSync(folder.at("outside"), folder.at("project/linked"));
      }
      writeFileSync(path.join(dir, name), "2\n");
      const response = await api.send(`/api/sessions/${id}/worktree/apply`, { body: "{}" });
      const { files } = response.json() as { files: { path: string; change: string; reason: string }[] };
      assert.deepEqual(formatFiles(files, folder.at("project")), [`changed ${name} ${reason}`]);
      assert.equal((await catchConflict(client.sessions.applyWorktree(id))).status, 409);
    }
    assert.equal(await folder.read("outside/x"), "1\n");
  });

  it("is refused without a repository, a commit, Git, or the folder in the commit, and for an existing session", async (t) => {
    const { api, folder, git, listWorktrees } = await serveWorktrees(
      t,
      { "a.txt": "one\n" },
      { steps: ["done", "done"], http: { projectRoots: [] } },
    );
    await folder.write({ "project/new/x.txt": "x\n" });
    const send = async (body: object) => {
      const { status, text } = await api.postRun({ message: "x", worktree: true, ...body });
      return `${status} ${(JSON.parse(text) as { error: string }).error}`;
    };
    assert.equal(
      await send({ project_dir: "new" }),
      "400 invalid field: worktree: expected a project folder that the current commit contains",
    );
    const { headers } = await api.postRun({ message: "x" });
    assert.equal(
      await send({ session_id: headers["x-session-id"] }),
      "400 invalid field: worktree: expected false for an existing session",
    );
    assert.equal(await send({ project_dir: ".." }), "400 invalid field: project_dir");
    assert.equal(await send({ project_dir: folder.at("worktrees") }), "400 invalid field: project_dir");
    assert.equal(await send({ model: "none", provider: "scripted" }).then((text) => text.slice(0, 3)), "400");
    git("update-ref", "-d", "HEAD");
    assert.equal(await send({}), "400 invalid field: worktree: expected a Git repository with a commit");
    rmSync(folder.at("project/.git"), { recursive: true });
    assert.equal(
      await send({}),
      "400 invalid field: worktree: expected a project folder in a Git repository of this user",
    );
    const applied = await api.send(`/api/sessions/${String(headers["x-session-id"])}/worktree/apply`, { body: "{}" });
    assert.equal(
      applied.text,
      '{"error":"invalid field: worktree: expected a session that works in a worktree","code":"invalid_field"}',
    );
    const shown = await api.send(`/api/sessions/${String(headers["x-session-id"])}/worktree`);
    assert.equal(shown.text, '{"worktree":null}');
    assert.deepEqual(listWorktrees(), []);
    const empty = await tempDir(t);
    const withoutGit = await serveWorktrees(
      t,
      { "a.txt": "one\n" },
      { worktrees: { environment: createGitEnvironment(empty.path, empty.path) } },
    );
    const { text } = await withoutGit.api.postRun({ message: "x", worktree: true });
    assert.match(text, /worktree: expected an installed Git/);
    const inHome = await serveWorktrees(t, { "a.txt": "one\n" }, { worktrees: { deniedPaths: ["/tmp"] } });
    assert.match((await inHome.api.postRun({ message: "x", worktree: true })).text, /outside gantry's home folder/);
  });

  it("is busy during a run, and its worktree is removed with the last session that works in it", async (t) => {
    const gate = createGate();
    const { api, client, git, listWorktrees, startSession } = await serveWorktrees(
      t,
      { "a.txt": "one\n" },
      { steps: ["done", callTools(["wait", {}]), "done"], agent: { tools: [createWaitTool(gate)] } },
    );
    const { id, dir } = await startSession();
    const waitingRun = api.postRun({ message: "wait", session_id: id });
    await gate.firstWait;
    assert.equal((await catchConflict(client.sessions.applyWorktree(id))).code, "session_busy");
    gate.open();
    await waitingRun;
    const fork = await client.sessions.fork(id);
    assert.equal(fork.project_dir, dir);
    await client.sessions.delete(id);
    assert.ok(existsSync(path.join(dir, "a.txt")));
    git("worktree", "lock", dir);
    await client.sessions.delete(fork.id);
    assert.deepEqual(listWorktrees(), []);
    assert.equal(git("worktree", "list").split("\n").length, 1);
    assert.deepEqual(
      api.logLines.filter((line) => /worktree/.test(line)),
      [],
    );
  });
});
