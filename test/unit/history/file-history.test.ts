import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { appendFile, readdir, readFile, utimes } from "node:fs/promises";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { builtinTools, folderHistory } from "gantry";
import type { FileHistory } from "gantry/plugin";
import { callTool, createToolContext } from "../../helpers/tool-context.js";
import { tempDir, type TempDir } from "../../helpers/temp-dir.js";
import { Journal, type ChangeLine } from "../../../src/history/journal.js";
import { ContentStore, hashOf } from "../../../src/history/content-store.js";

interface HistoryFixture {
  folder: TempDir;
  history: FileHistory;
  /** Writes a file like the `write` tool, at this position of the session. */
  write(name: string, content: string, seq: number): Promise<void>;
  /** Restores the files to this position with the given or the fixture's history. Returns outcomes and paths. */
  restoreTo(seq: number, options?: { force?: boolean; history?: FileHistory }): Promise<string[]>;
}

async function createFixture(
  t: TestContext,
  files: Record<string, string>,
  sessionBytes?: number,
): Promise<HistoryFixture> {
  const folder = await tempDir(t, files);
  const home = folder.at("home");
  const history = folderHistory({ folder: home, ...(sessionBytes && { sessionBytes }) });
  const tools = builtinTools({ protectedPaths: [] });
  return {
    folder,
    history,
    write: async (path, content, seq) => {
      const tool = tools.find(({ name }) => name === "write");
      assert.ok(tool);
      const position = { sessionId: "s", runId: "r", callId: "c", seq };
      await callTool(tool, { path, content }, createToolContext(folder.path, { history: history.recorder(position) }));
    },
    restoreTo: async (seq, { force = false, history: otherHistory = history } = {}) => {
      const files = await otherHistory.restore({
        ...{
          sessionId: "s",
          projectDir: folder.path,
          target: { seq },
          undo: `u${seq}`,
          mark: { id: `u${seq}`, snapshotId: "", seq: 100, afterSeq: seq, lastMessageId: "" },
          seq: 100,
          dryRun: false,
          force,
        },
      });
      return files.map(({ path, outcome }) => `${outcome} ${path.slice(folder.path.length + 1)}`);
    },
  };
}

