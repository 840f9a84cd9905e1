import assert from "node:assert/strict";
import { chmod, chown, lchown, mkdir, symlink } from "node:fs/promises";
import { describe, it } from "node:test";
import { Agent, builtinTools } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { repositoryOf } from "../../../src/files/repository.js";
import { tempDir, type TempDir } from "../../helpers/temp.js";

/** Nobody that runs tests. */
const ADA = 61_001;
const MALLORY = 61_002;

const isRoot = process.getuid?.() === 0;
const skip = isRoot ? false : "only root can give files away";

const FILES = {
  "AGENTS.md": "said by AGENTS.md",
  "a/AGENTS.md": "said by a/AGENTS.md",
  "a/x.txt": "x",
  ".agents/skills/release/SKILL.md": "---\nname: release\ndescription: said by a skill\n---\nsaid in a skill",
  ".agents/skills/release/more.md": "said beside a skill",
  ".agents/commands/look.md": "said by a command",
};

/** What of these a model is told: of a run that looks at all of them, said by `/look`. And what the log says of it. */
async function told(t: Parameters<typeof tempDir>[0], projectDir: string) {
  const provider = new ScriptedProvider([
    callTools(["read", { path: "a/x.txt" }]),
    callTools(["skill", { name: "release" }], ["skill", { name: "release", file: "more.md" }]),
    "done",
    "done",
  ]);
  const warned: string[] = [];
  const quiet = () => undefined;
  const warn = (message: string, fields: Record<string, unknown> = {}) =>
    void warned.push(`${message}: ${String(fields["path"]).slice(projectDir.length + 1)}: ${String(fields["why"])}`);
  const logger = { debug: quiet, info: quiet, warn, error: warn };
  const agent = new Agent({ providers: [provider], tools: builtinTools(), projectDir, logger });
  t.after(() => agent.close());
  const run = await agent.run({ message: "/look", commands: true });
  await run.result;
  await (
    await agent.run({ message: "/look", commands: true, sessionId: run.sessionId })
  ).result;
  const all = JSON.stringify(provider.requests);
  const said = [...new Set(all.match(/said (?:by|in|beside) (?:a[ /])?[\w.]+/g))].sort();
  return {
    said,
    warned: warned.map((line) => line.replace("a file of the project is left out of what it says: ", "")),
  };
}

const EVERYTHING = [
  "said beside a skill",
  "said by AGENTS.md",
  "said by a command",
  "said by a skill",
  "said by a/AGENTS.md",
  "said in a skill",
];

/** Gives away a folder with what is in it. */
async function give(folder: TempDir, uid: number, paths: readonly string[]): Promise<void> {
  for (const path of paths) await lchown(folder.at(path), uid, uid);
}

const ALL = [
  ...Object.keys(FILES),
  ...["a", ".agents", ".agents/skills", ".agents/skills/release", ".agents/commands", "."],
];

describe("whose files speak for a project", () => {
  it("are ours, also in a folder that everybody may write to", { skip: process.platform === "win32" }, async (t) => {
    const folder = await tempDir(t, FILES);
    for (const mode of [0o755, 0o1777, 0o777]) {
      await chmod(folder.path, mode);
      assert.deepEqual(await told(t, folder.path), { said: EVERYTHING, warned: [] });
    }
  });

  it("are no other user's, which the log tells once", { skip }, async (t) => {
    const folder = await tempDir(t, FILES);
    await chmod(folder.path, 0o1777);
    await give(folder, MALLORY, Object.keys(FILES));
    const { said, warned } = await told(t, folder.path);
    assert.deepEqual(said, []);
    const why = `it, or the way to it, belongs to another user (${MALLORY})`;
    assert.deepEqual(warned.sort(), [
      `.agents/commands/look.md: ${why}`,
      `.agents/skills/release/SKILL.md: ${why}`,
      `AGENTS.md: ${why}`,
      `a/AGENTS.md: ${why}`,
    ]);
  });

  it("are none by another user's link or folder", { skip }, async (t) => {
    const folder = await tempDir(t, {
      "lib/AGENTS.md": "said by AGENTS.md",
      "lib/skills/release/SKILL.md": "said in a skill",
    });
    await chmod(folder.path, 0o777);
    await symlink("lib/AGENTS.md", folder.at("AGENTS.md"));
    await mkdir(folder.at(".agents"));
    await symlink("../lib/skills", folder.at(".agents/skills"));
    assert.deepEqual((await told(t, folder.path)).said, ["said by AGENTS.md", "said in a skill"]);
    await give(folder, MALLORY, ["AGENTS.md", ".agents/skills"]);
    assert.deepEqual((await told(t, folder.path)).said, []);
  });

  it("are none that everybody may write to", { skip: process.platform === "win32" }, async (t) => {
    const folder = await tempDir(t, FILES);
    for (const path of Object.keys(FILES)) await chmod(folder.at(path), 0o666);
    const { said, warned } = await told(t, folder.path);
    assert.deepEqual(said, []);
    assert.equal(warned.length, 4);
    for (const line of warned) assert.match(line, /: everybody may write to it$/);
  });

  it("are those of whoever owns the folder, where it was given to them", { skip }, async (t) => {
    const outer = await tempDir(
      t,
      Object.fromEntries(Object.entries(FILES).map(([path, text]) => [`p/${path}`, text])),
    );
    const folder: TempDir = { ...outer, path: outer.at("p"), at: (...names) => outer.at("p", ...names) };
    await give(folder, ADA, ALL);
    assert.deepEqual(await told(t, folder.path), { said: EVERYTHING, warned: [] });
    await give(folder, MALLORY, ["AGENTS.md"]);
    assert.ok(!(await told(t, folder.path)).said.includes("said by AGENTS.md"));
  });

  it("are not those of whoever made the folder where anybody may make one", { skip }, async (t) => {
    const outer = await tempDir(
      t,
      Object.fromEntries(Object.entries(FILES).map(([path, text]) => [`p/${path}`, text])),
    );
    const folder: TempDir = { ...outer, path: outer.at("p"), at: (...names) => outer.at("p", ...names) };
    await chmod(outer.path, 0o1777);
    await give(folder, MALLORY, ALL);
    assert.deepEqual((await told(t, folder.path)).said, []);
  });

  it("hold for the folder of git, too", { skip }, async (t) => {
    const folder = await tempDir(t, { ".git/HEAD": "ref: refs/heads/ignore-the-user\n" });
    await chmod(folder.path, 0o1777);
    await chown(folder.at(".git"), MALLORY, MALLORY);
    assert.equal((await repositoryOf(folder.path)).hasGit, false);
  });
});
