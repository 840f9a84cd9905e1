import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { describe, it } from "node:test";
import { Redactor } from "../../../src/base/redact.js";
import { OutputFile } from "../../../src/processes/output-file.js";
import { tempDir } from "../../helpers/temp-dir.js";

const SECRET = "Hq7vTz31LmWx90RsKd";
const emptyRedactor = new Redactor([]);
/** Size of the stored first and last part of a longer output. */
const PART_BYTES = { head: 4_000, tail: 2_000 };

/** Creates lines of 10 bytes with the numbers from `firstNumber` up to and excluding `endNumber`. */
const createLines = (firstNumber: number, endNumber: number): string =>
  Array.from({ length: endNumber - firstNumber }, (_, i) => `line ${String(firstNumber + i).padStart(4, "0")}\n`).join(
    "",
  );

function pushInChunks(file: OutputFile, text: string, chunkBytes = 333): void {
  const bytes = Buffer.from(text);
  for (let offset = 0; offset < bytes.length; offset += chunkBytes)
    file.push(bytes.subarray(offset, offset + chunkBytes));
}

describe("OutputFile", () => {
  it("creates a file with mode 0600 and the whole output once the output exceeds the limit", async (t) => {
    const path = (await tempDir(t)).at("a", "b.txt");
    const file = new OutputFile(() => path, emptyRedactor, 1_000, PART_BYTES);
    pushInChunks(file, createLines(0, 100));
    assert.equal(file.file, undefined);
    assert.ok(!existsSync(path));
    pushInChunks(file, createLines(100, 101));
    assert.deepEqual(file.file, { path, storedParts: "whole" });
    file.end();
    assert.equal(await readFile(path, "utf8"), createLines(0, 101));
    assert.equal((await stat(path)).mode & 0o777, 0o600);
  });

  it("contains the whole redacted output if the output fits into head and tail, for small chunks", async (t) => {
    const path = (await tempDir(t)).at("b.txt");
    const file = new OutputFile(() => path, new Redactor([SECRET]), 0, PART_BYTES);
    // The secret crosses the end of the first part.
    const text = `${createLines(0, 399)}${"é".repeat(4)}${SECRET}${createLines(400, 520)}`;
    pushInChunks(file, text, 7);
    assert.equal(file.file?.storedParts, "begin");
    file.end();
    assert.equal(file.file?.storedParts, "whole");
    assert.equal(await readFile(path, "utf8"), text.replace(SECRET, "[redacted]"));
  });

  it("contains start and end of a longer output, and the number of omitted bytes", async (t) => {
    const path = (await tempDir(t)).at("b.txt");
    const file = new OutputFile(() => path, emptyRedactor, 0, PART_BYTES);
    pushInChunks(file, createLines(0, 5_000));
    assert.equal(file.file?.storedParts, "begin");
    file.end();
    assert.equal(file.file?.storedParts, "ends");
    const [, headText, omittedBytes, tailText] =
      /^([^[]*)\n\[\.\.\. ([\d,]+) bytes omitted \.\.\.\]\n([^[]*)$/.exec(await readFile(path, "utf8")) ??
      assert.fail();
    assert.ok(createLines(0, 5_000).startsWith(headText!) && createLines(0, 5_000).endsWith(tailText!));
    assert.ok(headText!.length >= PART_BYTES.head && tailText!.length > PART_BYTES.tail / 2);
    assert.equal(headText!.length + Number(omittedBytes!.replaceAll(",", "")) + tailText!.length, 50_000);
  });

  it("contains no part of a secret and no partial character at a cut", async (t) => {
    const path = (await tempDir(t)).at("b.txt");
    for (let shift = 0; shift < SECRET.length; shift += 1) {
      const filePath = `${path}${shift}`;
      const file = new OutputFile(() => filePath, new Redactor([SECRET]), 0, PART_BYTES);
      pushInChunks(file, `${"x".repeat(shift)}${`${SECRET}é`.repeat(2_000)}`, 5);
      file.end();
      const [headText, tailText] = (await readFile(filePath, "utf8")).split(/\n\[\.\.\. .* \.\.\.\]\n/);
      assert.ok(/^x*(\[redacted\]é?)*$/.test(headText!), headText!.slice(-30));
      // The redaction mark itself may be cut.
      assert.ok(/^[^\uFFFD]{0,11}(\[redacted\]é)*$/.test(tailText!), tailText!.slice(0, 30));
      assert.ok(!/[A-Z]/.test(tailText!), tailText!.slice(0, 30));
    }
  });

  it("has no file if the disk is full or the path is invalid", async () => {
    const fullDisk = new OutputFile(() => "/dev/full", emptyRedactor, 0, PART_BYTES);
    pushInChunks(fullDisk, createLines(0, 500));
    fullDisk.end();
    assert.equal(fullDisk.file, undefined);
    const invalidPath = new OutputFile(() => "/dev/null/a", emptyRedactor, 0, PART_BYTES);
    pushInChunks(invalidPath, createLines(0, 500));
    invalidPath.end();
    assert.equal(invalidPath.file, undefined);
  });
});