describe("the file history", () => {
  it("stores each content once, and evicts the oldest contents beyond sessionBytes", async (t) => {
    const contentBytes = 40_000;
    const sessionBytes = 4 * contentBytes;
    const createContent = (fill: string): string => fill.repeat(contentBytes);
    const { folder, write, restoreTo } = await createFixture(t, { "a.txt": createContent("a") }, sessionBytes);
    for (const [i, fill] of ["b", "a", "b", "a", "b", "a"].entries()) await write("a.txt", createContent(fill), i + 1);
    const readPackBytes = async (): Promise<number> => {
      let sum = 0;
      for (const name of await readdir(folder.at("home/s")))
        if (name.endsWith(".pack")) sum += (await readFile(folder.at("home/s", name))).length;
      return sum;
    };
    assert.equal(await readPackBytes(), 2 * contentBytes, "the packs contain each of the two contents once");
    for (const [i, fill] of [..."cdefgh"].entries()) await write("a.txt", createContent(fill), 10 + i);
    assert.ok((await readPackBytes()) <= sessionBytes, String(await readPackBytes()));
    assert.deepEqual(await restoreTo(14), ["restored a.txt"]);
    assert.equal(await folder.read("a.txt"), createContent("g"));
    await assert.rejects(restoreTo(9), /no copy of a file is stored; nothing was undone/);
    assert.deepEqual(await restoreTo(9, { force: true }), ["lost a.txt"]);
    assert.equal(await folder.read("a.txt"), createContent("g"));
    // A version that was evicted is stored again when it occurs again.
    await write("a.txt", createContent("a"), 120);
    await write("a.txt", createContent("z"), 121);
    assert.deepEqual(await restoreTo(120), ["restored a.txt"]);
    assert.equal(await folder.read("a.txt"), createContent("a"));
  });

  it("restores no path that is now protected or denied, or lies outside the project", async (t) => {
    const { folder, write, restoreTo } = await createFixture(t, { "a.txt": "1", ".git/x": "1", "b/c.txt": "1" });
    for (const name of ["a.txt", ".git/x", "b/c.txt"]) await write(name, "2", 1);
    const options = { folder: folder.at("home"), protectedPaths: ["*"], deniedPaths: [folder.at("b")] };
    const otherHistory = folderHistory(options);
    await assert.rejects(restoreTo(0, { history: otherHistory }), /2 files cannot be restored; nothing was undone/);
    assert.equal(await folder.read("a.txt"), "2");
    assert.deepEqual(await restoreTo(0, { history: otherHistory, force: true }), [
      "failed .git/x",
      "restored a.txt",
      "failed b/c.txt",
    ]);
    assert.equal(await folder.read(".git/x"), "2");
    assert.equal(await folder.read("b/c.txt"), "2");
    assert.equal(await folder.read("a.txt"), "1");
    const otherProjectFiles = await folderHistory({ folder: folder.at("home"), protectedPaths: [] }).restore({
      ...{ sessionId: "s", projectDir: folder.at("b"), target: { seq: 0 }, undo: "u", seq: 9 },
      ...{ mark: { id: "u", snapshotId: "", seq: 9, afterSeq: 0, lastMessageId: "" }, dryRun: false, force: true },
    });
    assert.deepEqual(
      otherProjectFiles.map(({ outcome }) => outcome),
      ["failed", "failed", "restored"],
      "files outside the project are not restored",
    );
  });

  it("ignores a recorded change that was never made", async (t) => {
    const { folder, history, write, restoreTo } = await createFixture(t, { "a.txt": "1" });
    await write("a.txt", "2", 1);
    const createFileState = (text: string) =>
      ({ kind: "file", content: Buffer.from(text), mode: 0o644, uid: 0, gid: 0 }) as const;
    const recorder = history.recorder({ sessionId: "s", runId: "r", callId: "d", seq: 2 });
    await recorder.record([{ path: folder.at("a.txt"), before: createFileState("2"), after: createFileState("3") }]);
    assert.deepEqual(await restoreTo(0), ["restored a.txt"]);
    assert.equal(await folder.read("a.txt"), "1");
  });

  it("reverts a patch that added, updated, deleted and moved files", async (t) => {
    const { folder, history, restoreTo } = await createFixture(t, { "a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n" });
    const tool = builtinTools({}).find(({ name }) => name === "apply_patch");
    assert.ok(tool);
    const input = [
      ...["*** Begin Patch", "*** Add File: new/n.txt", "+n", "*** Update File: a.txt", "@@", "-a", "+A"],
      ...[
        "*** Delete File: b.txt",
        "*** Update File: c.txt",
        "*** Move to: d/c.txt",
        "@@",
        "-c",
        "+C",
        "*** End Patch",
      ],
    ].join("\n");
    const position = { sessionId: "s", runId: "r", callId: "c", seq: 1 };
    await callTool(tool, { input }, createToolContext(folder.path, { history: history.recorder(position) }));
    assert.equal(await folder.read("d/c.txt"), "C\n");
    assert.deepEqual(await restoreTo(0), [
      ...["restored a.txt", "recreated b.txt", "recreated c.txt", "removed d/c.txt", "removed new/n.txt"],
    ]);
    assert.equal(
      (await folder.read("a.txt")) + (await folder.read("b.txt")) + (await folder.read("c.txt")),
      "a\nb\nc\n",
    );
    assert.deepEqual((await readdir(folder.path)).sort(), ["a.txt", "b.txt", "c.txt", "home"]);
  });

  it("restores files in the additional folders of a run", async (t) => {
    const { folder, history, restoreTo } = await createFixture(t, { "a.txt": "1" });
    const otherFolder = await tempDir(t, { "x.txt": "1" });
    const tool = builtinTools({}).find(({ name }) => name === "write");
    assert.ok(tool);
    const folders = [otherFolder.path];
    const position = { sessionId: "s", runId: "r", callId: "c", seq: 1, folders };
    const context = createToolContext(folder.path, { folders, history: history.recorder(position) });
    await callTool(tool, { path: otherFolder.at("x.txt"), content: "2" }, context);
    assert.equal((await restoreTo(0)).length, 1);
    assert.equal(await otherFolder.read("x.txt"), "1");
  });

  it("deletes a session on `forget`, and sessions unused for 31 days on `sweep`", async (t) => {
    const { folder, history, write } = await createFixture(t, { "a.txt": "1" });
    await write("a.txt", "2", 1);
    await folder.write({ "home/old/journal.jsonl": "", "home/young/journal.jsonl": "" });
    const oldTime = new Date(Date.now() - 31 * 86_400_000);
    await utimes(folder.at("home/old/journal.jsonl"), oldTime, oldTime);
    await history.sweep();
    assert.deepEqual((await readdir(folder.at("home"))).sort(), ["s", "young"]);
    await history.forget("s");
    // An id that leads out of the session's folder is ignored.
    await history.forget("../young");
    assert.deepEqual(await readdir(folder.at("home")), ["young"]);
  });

  it("reads no content whose hash, size or pack does not match", async (t) => {
    const folder = await tempDir(t);
    const contents = new ContentStore(folder.at("c"), 1000);
    const location = await contents.add(Buffer.from("abc"));
    assert.equal((await contents.read(location, hashOf(Buffer.from("abc"))))?.toString(), "abc");
    assert.equal(await contents.read(location, hashOf(Buffer.from("abd"))), undefined);
    assert.equal(await contents.read({ ...location, size: 4 }, hashOf(Buffer.from("abc"))), undefined);
    assert.equal(await contents.read({ ...location, pack: 7 }, hashOf(Buffer.from("abc"))), undefined);
  });
});

