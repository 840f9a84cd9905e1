// Tools can read files that other programs run automatically, but cannot change them under any name.
import assert from "node:assert/strict";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { builtinTools, type BuiltinToolsOptions } from "gantry";
import { Protection } from "../../../src/files/protection.js";
import { callTool, createTemporaryFolder, createToolContext } from "../../helpers/tool-context.js";

async function createProject(files: readonly string[], options: BuiltinToolsOptions = {}) {
  const folder = await createTemporaryFolder();
  for (const file of files) {
    await mkdir(dirname(join(folder.path, file)), { recursive: true });
    await writeFile(join(folder.path, file), "old text\n");
  }
  const tools = new Map(builtinTools(options).map((tool) => [tool.name, tool] as const));
  const call = async (name: string, input: Record<string, unknown>): Promise<string> =>
    (await callTool(tools.get(name)!, input, createToolContext(folder.path))).text;
  const createChanges = (path: string): [string, Record<string, unknown>][] => [
    ["write", { path, content: "new text\n" }],
    ["edit", { path, old_string: "old", new_string: "new" }],
    ["multiedit", { path, edits: [{ old_string: "old", new_string: "new" }] }],
    ...[
      `*** Update File: ${path}\n-old text\n+new text`,
      `*** Delete File: ${path}`,
      `*** Update File: ${path}\n*** Move to: moved.txt`,
    ].map((body): [string, Record<string, unknown>] => [
      "apply_patch",
      { input: `*** Begin Patch\n${body}\n*** End Patch` },
    ]),
    ["delete", { path }],
  ];
  return {
    path: folder.path,
    call,
    /** Asserts that no tool can change the file, and that `read` returns the file's content. */
    async assertProtected(
      path: string,
      expectedError = /is protected, because .*tools\.protected_paths/,
    ): Promise<void> {
      for (const [name, input] of createChanges(path))
        await assert.rejects(call(name, input), expectedError, `${name} ${path}`);
      assert.match(await call("read", { path }), /old text/);
    },
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

const PROTECTED_FILES = [
  ".git/config",
  ".git/hooks/post-checkout",
  "sub/module/.git/config",
  ".vscode/tasks.json",
  ".vscode/settings.json",
  "a/b/.vscode/launch.json",
  "my.code-workspace",
  ".idea/runConfigurations/x.xml",
  ".envrc",
  ".husky/pre-commit",
  ".pre-commit-config.yaml",
  ".bashrc",
  ".config/fish/config.fish",
  ".ssh/authorized_keys",
  ".npmrc",
  ".claude/settings.json",
  ".mcp.json",
  "HEAD",
];
const ORDINARY_FILES = [
  ".gitignore",
  ".gitattributes",
  ".github/workflows/ci.yml",
  "git/config",
  "config",
  "hooks/pre-commit",
  "src/head",
  ".env",
  "package.json",
  "vscode/tasks.json",
  "AGENTS.md",
  ".claude/commands/x.md",
];

describe("protected paths", () => {
  it("can be read, but not written, edited, patched or deleted", async () => {
    await using testProject = await createProject(PROTECTED_FILES);
    for (const path of PROTECTED_FILES) await testProject.assertProtected(path);
    await assert.rejects(
      testProject.call("write", { path: ".git/hooks/new", content: "x" }),
      /\.git\/hooks\/new: is protected/,
    );
    await assert.rejects(testProject.call("delete", { path: ".vscode", recursive: true }), /is protected/);
  });

  it("do not include similar names", async () => {
    await using testProject = await createProject(ORDINARY_FILES);
    for (const path of ORDINARY_FILES) {
      await testProject.call("edit", { path, old_string: "old", new_string: "new" });
      await testProject.call("delete", { path });
      await testProject.call("write", { path, content: "x" });
    }
  });

  it("are recognized in other cases and spellings", () => {
    const protection = new Protection(["*"]);
    for (const name of [
      ".GIT/config",
      ".Git/hooks/x",
      ".git./config",
      ".git /config",
      ".git::$INDEX_ALLOCATION/config",
    ])
      assert.ok(protection.findReason(join("/p", name), ["/p"]), name);
    for (const name of [
      "GIT~1/config",
      ".g\u200cit/config".replace("\u200c", "\u200b"),
      ".VSCode/Tasks.json",
      ".ENVRC",
    ])
      assert.ok(protection.findReason(join("/p", name), ["/p"]), name);
  });

  it("are recognized through symbolic links to files and folders", async () => {
    await using testProject = await createProject([".git/config", "real/tasks.json", ".vscode.real/settings.json"]);
    await symlink(".git", join(testProject.path, "harmless"));
    await symlink(join(testProject.path, ".git", "config"), join(testProject.path, "plain.txt"));
    await symlink("real", join(testProject.path, ".vscode"));
    await symlink(".vscode", join(testProject.path, "twice"));
    for (const path of ["harmless/config", ".vscode/tasks.json", "twice/tasks.json"])
      await testProject.assertProtected(path);
    // The link itself may be deleted, but its target cannot be changed through it.
    await assert.rejects(testProject.call("write", { path: "plain.txt", content: "x" }), /is protected/);
    await assert.rejects(
      testProject.call("edit", { path: "plain.txt", old_string: "old", new_string: "x" }),
      /is protected/,
    );
    await testProject.call("delete", { path: "plain.txt" });
    assert.equal(await readFile(join(testProject.path, ".git", "config"), "utf8"), "old text\n");
  });

  it("include the config and hooks of a bare repository, and a new HEAD file", async () => {
    await using testProject = await createProject([
      "bare/HEAD",
      "bare/config",
      "bare/hooks/update",
      "bare/objects/x",
      "bare/readme",
    ]);
    await testProject.assertProtected("bare/config");
    await testProject.assertProtected("bare/hooks/update");
    await assert.rejects(
      testProject.call("write", { path: "fresh/HEAD", content: "ref: refs/heads/x" }),
      /is protected/,
    );
    await testProject.call("write", { path: "bare/readme", content: "x" });
  });

  it("are set by tools.protected_paths", async () => {
    const files = [".git/config", ".vscode/tasks.json", "infra/prod.tf", "sub/infra/prod.tf", "secrets/a.key"];
    await using testProject = await createProject(files, { protectedPaths: ["*", "!.vscode", "/infra", "*.key"] });
    await testProject.assertProtected(".git/config");
    await testProject.assertProtected("infra/prod.tf", /named in tools\.protected_paths/);
    await testProject.assertProtected("secrets/a.key");
    await testProject.call("edit", { path: ".vscode/tasks.json", old_string: "old", new_string: "new" });
    await testProject.call("edit", { path: "sub/infra/prod.tf", old_string: "old", new_string: "new" });
    await using unprotectedProject = await createProject(files, { protectedPaths: [] });
    for (const path of files) await unprotectedProject.call("edit", { path, old_string: "old", new_string: "new" });
  });

  it("exclude a folder of tools.allow_paths, but not other protected files in it", async () => {
    await using externalFolder = await createTemporaryFolder();
    const fishFolder = join(externalFolder.path, ".config", "fish");
    await mkdir(fishFolder, { recursive: true });
    await using testProject = await createProject(["a"], { allowPaths: [fishFolder] });
    await testProject.call("write", { path: join(fishFolder, "config.fish"), content: "x" });
    await assert.rejects(testProject.call("write", { path: join(fishFolder, ".envrc"), content: "x" }), /is protected/);
  });
});
