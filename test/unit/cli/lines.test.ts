import assert from "node:assert/strict";
import { it } from "node:test";
import { readLines } from "../../../src/cli/lines.js";

async function* splitIntoPieces(bytes: Buffer, pieceBytes: number): AsyncGenerator<Uint8Array> {
  for (let offset = 0; offset < bytes.length; offset += pieceBytes) yield bytes.subarray(offset, offset + pieceBytes);
}

async function collectLines(text: string, pieceBytes: number, maxCharacters?: number): Promise<string[]> {
  const lines: string[] = [];
  const input = splitIntoPieces(Buffer.from(text), pieceBytes);
  for await (const line of readLines(input, () => undefined, new AbortController().signal, maxCharacters))
    lines.push(line);
  return lines;
}

it("readLines splits at LF only, with input in chunks of any size", async () => {
  for (const pieceBytes of [1, 2, 3, 100])
    assert.deepEqual(await collectLines("a\u2028b\r\n\n👩‍💻 ü\nlast", pieceBytes), ["a\u2028b\r", "", "👩‍💻 ü", "last"]);
  assert.deepEqual(await collectLines("a\n", 1), ["a"]);
});

it("readLines rejects a line above the limit with the line number, before the whole line is read", async () => {
  let pieceCount = 0;
  async function* createEndlessInput(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("first\nsecond\n");
    for (; pieceCount < 1000; pieceCount++) yield Buffer.alloc(10, "x");
  }
  const lines: string[] = [];
  await assert.rejects(
    async () => {
      for await (const line of readLines(createEndlessInput(), () => undefined, new AbortController().signal, 100))
        lines.push(line);
    },
    { code: "invalid_input", message: "line 3: expected at most 100 characters" },
  );
  assert.deepEqual(lines, ["first", "second"]);
  assert.ok(pieceCount < 20);
  // The limit applies to each line, not to the whole input.
  assert.equal((await collectLines(`${"x".repeat(100)}\n`.repeat(3), 7, 100)).length, 3);
});
