import assert from "node:assert/strict";
import { link, mkdir, rename, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { createTextCache, createFolderCache } from "../../../src/files/path-cache.js";
import { pause } from "../../helpers/server-runs.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** Returns a reader whose cache stores results at once, independent of the clock. */
const createEagerReader = (deniedPaths: readonly string[] = [], maxBytes = 100) =>
  createTextReader(maxBytes, deniedPaths, -Infinity);

/** Returns a reader of a folder's AGENTS.md through a cache. `readText` returns `""` if the file cannot be read. */
function createTextReader(maxBytes: number, deniedPaths: readonly string[], racyMs: number) {
  const textCache = createTextCache(maxBytes, deniedPaths, racyMs);
  return {
    readText: async (folder: string, owners?: ReadonlySet<bigint>) =>
      (await textCache.read({ path: join(folder, "AGENTS.md"), root: folder, owners }))?.text ?? "",
  };
}

/** Longer than a clock tick of the file system, in ms. */
const FILE_CLOCK_DELAY_MS = 25;

/** Time: a change after this delay has another modification time than a change before it. */
const waitForFileClock = (): Promise<void> => pause(FILE_CLOCK_DELAY_MS);

describe("createTextCache", () => {
  it("returns the current text of each folder's file after it is changed, removed, restored or replaced", async (t) => {
    const project = await tempDir(t, { "a/AGENTS.md": " one\n", "b/x": "" });
    const reader = createEagerReader();
    const filePath = project.at("a/AGENTS.md");
    assert.equal(await reader.readText(project.at("a")), "one");
    assert.equal(await reader.readText(project.at("a")), "one");
    assert.equal(await reader.readText(project.at("b")), "");
    await waitForFileClock();
    await writeFile(filePath, " two\n");
    assert.equal(await reader.readText(project.at("a")), "two");
    // Same size and same modification time, as after a checkout or an unpacked archive.
    const time = new Date("2020-01-01");
    await utimes(filePath, time, time);
    assert.equal(await reader.readText(project.at("a")), "two");
    await waitForFileClock();
    await writeFile(filePath, " six\n");
    await utimes(filePath, time, time);
    assert.equal(await reader.readText(project.at("a")), "six");
    await rm(filePath);
    assert.equal(await reader.readText(project.at("a")), "");
    await writeFile(filePath, "back");
    assert.equal(await reader.readText(project.at("a")), "back");
    await writeFile(project.at("new"), "other");
    await rename(project.at("new"), filePath);
    assert.equal(await reader.readText(project.at("a")), "other");
  });

  it("reads a file again if it changed within the last racyMs", async (t) => {
    const project = await tempDir(t, { "AGENTS.md": "one" });
    const reader = createTextReader(100, [], 60_000);
    for (const text of ["one", "two", "six"]) {
      await writeFile(project.at("AGENTS.md"), text);
      assert.equal(await reader.readText(project.path), text);
    }
  });

  it("cuts a text at its limit, never within a character, and sets isTruncated", async (t) => {
    const project = await tempDir(t, { "AGENTS.md": "0123456789", "b/AGENTS.md": "abcü" });
    assert.equal(await createEagerReader([], 4).readText(project.path), "0123");
    assert.equal(await createEagerReader([], 4).readText(project.at("b")), "abc");
    const toLocation = (path: string) => ({ path: project.at(path), root: project.path });
    assert.deepEqual(await createTextCache(4, []).read(toLocation("AGENTS.md")), { text: "0123", isTruncated: true });
    assert.deepEqual(await createTextCache(10, []).read(toLocation("AGENTS.md")), {
      text: "0123456789",
      isTruncated: false,
    });
  });

  it("returns no text of a file whose owner is not allowed", { skip: process.getuid === undefined }, async (t) => {
    const project = await tempDir(t, { "AGENTS.md": "theirs" });
    const ownUid = BigInt(process.getuid?.() ?? 0);
    assert.equal(await createEagerReader().readText(project.path, new Set([ownUid])), "theirs");
    assert.equal(await createEagerReader().readText(project.path, new Set([ownUid + 1n])), "");
  });

  it("returns no text of a link out of the root, a hard link to a denied file or a folder, after a cached read", async (t) => {
    const project = await tempDir(t, { "p/AGENTS.md": "fine", "secret/config.json": "key", "outside.md": "outside" });
    const folder = project.at("p");
    const reader = createEagerReader([project.at("secret")]);
    assert.equal(await reader.readText(folder), "fine");
    await rm(project.at("p/AGENTS.md"));
    await symlink("../outside.md", project.at("p/AGENTS.md"));
    assert.equal(await reader.readText(folder), "");
    await rm(project.at("p/AGENTS.md"));
    // A hard link is a second name of the denied file.
    await link(project.at("secret/config.json"), project.at("p/AGENTS.md"));
    assert.equal(await reader.readText(folder), "");
    await rm(project.at("p/AGENTS.md"));
    await mkdir(project.at("p/AGENTS.md"));
    assert.equal(await reader.readText(folder), "");
  });

  it("returns no text of a file in a denied folder", async (t) => {
    const project = await tempDir(t, { "AGENTS.md": "mine" });
    assert.equal(await createEagerReader().readText(project.path), "mine");
    assert.equal(await createEagerReader([project.path]).readText(project.path), "");
  });
});

describe("createFolderCache", () => {
  it("returns the current subfolders and links by name, up to its limit, and nothing outside the root", async (t) => {
    const project = await tempDir(t, { "skills/b/x": "", "skills/a/x": "", "skills/file": "" });
    await symlink("/nowhere", project.at("skills/c"));
    const folderCache = createFolderCache(10, [], -Infinity);
    const location = { path: project.at("skills"), root: project.path };
    assert.deepEqual(await folderCache.read(location), ["a", "b", "c"]);
    await waitForFileClock();
    await mkdir(project.at("skills/d"));
    assert.deepEqual(await folderCache.read(location), ["a", "b", "c", "d"]);
    assert.equal((await createFolderCache(2, []).read(location))?.length, 2);
    assert.equal(await folderCache.read({ ...location, path: project.at("none") }), undefined);
    assert.equal(await folderCache.read({ path: "/etc", root: project.path }), undefined);
  });
});
