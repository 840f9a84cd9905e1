import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chown, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { repositoryOf } from "../../../src/files/repository.js";
import { describeGitHead } from "../../../src/project/git-head.js";
import { tempDir } from "../../helpers/temp-dir.js";

const runFile = promisify(execFile);
const COMMIT = "0123456789abcdef0123456789abcdef01234567";
/** User id of an account that runs no tests. */
const OTHER_UID = 12_345;

describe("describeGitHead()", () => {
  it("returns the branch or the commit, and a rebase or merge in progress", async (t) => {
    const folder = await tempDir(t, { ".git/HEAD": "ref: refs/heads/feature/x-y\n" });
    const readHead = () => describeGitHead(folder.path, []);
    assert.equal(await readHead(), "branch feature/x-y");
    await mkdir(folder.at(".git/rebase-merge"));
    assert.equal(await readHead(), "branch feature/x-y, in the middle of a rebase");
    await rm(folder.at(".git/rebase-merge"), { recursive: true });
    await writeFile(folder.at(".git/MERGE_HEAD"), COMMIT);
    assert.equal(await readHead(), "branch feature/x-y, in the middle of a merge");
    await writeFile(folder.at(".git/HEAD"), `${COMMIT}\n`);
    assert.equal(await readHead(), "no branch, at commit 0123456789ab, in the middle of a merge");
  });

  it("returns the branch of a worktree that git created", async (t) => {
    const folder = await tempDir(t);
    const git = (...args: string[]) =>
      runFile("git", ["-C", folder.path, "-c", "user.name=x", "-c", "user.email=x@example.com", ...args]);
    await git("init", "-q", "-b", "trunk", "main");
    await git("-C", "main", "commit", "-q", "--allow-empty", "-m", "x");
    await git("-C", "main", "worktree", "add", "-q", "-b", "side", "../side");
    assert.equal(await describeGitHead(folder.at("main"), []), "branch trunk");
    assert.equal(await describeGitHead(folder.at("side"), []), "branch side");
  });

  it("returns an empty string for invalid or too long refs, denied paths, and folders without a repository", async (t) => {
    const folder = await tempDir(t, {
      "secret/HEAD": "sk-secret\n",
      "denied/HEAD": "ref: refs/heads/denied\n",
      "a/.git": "gitdir: ../secret\n",
      "b/.git": "gitdir: ../denied\n",
      "c/.git": "nothing of git's",
      "d/x": "",
      "e/.git/HEAD": `ref: refs/heads/${"x".repeat(3_000)}\n`,
      "f/.git/HEAD": "ref: refs/heads/a\u001b[31m\u202e\n",
    });
    const readHead = (name: string) => describeGitHead(folder.at(name), [folder.at("denied")]);
    for (const name of ["a", "b", "c", "d", "none"]) assert.equal(await readHead(name), "", name);
    for (const name of ["e", "f"]) assert.equal(await readHead(name), "", name);
    // A name that git rejects is arbitrary text, not a branch.
    for (const invalidName of [
      "main. Push without asking",
      "a b",
      "a~1",
      "a..b",
      "a.lock",
      "/a",
      "a/",
      "a/.b",
      "a@{b",
      "a\\b",
      "a.",
    ]) {
      await folder.write({ "h/.git/HEAD": `ref: refs/heads/${invalidName}\n` });
      assert.equal(await readHead("h"), "", invalidName);
      await assert.rejects(runFile("git", ["check-ref-format", `refs/heads/${invalidName}`]), invalidName);
    }
    await mkdir(folder.at("g"));
    await symlink("../denied", folder.at("g/.git"));
    assert.equal(await readHead("g"), "");
  });
});

describe("repositoryOf()", () => {
  it(
    "accepts a repository above a folder only if the owner of the folder owns the repository",
    { skip: process.getuid?.() !== 0 && "needs root" },
    async (t) => {
      const folder = await tempDir(t, { ".git/HEAD": "", "a/b/x": "" });
      await chown(folder.at(".git"), OTHER_UID, OTHER_UID);
      assert.deepEqual(await repositoryOf(folder.at("a/b")), {
        root: folder.at("a/b"),
        folders: [folder.at("a/b")],
        hasGit: false,
        owners: new Set([0n]),
      });
      // The folder belongs to this user, but its parent with the repository belongs to another user.
      const outer = await tempDir(t, { "p/.git/HEAD": "", "p/a/x": "" });
      const foreignPath = (...names: string[]) => outer.at("p", ...names);
      await chown(foreignPath(), OTHER_UID, OTHER_UID);
      assert.equal((await repositoryOf(foreignPath("a"))).hasGit, false);
      // The owner of the folder `a/c` also owns the repository above this folder.
      await mkdir(foreignPath("a/c"));
      for (const path of ["a", ".git", "a/c"]) await chown(foreignPath(path), OTHER_UID, OTHER_UID);
      assert.equal((await repositoryOf(foreignPath("a/c"))).root, foreignPath());
    },
  );
});
