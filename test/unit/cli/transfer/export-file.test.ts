import assert from "node:assert/strict";
import { readFile, stat, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { ExportFile } from "../../../../src/cli/transfer/export-file.js";
import { formatHeader } from "../../../../src/sessions/export-format.js";
import { tempDir } from "../../../helpers/temp-dir.js";

const createChainLines = (root: string, text = "x"): string =>
  [
    { type: "chain", root, snapshots: [] },
    { type: "message", cut: "", message: { parts: [{ type: "text", text }] } },
    { type: "end", root, messages: 1 },
  ]
    .map((line) => `${JSON.stringify(line)}\n`)
    .join("");

describe("ExportFile", () => {
  it("creates the file when the export is finished, with mode 0600, and replaces no existing file", async (t) => {
    const folder = await tempDir(t);
    const path = folder.at("out.jsonl");
    const file = await ExportFile.open(path, false);
    await file.write(createChainLines("a"));
    assert.equal(await stat(path).catch(() => undefined), undefined);
    await file.finish();
    assert.equal(await readFile(path, "utf8"), formatHeader() + createChainLines("a"));
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    assert.equal(await stat(`${path}.part`).catch(() => undefined), undefined);
    await assert.rejects(ExportFile.open(path, false), /out\.jsonl: already exists/);
    await assert.rejects(ExportFile.open(path, true), /out\.jsonl: already exists/);
    await assert.rejects(ExportFile.open(folder.at("no/out"), false), /out\.part: cannot be written \(ENOENT\)/);
  });

  it("resumes an export that was interrupted at any offset after its last complete session", async (t) => {
    const folder = await tempDir(t);
    // One chain is longer than a read buffer. Another contains text that looks like the end of a chain.
    const chains = [
      createChainLines("a"),
      createChainLines("ü\u2028", 'say {"type":"end","root":"b","messages":1}\n'),
      createChainLines("c", "y".repeat(1_200_000)),
      createChainLines("d"),
    ];
    const roots = ["a", "ü\u2028", "c", "d"];
    const fullFile = Buffer.from(formatHeader() + chains.join(""));
    const chainEnds = chains.map((_, n) => Buffer.byteLength(formatHeader() + chains.slice(0, n + 1).join("")));
    const cutOffsets = [
      0,
      1,
      formatHeader().length - 1,
      formatHeader().length,
      ...chainEnds.flatMap((end) => [end - 1, end, end + 1, end + 40]),
    ];
    for (const cutOffset of cutOffsets.filter((offset) => offset <= fullFile.length)) {
      const path = folder.at(`cut-${cutOffset}`);
      await writeFile(`${path}.part`, fullFile.subarray(0, cutOffset));
      await assert.rejects(
        ExportFile.open(path, false),
        /\.part: an interrupted export exists; continue it with --resume/,
      );
      const file = await ExportFile.open(path, true);
      const completeCount = chainEnds.filter((end) => end <= cutOffset).length;
      assert.deepEqual([...file.roots], roots.slice(0, completeCount), `cut at ${cutOffset}`);
      for (const text of chains.slice(completeCount)) await file.write(text);
      await file.finish();
      assert.ok(fullFile.equals(await readFile(path)), `cut at ${cutOffset}`);
    }
  });

  it("removes an incomplete session that was deleted before the export is resumed", async (t) => {
    const folder = await tempDir(t);
    const path = folder.at("out.jsonl");
    await writeFile(
      `${path}.part`,
      formatHeader() + createChainLines("a") + createChainLines("gone", "z".repeat(10_000)).slice(0, -30),
    );
    const file = await ExportFile.open(path, true);
    await file.finish();
    assert.equal(await readFile(path, "utf8"), formatHeader() + createChainLines("a"));
  });

  it("rejects and does not change a file that is not an export", async (t) => {
    const folder = await tempDir(t);
    for (const content of ["my notes\n", "my notes"]) {
      await writeFile(folder.at("mine.part"), content);
      await assert.rejects(ExportFile.open(folder.at("mine"), true), /mine\.part: not a session export/);
      assert.equal(await readFile(folder.at("mine.part"), "utf8"), content);
    }
    const unfinishedFile = await ExportFile.open(folder.at("left"), true);
    await unfinishedFile.closePartial();
    assert.equal(await readFile(folder.at("left.part"), "utf8"), formatHeader());
  });
});