describe("the journal of the file history", () => {
  const createChangeLine = (change: string, seq: number): ChangeLine => ({
    ...{ change, run: "r", call: "c", undo: "", seq, folders: [], at: "2026-01-01T00:00:00.000Z", contents: {} },
    steps: [{ path: "/a", before: { kind: "none" }, after: { kind: "link", target: "x".repeat(100) }, made: 0 }],
  });

  it("continues after a line that a crash left incomplete, and reads lines of another instance", async (t) => {
    const folder = await tempDir(t);
    const journal = new Journal(folder.path);
    await journal.add(createChangeLine("1", 1), true);
    await appendFile(join(folder.path, "journal.jsonl"), '{"change":"2","seq":');
    await new Journal(folder.path).add(createChangeLine("3", 3), true);
    assert.deepEqual(
      (await journal.read()).changes.map(({ change }) => change),
      ["1", "3"],
    );
    await journal.add({ done: "3" }, false);
    assert.ok((await new Journal(folder.path).read()).confirmedChangeIds.has("3"));
  });

  it("removes the oldest changes beyond its size limit, and records the last removed position", async (t) => {
    const folder = await tempDir(t);
    const journal = new Journal(folder.path, 4_000);
    for (let seq = 1; seq <= 60; seq++) await journal.add(createChangeLine(String(seq), seq), false);
    const { changes, droppedSeq: lastDroppedSeq, sizeBytes } = await journal.read();
    assert.ok(sizeBytes < 5_000, String(sizeBytes));
    assert.equal(changes.at(-1)?.seq, 60);
    assert.equal(changes[0]?.seq, lastDroppedSeq + 1);
    assert.equal((await new Journal(folder.path).read()).droppedSeq, lastDroppedSeq);
    assert.equal(existsSync(join(folder.path, "journal.jsonl.new")), false);
  });
});
