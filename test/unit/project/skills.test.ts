import assert from "node:assert/strict";
import { mkdir, rm, symlink } from "node:fs/promises";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import type { Skill } from "gantry/plugin";
import { repositoryOf } from "../../../src/files/repository.js";
import { Skills } from "../../../src/project/skills.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { callTool, createToolContext } from "../../helpers/tool-context.js";

const createSkillText = (name: string, description = `about ${name}`, body = `Do ${name}.`) =>
  `---\nname: ${name}\ndescription: ${description}\n---\n${body}\n`;

const describeSkills = (skills: readonly Skill[]) =>
  skills.map(({ name, description, origin }) => `${name} ${origin} ${description}`);

describe("skills", () => {
  it("come from the user, the project folder and the repository; for skills with the same name, this order decides", async (t) => {
    const folder = await tempDir(t, {
      "repo/.agents/skills/release/SKILL.md": createSkillText("release", "of the top"),
      "repo/.agents/skills/top/SKILL.md": createSkillText("top"),
      "repo/a/.claude/skills/release/SKILL.md": createSkillText("release", "of the folder"),
      "repo/a/.agents/skills/review/SKILL.md": createSkillText("review", "of the project"),
      "repo/a/.agents/skills/none/README.md": "no skill",
      "home/skills/review/SKILL.md": createSkillText("review", "of the user"),
    });
    await mkdir(folder.at("repo/.git"));
    const foundSkills = await new Skills([folder.at("home")]).readSkills(
      await repositoryOf(folder.at("repo/a")),
      folder.at("home"),
    );
    assert.deepEqual(describeSkills(foundSkills), [
      "release project of the folder",
      "review user of the user",
      "top project about top",
    ]);
    assert.deepEqual(describeSkills(await new Skills([]).readSkills(undefined, folder.at("home"))), [
      "review user of the user",
    ]);
  });

  it("are limited to 64, with one-line descriptions of at most 200 characters and valid names", async (t) => {
    const files = Object.fromEntries(
      Array.from({ length: 80 }, (_, i) => [
        `.agents/skills/s${i}/SKILL.md`,
        createSkillText(`s${i}`, `"${"x".repeat(500)}\\nmore"`),
      ]),
    );
    const folder = await tempDir(t, { ...files, ".claude/skills/fine/SKILL.md": '---\nname: "a\\nb"\n---\nx' });
    const foundSkills = await new Skills([]).readSkills(await repositoryOf(folder.path), undefined);
    assert.equal(foundSkills.length, 64);
    for (const { description } of foundSkills) assert.ok(description.length <= 200 && !description.includes("\n"));
    const smallFolder = await tempDir(t, { ".claude/skills/fine/SKILL.md": '---\nname: "a\\nb"\n---\nx' });
    assert.deepEqual(describeSkills(await new Skills([]).readSkills(await repositoryOf(smallFolder.path), undefined)), [
      "fine project ",
    ]);
  });

  it("are not read through a link out of the repository", async (t) => {
    const folder = await tempDir(t, { "out/s/SKILL.md": createSkillText("s"), "repo/.agents/x": "" });
    await symlink("../../out", folder.at("repo/.agents/skills"));
    assert.deepEqual(await new Skills([]).readSkills(await repositoryOf(folder.at("repo")), undefined), []);
  });
});

describe("the skill tool", () => {
  const tool = builtinTools().find(({ name }) => name === "skill")!;

  it("returns a skill with its origin, folder and files, and reads no file outside the skill's folder", async (t) => {
    const folder = await tempDir(t, {
      ".agents/skills/release/SKILL.md": createSkillText("release"),
      ".agents/skills/release/scripts/go.sh": "echo go",
      "secret.txt": "secret",
    });
    const skills = await new Skills([]).readSkills(await repositoryOf(folder.path), undefined);
    const context = createToolContext(folder.path, { skills });
    const { text } = await callTool(tool, { name: "release" }, context);
    assert.match(text, /^Unverified skill of the repository, in .*\.agents\/skills\/release\n/);
    assert.match(text, /scripts\/go\.sh\n\nDo release\.$/);
    assert.equal((await callTool(tool, { name: "release", file: "scripts/go.sh" }, context)).text, "echo go");
    await symlink("../../../secret.txt", folder.at(".agents/skills/release/link"));
    for (const [input, expectedError] of [
      [{ name: "release", file: "../../../secret.txt" }, /not in the folder of the skill/],
      [{ name: "release", file: "/etc/passwd" }, /not in the folder of the skill/],
      [{ name: "release", file: "none" }, /none: not found/],
      [{ name: "other" }, /Skill "other" does not exist\. Use one of: release/],
    ] as const)
      await assert.rejects(callTool(tool, input, context), expectedError);
  });

  it("reports if the skill's folder has more files or deeper folders than the tool lists", async (t) => {
    const skillFolder = ".agents/skills/wide";
    const folder = await tempDir(t, {
      [`${skillFolder}/SKILL.md`]: createSkillText("wide"),
      [`${skillFolder}/.git/x`]: "",
    });
    const readSkillText = async () => {
      const skills = await new Skills([]).readSkills(await repositoryOf(folder.path), undefined);
      return (await callTool(tool, { name: "wide" }, createToolContext(folder.path, { skills }))).text;
    };
    const truncationNotice = "Its folder was not searched completely.";
    assert.match(await readSkillText(), /\nIt has no other files\.\n\nDo wide\.$/);
    for (let i = 0; i < 1_100; i++) await mkdir(folder.at(skillFolder, `d${i}`));
    for (let i = 0; i < 30; i++) await folder.write({ [`${skillFolder}/d${i}/file`]: "" });
    assert.ok((await readSkillText()).includes(truncationNotice));
    for (let i = 0; i < 1_100; i++) await rm(folder.at(skillFolder, `d${i}`), { recursive: true });
    await folder.write({ [`${skillFolder}/a/b/c/deep`]: "" });
    assert.ok(
      (await readSkillText()).includes(truncationNotice),
      "the tool reports that deep folders were not searched",
    );
    await folder.write(Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`${skillFolder}/f${i}`, ""])));
    const text = await readSkillText();
    assert.ok(text.includes(truncationNotice));
    assert.ok((text.match(/\bf\d+/g) ?? []).length >= 49);
  });

  it("rejects with the reason of an aborted signal", async (t) => {
    const folder = await tempDir(t, { ".agents/skills/x/SKILL.md": createSkillText("x") });
    const skills = await new Skills([]).readSkills(await repositoryOf(folder.path), undefined);
    const signal = AbortSignal.abort(new Error("enough"));
    await assert.rejects(callTool(tool, { name: "x" }, createToolContext(folder.path, { skills, signal })), /enough/);
  });

  it("reads the user's skills in a denied home folder, but follows no link out of the skill", async (t) => {
    const folder = await tempDir(t, {
      "home/skills/mine/SKILL.md": createSkillText("mine"),
      "home/config.json": "key",
      "p/x": "",
    });
    await symlink("../../config.json", folder.at("home/skills/mine/config"));
    const home = folder.at("home");
    const skillTool = builtinTools({ deniedPaths: [home] }).find(({ name }) => name === "skill")!;
    const context = createToolContext(folder.at("p"), { skills: await new Skills([home]).readSkills(undefined, home) });
    assert.match((await callTool(skillTool, { name: "mine" }, context)).text, /^Skill of the user[\s\S]*Do mine\.$/);
    await assert.rejects(callTool(skillTool, { name: "mine", file: "config" }, context), /outside/);
  });
});
