import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { link, mkdir, open, readFile, rename, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { isInside, PathGuard } from "../../../src/files/path-guard.js";
import { builtinTools } from "gantry";
import { callTool, createTemporaryFolder, createToolContext } from "../../helpers/tool-context.js";

describe("isInside", () => {
  it("compares path components, not prefixes", () => {
    assert.equal(isInside("/a/bc", "/a/b"), false);
    assert.equal(isInside("/a/b", "/a/b"), true);
    assert.equal(isInside("/a/b/c", "/a/b"), true);
    assert.equal(isInside("/a", "/a/b"), false);
    assert.equal(isInside("/a/b/..c", "/a/b"), true);
    assert.equal(isInside("/x", "/"), true);
  });
});

describe("file access of the built-in tools", () => {
  const createTools = (home: string) =>
    new Map(builtinTools({ deniedPaths: [home] }).map((tool) => [tool.name, tool] as const));

  it("rejects paths outside the project, in denied folders and of special files in every file tool", async () => {
    await using folder = await createTemporaryFolder();
    const project = join(folder.path, "project");
    const home = join(project, "home");
    const outside = join(folder.path, "project-secrets");
    await mkdir(join(project, "src"), { recursive: true });
    await mkdir(home);
    await mkdir(outside);
    await writeFile(join(outside, "secret.txt"), "SECRET\n");
    await writeFile(join(home, "store.db"), "SECRET\n");
    await symlink(join(outside, "secret.txt"), join(project, "link.txt"));
    await symlink(outside, join(project, "linked"));
    await symlink(home, join(project, "home-link"));
    await symlink(join(outside, "new.txt"), join(project, "dangling.txt"));
    execFileSync("mkfifo", [join(project, "fifo")]);
    const escapingPaths = [
      "../project-secrets/secret.txt",
      join(outside, "secret.txt"),
      "src/../../project-secrets/secret.txt",
      "link.txt",
      "linked/secret.txt",
      "home/store.db",
      "home-link/store.db",
      "fifo",
      "/dev/zero",
      "/proc/self/environ",
      "/sys/kernel/notes",
      "src",
      "/etc/passwd",
      "a\0b",
    ];
    const context = createToolContext(project);
    const toolsByName = createTools(home);
    for (const path of escapingPaths) {
      for (const [name, input] of [
        ["read", { path }],
        ["write", { path, content: "x" }],
        ["edit", { path, old_string: "SECRET", new_string: "x" }],
        ["multiedit", { path, edits: [{ old_string: "SECRET", new_string: "x" }] }],
        ["apply_patch", { input: `*** Begin Patch\n*** Update File: ${path}\n-SECRET\n+x\n*** End Patch` }],
        ["apply_patch", { input: `*** Begin Patch\n*** Add File: ${path}\n+x\n*** End Patch` }],
        ["apply_patch", { input: `*** Begin Patch\n*** Delete File: ${path}\n*** End Patch` }],
      ] as const) {
        await assert.rejects(
          callTool(toolsByName.get(name)!, input, context),
          (error: Error) => !error.message.includes("SECRET"),
          `${name} ${path}`,
        );
      }
    }
    await assert.rejects(
      callTool(toolsByName.get("write")!, { path: "dangling.txt", content: "x" }, context),
      /target does not exist/,
    );
    await assert.rejects(
      callTool(toolsByName.get("write")!, { path: "linked/new/x.txt", content: "x" }, context),
      /outside/,
    );
    for (const path of ["linked", "..", "/", "/proc", "home", "home-link"])
      for (const [name, input] of [
        ["list", { path }],
        ["glob", { path, pattern: "*" }],
        ["grep", { path, pattern: "SECRET" }],
      ] as const)
        await assert.rejects(callTool(toolsByName.get(name)!, input, context), /outside|denied/, `${name} ${path}`);
    const searchResult = await callTool(toolsByName.get("grep")!, { pattern: "SECRET" }, context);
    assert.match(searchResult.text, /^No match/);
    assert.equal(await readFile(join(outside, "secret.txt"), "utf8"), "SECRET\n");
    await assert.rejects(readFile(join(outside, "new.txt")), { code: "ENOENT" });
  });

  it("allows paths in tools.allow_paths, and symbolic links inside the project", async () => {
    await using folder = await createTemporaryFolder();
    const project = join(folder.path, "project");
    const extraFolder = join(folder.path, "extra");
    await mkdir(project);
    await mkdir(extraFolder);
    await writeFile(join(extraFolder, "a.txt"), "extra\n");
    await writeFile(join(project, "real.txt"), "real\n");
    await symlink("real.txt", join(project, "alias.txt"));
    const permissiveTools = new Map(
      builtinTools({ allowPaths: [extraFolder] }).map((tool) => [tool.name, tool] as const),
    );
    const context = createToolContext(project);
    assert.equal((await callTool(permissiveTools.get("read")!, { path: "../extra/a.txt" }, context)).text, "1\textra");
    await callTool(
      permissiveTools.get("edit")!,
      { path: "alias.txt", old_string: "real", new_string: "changed" },
      context,
    );
    assert.equal(await readFile(join(project, "real.txt"), "utf8"), "changed\n");
    assert.equal(await readFile(join(project, "alias.txt"), "utf8"), "changed\n");
  });

  it("searches for a line only in the first 128 MiB of a file", async () => {
    await using folder = await createTemporaryFolder();
    const path = join(folder.path, "huge.log");
    await writeFile(path, `${"x".repeat(99)}\n`.repeat(200));
    await truncate(path, 64 * 1024 ** 3);
    const readTool = builtinTools().find((tool) => tool.name === "read")!;
    const call = (input: object) => callTool(readTool, { path: "huge.log", ...input }, createToolContext(folder.path));
    await assert.rejects(
      call({ offset: 1_000 }),
      /line 1000 is not within the first 128\.0 MiB of the file \(65536\.0 MiB/,
    );
    const { text } = await call({ offset: 200 });
    assert.match(text, /^200\tx{99}\n201\t/);
    assert.match(text, /\[lines 200-201 of a file of /);
  });

  it("reads a file with several hard links, unless one link is in a denied folder", async () => {
    await using folder = await createTemporaryFolder();
    const project = join(folder.path, "project");
    const home = join(folder.path, "home");
    await mkdir(join(home, "sessions"), { recursive: true });
    await mkdir(project);
    await writeFile(join(home, "sessions", "a.json"), "SECRET");
    await writeFile(join(project, "a"), "plain");
    await link(join(home, "sessions", "a.json"), join(project, "stolen"));
    await link(join(project, "a"), join(project, "b"));
    const readTool = builtinTools({ deniedPaths: [home] }).find((tool) => tool.name === "read")!;
    assert.equal((await callTool(readTool, { path: "b" }, createToolContext(project))).text, "1\tplain");
    await assert.rejects(callTool(readTool, { path: "stolen" }, createToolContext(project)), /access is denied/);
  });

  it("rejects a project folder that was replaced by a symbolic link, and accepts the original folder when it is restored", async () => {
    await using folder = await createTemporaryFolder();
    const project = join(folder.path, "project");
    const outside = join(folder.path, "outside");
    for (const path of [project, outside]) {
      await mkdir(path);
      await writeFile(join(path, "a"), path === outside ? "SECRET" : "plain");
    }
    const readTool = builtinTools().find((tool) => tool.name === "read")!;
    assert.equal((await callTool(readTool, { path: "a" }, createToolContext(project))).text, "1\tplain");
    await rename(project, `${project}.was`);
    await symlink(outside, project);
    await assert.rejects(callTool(readTool, { path: "a" }, createToolContext(project)), /outside the project folder/);
    await rm(project);
    await rename(`${project}.was`, project);
    assert.equal((await callTool(readTool, { path: "a" }, createToolContext(project))).text, "1\tplain");
  });

  it("applies the same rules by handle and, where the system has no such access, by name", async () => {
    await using folder = await createTemporaryFolder();
    const project = join(folder.path, "project");
    const outside = join(folder.path, "outside");
    await mkdir(join(project, "sub"), { recursive: true });
    await mkdir(outside);
    await writeFile(join(outside, "secret"), "SECRET");
    await writeFile(join(project, "sub", "a"), "plain");
    await symlink(outside, join(project, "out"));
    await symlink("sub", join(project, "in"));
    await symlink("nowhere", join(project, "dangling"));
    const rules = { roots: [project], deniedPaths: [join(project, "sub", "denied")] };
    for (const byName of [false, true]) {
      const guard = await PathGuard.create(rules, { byName });
      const file = await guard.openFile(join(project, "in", "a"));
      assert.equal(file.path, join(project, "sub", "a"));
      assert.equal(await file.handle.readFile("utf8"), "plain");
      await file.handle.close();
      const reasonsByPath = {
        "out/secret": "outside",
        "out/none": "outside",
        "out/sub/none": "outside",
        none: "not_found",
        dangling: "not_found",
        sub: "folder",
        "sub/denied": "denied",
        "SUB/../sub/DENIED": "denied",
        "sub/a/b": "not_found",
        "in/../out/secret": "outside",
      };
      for (const [path, reason] of Object.entries(reasonsByPath))
        await assert.rejects(guard.openFile(`${project}/${path}`), { code: "path", reason }, `${path} ${byName}`);
      const folderHandle = await guard.openFolder(join(project, "in", "x", "y"), { create: true });
      assert.equal(folderHandle.path, join(project, "sub", "x", "y"));
      await (await folderHandle.createFile("f", 0o600)).close();
      await folderHandle.rename("f", "g");
      assert.equal((await folderHandle.stat("g"))?.isFile(), true);
      await folderHandle.close();
      await assert.rejects(guard.openFolder(join(project, "out", "x"), { create: true }), { reason: "outside" });
      const rootHandle = await guard.openFolder(project);
      for (const name of ["../outside", "..", ".", "sub/x", ""])
        await assert.rejects(rootHandle.removeTree(name, new AbortController().signal), { code: "path" });
      const subHandle = await rootHandle.openSubfolder("sub");
      await subHandle.removeTree("x", new AbortController().signal);
      assert.equal(await subHandle.stat("x"), undefined);
      assert.equal(await guard.readLink(join(project, "in")), "sub");
      assert.deepEqual((await guard.resolve(join(project, "dangling"))).exists, false);
      await subHandle.close();
      await rootHandle.close();
    }
    assert.equal(await readFile(join(outside, "secret"), "utf8"), "SECRET");
  });

  it("deletes a tree of 300 levels with 1,200 files, and rejects a tree of 600 levels", async () => {
    await using folder = await createTemporaryFolder();
    await mkdir(join(folder.path, "deep", ...Array<string>(300).fill("d")), { recursive: true });
    await mkdir(join(folder.path, "deeper", ...Array<string>(600).fill("d")), { recursive: true });
    await Promise.all(Array.from({ length: 1_200 }, (_, i) => writeFile(join(folder.path, "deep", `f${i}`), "")));
    const deleteTool = builtinTools().find((tool) => tool.name === "delete")!;
    const call = (path: string) => callTool(deleteTool, { path, recursive: true }, createToolContext(folder.path));
    assert.equal((await call("deep")).text, "Deleted deep/ with its contents.");
    await assert.rejects(call("deeper"), /more than 500 levels deep/);
  });

  it("reads the start of a sparse file of 1 GiB with less than 200 MiB of memory", async () => {
    await using folder = await createTemporaryFolder();
    const path = join(folder.path, "sparse.txt");
    await writeFile(path, "first\nsecond\n");
    await truncate(path, 1024 ** 3);
    const readTool = builtinTools().find((tool) => tool.name === "read")!;
    const context = createToolContext(folder.path);
    await assert.rejects(callTool(readTool, { path: "sparse.txt", limit: 2 }, context), /binary data \(1024.0 MiB\)/);
    const textPath = join(folder.path, "text.txt");
    const handle = await open(textPath, "w");
    await handle.write(`${"x".repeat(99)}\n`.repeat(100));
    await handle.close();
    await truncate(textPath, 1024 ** 3);
    const initialBytes = process.memoryUsage().rss;
    const { text } = await callTool(readTool, { path: "text.txt", limit: 2 }, context);
    assert.match(text, /^1\tx{99}\n2\tx{99}\n\[lines 1-2 of a file of 1024.0 MiB; continue with offset 3\]$/);
    assert.ok(process.memoryUsage().rss - initialBytes < 200 * 1024 * 1024);
    const grepTool = builtinTools().find((tool) => tool.name === "grep")!;
    assert.match(
      (await callTool(grepTool, { pattern: "x" }, context)).text,
      /not searched, too large: sparse.txt .*, text.txt /,
    );
    await rm(textPath);
  });
});
