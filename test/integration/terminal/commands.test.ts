import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { describe, it, type TestContext } from "node:test";
import { builtinTools, folderHistory } from "gantry";
import { callTools, type ScriptedStep } from "gantry/testing";
import { startApi } from "../../helpers/http-api.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { startTerminal } from "../../helpers/terminal-screen.js";
import { waitFor } from "../../helpers/wait.js";
import { serveWorktrees } from "../../helpers/worktree-project.js";

/** Starts a terminal whose first prompt got an answer. */
async function startSession(t: TestContext, steps: readonly ScriptedStep[], hasShell = true) {
  const [project, home] = [await tempDir(t, { "note.txt": "a\nb\nc\nd\n" }), await tempDir(t)];
  const { PATH = "" } = process.env;
  const api = await startApi(t, {
    steps,
    http: { shell: hasShell, environment: { PATH } },
    agent: {
      projectDir: project.path,
      tools: builtinTools({ bash: { sandbox: "off" } }),
      fileHistory: folderHistory({ folder: home.path }),
    },
  });
  const terminal = startTerminal(t, api.url);
  terminal.serve();
  terminal.type("hello\r");
  await terminal.screen.waitFor(/First answer\.[^]*\/help/);
  return { ...terminal, api, project };
}

describe("shell commands in the terminal", { skip: process.platform === "win32" }, () => {
  it("shows the output of ! to the model with the next prompt, and of !! only to the user", async (t) => {
    const { screen, type, api } = await startSession(t, ["First answer.", "Second answer."]);
    type("!!printf 'secret \\033[31mone'; exit 3\r");
    await screen.waitFor(/shown to the\s+model\)\n {4}secret one\n {4}\[exit code 3\]/);
    type("!echo $((40 + 2)) shared\r");
    await screen.waitFor(/❯ !echo \$\(\(40 \+ 2\)\) shared\n {4}42 shared/);
    type("what?\r");
    await screen.waitFor(/Second answer\./);
    const request = JSON.stringify(api.provider.requests.at(-1)?.messages);
    assert.match(request, /42 shared/);
    assert.doesNotMatch(request, /secret/);
  });

  it("stops with Ctrl+C, and keeps what the command printed", async (t) => {
    const { screen, type } = await startSession(t, ["First answer."]);
    type("!!printf 'be''gun'; sleep 600\r");
    await screen.waitFor(/ {4}begun[^]*running a command, Ctrl\+C stops/);
    type("\u0003");
    await screen.waitFor(/ {4}begun\n {4}\[stopped\]/);
    assert.doesNotMatch(screen.text, /❯ !!/);
  });

  it("returns the text to the prompt if commands are disabled", async (t) => {
    const { screen, type } = await startSession(t, ["First answer."], false);
    type("!ls\r");
    await screen.waitFor(/commands are disabled[^]*\n❯ !ls$/m);
  });
});

describe("/context and /search", () => {
  it("show the parts of the window, its share in the status line, and messages by their words", async (t) => {
    const { screen, type } = await startSession(t, ["First answer."]);
    await screen.waitFor(/\d+% of/);
    type("/context\r");
    await screen.waitFor(/next prompt.*\d+%[^]*tools/);
    type("\u001b");
    await screen.waitFor(/^(?![^]*Esc closes)/);
    type("/new\r");
    await screen.waitFor(/Type a prompt/);
    type("/search answer first\r");
    await screen.waitFor(/❯ +First answer\./);
    type("\r");
    await screen.waitFor(/❯ hello\n\n {2}First answer\.|^ {2}First answer\./m);
  });
});

describe("/changes", () => {
  it("lists changed files, undoes one change and shows the others, then undoes the file", async (t) => {
    const write = callTools(["bash", { command: "true" }], ["write", { path: "note.txt", content: "A\nb\nc\nD\n" }]);
    const { screen, type, project } = await startSession(t, [write, "First answer."]);
    const readNote = () => readFile(project.at("note.txt"), "utf8");
    type("/changes\r");
    await screen.waitFor(/❯ .*note\.txt.*\+2 -2/);
    type("\r");
    await screen.waitFor(/note\.txt 1\/2\n❯ line 1\n {4}- a\n {4}\+ A/);
    type("\u001b[B");
    await screen.waitFor(/2\/2\n❯ line 4/);
    type("\r");
    await screen.waitFor(/note\.txt\n❯ line 1\n {4}- a\n {4}\+ A\n {2}↑↓ change/);
    assert.equal(await readNote(), "A\nb\nc\nd\n");
    type("u");
    await screen.waitFor(/^(?![^]*(undoing|Enter undoes))[^]*restored/);
    assert.equal(await readNote(), "a\nb\nc\nd\n");
    type("/changes\r");
    await screen.waitFor(/No changed files/);
    type("/redo\r");
    await screen.waitFor(/any other key/);
    type("y");
    await screen.waitFor(/^(?![^]*any other key)/);
    type("/changes run\r");
    await screen.waitFor(/❯ .*note\.txt.*\+2 -2/);
    type("\u001b");
    await screen.waitFor(/^(?![^]*Esc closes)/);
    type("/changes other\r");
    await screen.waitFor(/\/changes or \/changes run/);
  });
});

