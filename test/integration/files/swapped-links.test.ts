import assert from "node:assert/strict";
import { mkdir, readdir, rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import { PathGuard } from "../../../src/files/path-guard.js";
import { callTool, createTemporaryFolder, createToolContext } from "../../helpers/tool-context.js";

describe("paths that are replaced by symbolic links during file access", () => {
  it("PathGuard.openFile never reads a file outside the project", async () => {
    await using folder = await createTemporaryFolder();
    const project = join(folder.path, "project");
    await mkdir(project);
    const secret = join(folder.path, "secret");
    await writeFile(secret, "SECRET");
    await writeFile(join(project, "good"), "good");
    const guard = await PathGuard.create({ roots: [project], deniedPaths: [] });
    let isSwapping = true;
    const swapLoop = (async () => {
      for (let i = 0; isSwapping; i++) {
        await symlink(i % 2 ? secret : join(project, "good"), join(project, "next"));
        await rename(join(project, "next"), join(project, "file"));
      }
    })();
    const counts = { succeeded: 0, rejected: 0 };
    for (let i = 0; i < 200; i++) {
      try {
        const file = await guard.openFile(join(project, "file"));
        assert.equal(await file.handle.readFile("utf8"), "good");
        await file.handle.close();
        counts.succeeded++;
      } catch (error) {
        if ((error as { code?: string }).code !== "path") throw error;
        counts.rejected++;
      }
    }
    isSwapping = false;
    await swapLoop;
    assert.equal(counts.succeeded + counts.rejected, 200);
  });

  it("the write tool creates no file outside the project", async () => {
    await using folder = await createTemporaryFolder();
    const project = join(folder.path, "project");
    const outside = join(folder.path, "outside");
    await mkdir(join(project, "real"), { recursive: true });
    await mkdir(outside);
    await symlink(outside, join(project, "evil"));
    const writeTool = builtinTools().find((tool) => tool.name === "write")!;
    let isRenaming = true;
    const renameLoop = (async () => {
      while (isRenaming) {
        await rename(join(project, "real"), join(project, "sub")).catch(() => undefined);
        await rename(join(project, "sub"), join(project, "real")).catch(() => undefined);
        await rename(join(project, "evil"), join(project, "sub")).catch(() => undefined);
        await rename(join(project, "sub"), join(project, "evil")).catch(() => undefined);
      }
    })();
    for (let i = 0; i < 60; i++)
      await callTool(writeTool, { path: `sub/${i}.txt`, content: "x" }, createToolContext(project)).catch(
        () => undefined,
      );
    isRenaming = false;
    await renameLoop;
    assert.deepEqual(await readdir(outside), []);
  });
});
