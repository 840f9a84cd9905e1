import assert from "node:assert/strict";
import { mkdir, symlink } from "node:fs/promises";
import { describe, it } from "node:test";
import { Project } from "../../../src/project/project.js";
import { readTreeTop } from "../../../src/project/tree.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** A limit that a busy machine does not reach. */
const TIMEOUT_MS = 60_000;

describe("the project tree", () => {
  it("lists two levels without ignored files, denied paths and the targets of links", async (t) => {
    const folder = await tempDir(t, {
      ".gitignore": "node_modules/\n*.log\n",
      ".git/config": "",
      "node_modules/x/y": "",
      "a.log": "",
      "README.md": "",
      "src/a.ts": "",
      "src/run/b/c.ts": "",
      "home/config.json": "",
    });
    await mkdir(folder.at("empty"));
    await symlink("/etc", folder.at("link"));
    assert.equal(
      await readTreeTop(folder.path, [folder.at("home")], TIMEOUT_MS),
      "empty/: (empty)\nsrc/: a.ts run/\n.gitignore README.md link",
    );
  });

  it("compares single names of .gitignore, and leaves out patterns that take long", async (t) => {
    const folder = await tempDir(t, {
      ".gitignore": "# note\n/out\n*.tmp\nlogs/\n!keep.tmp\n*a*a*a*a*a*b\nsrc/gen\n",
      out: "",
      "a.tmp": "",
      "keep.tmp": "",
      logs: "",
      "src/out": "",
      "src/b.tmp": "",
      "src/logs/x": "",
      "src/gen/x": "",
      [`${"a".repeat(200)}c`]: "",
    });
    assert.equal(
      await readTreeTop(folder.path, [], TIMEOUT_MS),
      `src/: gen/ out\n.gitignore ${"a".repeat(59)}… keep.tmp logs`,
    );
  });

  it("reads the entries of a limited number of folders and names the others", async (t) => {
    const folder = await tempDir(
      t,
      Object.fromEntries(Array.from({ length: 42 }, (_, i) => [`f${String(i).padStart(2, "0")}/x`, ""])),
    );
    const lines = (await readTreeTop(folder.path, [], TIMEOUT_MS)).split("\n");
    assert.deepEqual(lines.slice(38), ["f38/: x", "f39/: x", "f40/", "f41/"]);
  });

  it("has at most 2,000 bytes, quotes names with control characters, and is empty after its timeout", async (t) => {
    const manyFiles = Object.fromEntries(
      Array.from({ length: 300 }, (_, i) => [`folder-${i}-${"x".repeat(100)}/${"y".repeat(100)}`, ""]),
    );
    const folder = await tempDir(t, { ...manyFiles, "a\nb": "", "c/\u001b[31m": "" });
    const text = await readTreeTop(folder.path, [], TIMEOUT_MS);
    assert.ok(Buffer.byteLength(text) <= 2_000, `${Buffer.byteLength(text)}`);
    assert.match(text, /and \d{3} more/);
    const smallFolder = await tempDir(t, { "a\nb": "", "c/\u001b[31m": "" });
    assert.equal(await readTreeTop(smallFolder.path, [], TIMEOUT_MS), 'c/: "\\u001b[31m"\n"a\\nb"');
    assert.equal(await readTreeTop(smallFolder.at("none"), [], TIMEOUT_MS), "");
    assert.equal(await readTreeTop(smallFolder.path, [], 0), "");
  });

  it("is part of the environment with the branch, unless projectInstructions is false", async (t) => {
    const folder = await tempDir(t, { ".git/HEAD": "ref: refs/heads/main\n", "src/a.ts": "" });
    const project = new Project({}, TIMEOUT_MS);
    const [firstEnvironment, secondEnvironment] = await Promise.all([
      project.environment(folder.path),
      project.environment(folder.path),
    ]);
    assert.deepEqual([firstEnvironment.git, firstEnvironment.tree], ["branch main", "src/: a.ts"]);
    assert.deepEqual(firstEnvironment, secondEnvironment);
    const { git, tree } = await new Project({ projectInstructions: false }, TIMEOUT_MS).environment(folder.path);
    assert.deepEqual([git, tree], ["", ""]);
  });
});
