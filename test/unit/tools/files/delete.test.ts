import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { Agent, builtinTools } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { callTool, createTemporaryFolder, createToolContext } from "../../../helpers/tool-context.js";

it("delete removes files, links and folders of the project, and nothing outside", async () => {
  await using folder = await createTemporaryFolder();
  const project = join(folder.path, "project");
  const outsideFolder = join(folder.path, "outside");
  const home = join(project, "a", "home");
  await mkdir(join(project, "a", "b"), { recursive: true });
  await mkdir(join(project, "c", "d"), { recursive: true });
  await mkdir(join(project, ".git"));
  await mkdir(outsideFolder);
  await mkdir(home);
  await writeFile(join(project, "f.txt"), "bye\n");
  await writeFile(join(project, "c", "d", "x"), "");
  await writeFile(join(outsideFolder, "keep"), "keep");
  await symlink(outsideFolder, join(project, "link"));
  await symlink(outsideFolder, join(project, "c", "link"));
  const context = createToolContext(project);
  const tool = builtinTools({ deniedPaths: [home] }).find((candidate) => candidate.name === "delete")!;
  const deletePath = (path: string, recursive = false) => callTool(tool, { path, recursive }, context);

  const deletion = await deletePath("f.txt");
  assert.equal(deletion.text, "Deleted f.txt (4 bytes).");
  assert.deepEqual(deletion.diff, [{ path: join(project, "f.txt"), oldText: "bye\n", newText: "" }]);
  await assert.rejects(deletePath("f.txt"), /f.txt: not found/);
  await assert.rejects(deletePath("c"), /not empty. Set recursive/);
  await assert.rejects(deletePath("link/keep"), /outside the project folder/);
  assert.match((await deletePath("link")).text, /symbolic link; its target still exists/);
  assert.equal((await deletePath("c", true)).text, "Deleted c/ with its contents.");
  assert.equal((await deletePath("a/b")).text, "Deleted a/b/.");
  assert.equal(await readFile(join(outsideFolder, "keep"), "utf8"), "keep");
  for (const path of [".", "..", project, "/", folder.path])
    await assert.rejects(deletePath(path, true), /is the working folder|outside/, path);
  await assert.rejects(deletePath("a", true), /denied/);
  await assert.rejects(deletePath("a/home", true), /denied/);
  await assert.rejects(deletePath(".git", true), /history of the repository/);
  assert.deepEqual((await readdir(project)).sort(), [".git", "a"]);
});

it("delete removes 30 files of one folder concurrently", async () => {
  await using folder = await createTemporaryFolder();
  for (let i = 0; i < 30; i++) await writeFile(join(folder.path, `f${i}`), "x");
  const tool = builtinTools().find((candidate) => candidate.name === "delete")!;
  await Promise.all(
    Array.from({ length: 30 }, (_, i) => callTool(tool, { path: `f${i}` }, createToolContext(folder.path))),
  );
  assert.deepEqual(await readdir(folder.path), []);
});

it("delete rejects a path that was replaced during the permission request", async (t) => {
  await using folder = await createTemporaryFolder();
  const toPath = (name: string) => join(folder.path, name);
  for (const name of ["old", "src"]) {
    await mkdir(toPath(name));
    await writeFile(toPath(`${name}/x`), name);
  }
  /** Returns the result that the model gets if `changeFiles` runs during the permission request. */
  const runDelete = async (path: string, changeFiles: () => Promise<unknown>): Promise<string> => {
    const provider = new ScriptedProvider([callTools(["delete", { path, recursive: true }]), "Done."]);
    const agent = new Agent({ providers: [provider], tools: builtinTools(), projectDir: folder.path });
    t.after(() => agent.close());
    const ask = async () => {
      await changeFiles();
      return "allow" as const;
    };
    await (
      await agent.run({ message: "x", mode: "ask", ask })
    ).result;
    const [part] = provider.requests.at(-1)?.messages.at(-1)?.parts ?? [];
    return part?.type === "text" ? part.text : "";
  };
  const swapFolders = async () => {
    await rename(toPath("old"), toPath("aside"));
    await rename(toPath("src"), toPath("old"));
  };
  assert.match(
    await runDelete("old", swapFolders),
    /old: was replaced during the permission request. Nothing was deleted/,
  );
  assert.equal(await readFile(toPath("old/x"), "utf8"), "src");
  assert.match(await runDelete("new", () => mkdir(toPath("new"))), /new: was replaced/);
  assert.match(await runDelete("old", () => writeFile(toPath("old/y"), "more")), /^Deleted old\/ with its contents\./);
  assert.deepEqual((await readdir(folder.path)).sort(), ["aside", "new"]);
});
