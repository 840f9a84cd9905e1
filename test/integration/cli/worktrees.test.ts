import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { callStep } from "../../helpers/fake-model-server.js";
import { createRepository } from "../../helpers/git-repository.js";
import { startModelServer, createServerConfig } from "../../helpers/server-runs.js";
import { runGantry } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { listWorktreeFolders } from "../../helpers/worktree-project.js";

describe("gantry run --worktree", () => {
  it("works in a worktree, whose changes gantry sessions apply copies, and which sessions delete removes", async (t) => {
    const folder = await tempDir(t, { "project/a.txt": "one\n", "home/x": "" });
    const git = createRepository(folder.at("project"));
    const modelServer = await startModelServer(t, { toolFreeAnswer: { say: [{ text: "A title" }] } });
    modelServer.enqueue(callStep("write", { path: "a.txt", content: "two\n" }), { say: [{ text: "done" }] });
    const options = {
      home: folder.at("home"),
      projectDir: folder.at("project"),
      config: createServerConfig(modelServer),
    };
    const gantry = (...args: string[]) => runGantry(t, args, options);
    const invalidRun = await gantry("run", "--worktree", "--continue", "x");
    assert.deepEqual(
      [invalidRun.code, invalidRun.stderr],
      [2, "gantry: --worktree: expected a new session, not --session or --continue\n"],
    );
    const run = await gantry("run", "--worktree", "change it");
    assert.equal(run.code, 0, run.stderr);
    const id = /gantry sessions apply ([0-9a-f-]{36}) copies its changes here/.exec(run.stderr)?.[1] ?? "";
    assert.equal(await folder.read("project/a.txt"), "one\n");
    const preview = await gantry("sessions", "apply", id, "--dry-run");
    assert.deepEqual(
      [preview.code, preview.stdout, preview.stderr],
      [0, "changed  a.txt\n", "would be applied: 1 path\n"],
    );
    writeFileSync(folder.at("project/a.txt"), "mine\n");
    const conflict = await gantry("sessions", "apply", id);
    assert.equal(conflict.code, 1);
    assert.equal(conflict.stdout, "changed  a.txt: was changed in the project folder too\n");
    writeFileSync(folder.at("project/a.txt"), "one\n");
    const { stdout } = await gantry("sessions", "apply", id, "--json");
    assert.equal((JSON.parse(stdout) as { done: boolean }).done, true);
    assert.equal(await folder.read("project/a.txt"), "two\n");
    assert.equal(listWorktreeFolders(folder.at("home-worktrees")).length, 1);
    await gantry("sessions", "delete", "--yes", id);
    assert.deepEqual(listWorktreeFolders(folder.at("home-worktrees")), []);
    assert.equal(git("worktree", "list").split("\n").length, 1);
  });
});