describe("a running command of the model", { skip: process.platform === "win32" }, () => {
  it("moves to the background with Ctrl+B or /background, and the model continues", async (t) => {
    const sleep = callTools(["bash", { command: "echo be''gun; sleep 300" }]);
    const { screen, type } = await startSession(t, ["First answer.", sleep, "Second answer.", sleep, "Third answer."]);
    type("again\r");
    await screen.waitFor(/ {4}begun\n/);
    type("\u0002");
    await screen.waitFor(/moved it to the background[^]*Second answer\./);
    await screen.waitFor(/⟳ in the background: echo/);
    type("and again\r");
    await screen.waitFor(/Second answer[^]* {4}begun\n/);
    type("/background\r");
    await screen.waitFor(/Third answer\.[^]*⟳ 2 in the background/);
  });
});

describe("/worktree", () => {
  it("starts the new session in a worktree, and copies its changes or names the conflicts", async (t) => {
    const { api, client, folder } = await serveWorktrees(t, { "a.txt": "one\n" }, { steps: ["First answer."] });
    const { screen, type, serve } = startTerminal(t, api.url);
    serve();
    type("/worktree\r");
    await screen.waitFor(/will work in a Git worktree/);
    type("/worktree\r");
    await screen.waitFor(/will work in the project folder/);
    type("/worktree\r");
    await screen.waitFor(/will work in a Git worktree[^]*project folder[^]*in a Git worktree/);
    type("hello\r");
    await screen.waitFor(/First answer\.[^]*\/help/);
    const [session] = (await client.sessions.list()).sessions;
    assert.ok(session);
    assert.equal(path.dirname(path.dirname(session.project_dir)), folder.at("worktrees"));
    type("/worktree\r");
    await screen.waitFor(/No changes to copy/);
    writeFileSync(path.join(session.project_dir, "a.txt"), "two\n");
    writeFileSync(path.join(session.project_dir, "b.txt"), "new\n");
    type("/worktree\r");
    await screen.waitFor(/Copy 2 files to[^]*changed {2}a\.txt\n {2}added {4}b\.txt[^]*any other key/);
    type("n");
    await screen.waitFor(/^(?![^]*any other key)/);
    assert.equal(await folder.read("project/a.txt"), "one\n");
    await folder.write({ "project/a.txt": "mine\n" });
    type("/worktree\r");
    await screen.waitFor(/Nothing was copied[^]*a\.txt +was changed in the project folder too[^]*Esc closes/);
    type("\u001b");
    await screen.waitFor(/^(?![^]*Esc closes)/);
    await folder.write({ "project/a.txt": "one\n" });
    type("/worktree\r");
    await screen.waitFor(/Copy 2 files/);
    type("y");
    await screen.waitFor(/Copied 2 files to/);
    assert.deepEqual([await folder.read("project/a.txt"), await folder.read("project/b.txt")], ["two\n", "new\n"]);
  });

  it("says that a session works in the project folder", async (t) => {
    const { screen, type } = await startSession(t, ["First answer."]);
    type("/worktree\r");
    await screen.waitFor(/does not work in a worktree/);
  });
});

describe("a window of 12 columns and 3 rows", () => {
  it("shows commands, lists and questions instead of the prompt", async (t) => {
    const project = await tempDir(t);
    const api = await startApi(t, {
      steps: [callTools(["bash", { command: "echo done > file" }]), "First answer."],
      agent: { projectDir: project.path, tools: builtinTools({ bash: { sandbox: "off" } }) },
    });
    const { screen, type, serve } = startTerminal(t, api.url, { mode: "ask" }, true, [12, 3]);
    serve();
    type("/help\r");
    await screen.waitFor(/^ Keys and/);
    type("\u001b");
    await screen.waitFor(/^─+\n❯/);
    type("/mode\r");
    await screen.waitFor(/^ Mode\n/);
    type("\u001b");
    await screen.waitFor(/^─+\n❯/);
    type("go\r");
    // The keys are named once the question accepts them.
    await screen.waitFor(/^ \? Allow\?\n {3}1 Allow …\n {3}↑↓/);
    type("1");
    await screen.waitFor(/❯/);
    type("\r");
    await screen.waitFor(/^─+\n❯/);
    await waitFor("the output of the command", () => existsSync(project.at("file")) || undefined);
  });
});
