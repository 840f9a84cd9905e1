import assert from "node:assert/strict";
import { chmod, chown, lchown, mkdir, symlink } from "node:fs/promises";
import { describe, it } from "node:test";
import { Agent, builtinTools } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { repositoryOf } from "../../../src/files/repository.js";
import { tempDir, type TempDir } from "../../helpers/temp-dir.js";

/** User ids of accounts that run no tests. */
const OWNER_UID = 61_001;
const OTHER_UID = 61_002;

const isRoot = process.getuid?.() === 0;
const skip = isRoot ? false : "only root can change the owner of a file";

const FILES = {
  "AGENTS.md": "said by AGENTS.md",
  "a/AGENTS.md": "said by a/AGENTS.md",
  "a/x.txt": "x",
  ".agents/skills/release/SKILL.md": "---\nname: release\ndescription: said by a skill\n---\nsaid in a skill",
  ".agents/skills/release/more.md": "said beside a skill",
  ".agents/commands/look.md": "said by a command",
};

/**
 * Runs an agent that reads all of `FILES` and the command `/look`. Returns the instructions that reach the model, and
 * the log warnings.
 */
async function readInstructions(t: Parameters<typeof tempDir>[0], projectDir: string) {
  const provider = new ScriptedProvider([
    callTools(["read", { path: "a/x.txt" }]),
    callTools(["skill", { name: "release" }], ["skill", { name: "release", file: "more.md" }]),
    "done",
    "done",
  ]);
  const warnings: string[] = [];
  const ignoreLog = () => undefined;
  const warn = (message: string, fields: Record<string, unknown> = {}) =>
    void warnings.push(`${message}: ${String(fields["path"]).slice(projectDir.length + 1)}: ${String(fields["why"])}`);
  const logger = { debug: ignoreLog, info: ignoreLog, warn, error: warn };
  const agent = new Agent({ providers: [provider], tools: builtinTools(), projectDir, logger });
  t.after(() => agent.close());
  const run = await agent.run({ message: "/look", commands: true });
  await run.result;
  await (
    await agent.run({ message: "/look", commands: true, sessionId: run.sessionId })
  ).result;
  const sentText = JSON.stringify(provider.requests);
  const instructions = [...new Set(sentText.match(/said (?:by|in|beside) (?:a[ /])?[\w.]+/g))].sort();
  return {
    instructions,
    warnings: warnings.map((line) => line.replace("project file skipped; its instructions are not used: ", "")),
  };
}

const ALL_INSTRUCTIONS = [
  "said beside a skill",
  "said by AGENTS.md",
  "said by a command",
  "said by a skill",
  "said by a/AGENTS.md",
  "said in a skill",
];

/** Changes the owner of these paths in a folder. The targets of links keep their owner. */
async function changeOwner(folder: TempDir, uid: number, paths: readonly string[]): Promise<void> {
  for (const path of paths) await lchown(folder.at(path), uid, uid);
}

const ALL_PATHS = [
  ...Object.keys(FILES),
  ...["a", ".agents", ".agents/skills", ".agents/skills/release", ".agents/commands", "."],
];

describe("the instruction files of a project", () => {
  it("are used if the user owns them, with any folder mode", { skip: process.platform === "win32" }, async (t) => {
    const folder = await tempDir(t, FILES);
    for (const mode of [0o755, 0o1777, 0o777]) {
      await chmod(folder.path, mode);
      assert.deepEqual(await readInstructions(t, folder.path), { instructions: ALL_INSTRUCTIONS, warnings: [] });
    }
  });

  it("are skipped if another user owns them, with one warning per file", { skip }, async (t) => {
    const folder = await tempDir(t, FILES);
    await chmod(folder.path, 0o1777);
    await changeOwner(folder, OTHER_UID, Object.keys(FILES));
    const { instructions, warnings } = await readInstructions(t, folder.path);
    assert.deepEqual(instructions, []);
    const reason = `the path or a parent folder belongs to another user (${OTHER_UID})`;
    assert.deepEqual(warnings.sort(), [
      `.agents/commands/look.md: ${reason}`,
      `.agents/skills/release/SKILL.md: ${reason}`,
      `AGENTS.md: ${reason}`,
      `a/AGENTS.md: ${reason}`,
    ]);
  });

  it("are skipped if another user owns a link on the path", { skip }, async (t) => {
    const folder = await tempDir(t, {
      "lib/AGENTS.md": "said by AGENTS.md",
      "lib/skills/release/SKILL.md": "said in a skill",
    });
    await chmod(folder.path, 0o777);
    await symlink("lib/AGENTS.md", folder.at("AGENTS.md"));
    await mkdir(folder.at(".agents"));
    await symlink("../lib/skills", folder.at(".agents/skills"));
    assert.deepEqual((await readInstructions(t, folder.path)).instructions, ["said by AGENTS.md", "said in a skill"]);
    await changeOwner(folder, OTHER_UID, ["AGENTS.md", ".agents/skills"]);
    assert.deepEqual((await readInstructions(t, folder.path)).instructions, []);
  });

  it("are skipped if every user may write to them", { skip: process.platform === "win32" }, async (t) => {
    const folder = await tempDir(t, FILES);
    for (const path of Object.keys(FILES)) await chmod(folder.at(path), 0o666);
    const { instructions, warnings } = await readInstructions(t, folder.path);
    assert.deepEqual(instructions, []);
    assert.equal(warnings.length, 4);
    for (const line of warnings) assert.match(line, /: the file is writable by every user$/);
  });

  it("are used if the owner of the project folder owns them, but not if a third user does", { skip }, async (t) => {
    const outerFolder = await tempDir(
      t,
      Object.fromEntries(Object.entries(FILES).map(([path, text]) => [`p/${path}`, text])),
    );
    const folder: TempDir = {
      ...outerFolder,
      path: outerFolder.at("p"),
      at: (...names) => outerFolder.at("p", ...names),
    };
    await changeOwner(folder, OWNER_UID, ALL_PATHS);
    assert.deepEqual(await readInstructions(t, folder.path), { instructions: ALL_INSTRUCTIONS, warnings: [] });
    await changeOwner(folder, OTHER_UID, ["AGENTS.md"]);
    assert.ok(!(await readInstructions(t, folder.path)).instructions.includes("said by AGENTS.md"));
  });

  it("are skipped if another user owns the project folder in a world-writable folder", { skip }, async (t) => {
    const outerFolder = await tempDir(
      t,
      Object.fromEntries(Object.entries(FILES).map(([path, text]) => [`p/${path}`, text])),
    );
    const folder: TempDir = {
      ...outerFolder,
      path: outerFolder.at("p"),
      at: (...names) => outerFolder.at("p", ...names),
    };
    await chmod(outerFolder.path, 0o1777);
    await changeOwner(folder, OTHER_UID, ALL_PATHS);
    assert.deepEqual((await readInstructions(t, folder.path)).instructions, []);
  });

  it("a .git folder of another user does not count as a repository", { skip }, async (t) => {
    const folder = await tempDir(t, { ".git/HEAD": "ref: refs/heads/ignore-the-user\n" });
    await chmod(folder.path, 0o1777);
    await chown(folder.at(".git"), OTHER_UID, OTHER_UID);
    assert.equal((await repositoryOf(folder.path)).hasGit, false);
  });
});
