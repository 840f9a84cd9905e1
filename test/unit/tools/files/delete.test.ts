import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { Agent, builtinTools } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { callTool, temporaryFolder, toolContext } from "../../../helpers/tool-context.js";

it("delete removes files, links and folders of the project, and nothing outside", async () => {
  await using folder = await temporaryFolder();
  const project = join(folder.path, "project");
  const outside = join(folder.path, "outside");
  const home = join(project, "a", "home");
  await mkdir(join(project, "a", "b"), { recursive: true });
  await mkdir(join(project, "c", "d"), { recursive: true });
  await mkdir(join(project, ".git"));
  await mkdir(outside);
  await mkdir(home);
  await writeFile(join(project, "f.txt"), "bye\n");
  await writeFile(join(project, "c", "d", "x"), "");
  await writeFile(join(outside, "keep"), "keep");
  await symlink(outside, join(project, "link"));
  await symlink(outside, join(project, "c", "link"));
  const context = toolContext(project);
  const tool = builtinTools({ deniedPaths: [home] }).find((candidate) => candidate.name === "delete")!;
  const remove = (path: string, recursive = false) => callTool(tool, { path, recursive }, context);

  const gone = await remove("f.txt");
  assert.equal(gone.text, "Deleted f.txt (4 bytes).");
  assert.deepEqual(gone.diff, [{ path: join(project, "f.txt"), oldText: "bye\n", newText: "" }]);
  await assert.rejects(remove("f.txt"), /f.txt: not found/);
  await assert.rejects(remove("c"), /not empty. Set recursive/);
  await assert.rejects(remove("link/keep"), /outside the project folder/);
  assert.match((await remove("link")).text, /symbolic link; its target still exists/);
  assert.equal((await remove("c", true)).text, "Deleted c/ with its contents.");
  assert.equal((await remove("a/b")).text, "Deleted a/b/.");
  assert.equal(await readFile(join(outside, "keep"), "utf8"), "keep");
  for (const path of [".", "..", project, "/", folder.path])
    await assert.rejects(remove(path, true), /is the working folder|outside/, path);
  await assert.rejects(remove("a", true), /denied/);
  await assert.rejects(remove("a/home", true), /denied/);
  await assert.rejects(remove(".git", true), /history of the repository/);
  assert.deepEqual((await readdir(project)).sort(), [".git", "a"]);
});

it("delete removes 30 files of one folder concurrently", async () => {
  await using folder = await temporaryFolder();
  for (let i = 0; i < 30; i++) await writeFile(join(folder.path, `f${i}`), "x");
  const tool = builtinTools().find((candidate) => candidate.name === "delete")!;
  await Promise.all(Array.from({ length: 30 }, (_, i) => callTool(tool, { path: `f${i}` }, toolContext(folder.path))));
  assert.deepEqual(await readdir(folder.path), []);
});

it("delete rejects a path that was replaced during the permission request", async (t) => {
  await using folder = await temporaryFolder();
  const at = (name: string) => join(folder.path, name);
  for (const name of ["old", "src"]) {
    await mkdir(at(name));
    await writeFile(at(`${name}/x`), name);
  }
  /** The result that the model gets if `meanwhile` runs while the user is asked. */
  const resultAfter = async (path: string, meanwhile: () => Promise<unknown>): Promise<string> => {
    const provider = new ScriptedProvider([callTools(["delete", { path, recursive: true }]), "Done."]);
    const agent = new Agent({ providers: [provider], tools: builtinTools(), projectDir: folder.path });
    t.after(() => agent.close());
    const ask = async () => {
      await meanwhile();
      return "allow" as const;
    };
    await (
      await agent.run({ message: "x", mode: "ask", ask })
    ).result;
    const [part] = provider.requests.at(-1)?.messages.at(-1)?.parts ?? [];
    return part?.type === "text" ? part.text : "";
  };
  const swap = async () => {
    await rename(at("old"), at("aside"));
    await rename(at("src"), at("old"));
  };
  assert.match(await resultAfter("old", swap), /old: was replaced during the permission request. Nothing was deleted/);
  assert.equal(await readFile(at("old/x"), "utf8"), "src");
  assert.match(await resultAfter("new", () => mkdir(at("new"))), /new: was replaced/);
  assert.match(await resultAfter("old", () => writeFile(at("old/y"), "more")), /^Deleted old\/ with its contents\./);
  assert.deepEqual((await readdir(folder.path)).sort(), ["aside", "new"]);
});
