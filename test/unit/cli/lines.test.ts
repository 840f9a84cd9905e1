import assert from "node:assert/strict";
import { it } from "node:test";
import { readLines } from "../../../src/cli/lines.js";

async function* inPieces(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function collect(text: string, size: number, longest?: number): Promise<string[]> {
  const lines: string[] = [];
  const input = inPieces(Buffer.from(text), size);
  for await (const line of readLines(input, () => undefined, new AbortController().signal, longest)) lines.push(line);
  return lines;
}

it("readLines splits at LF only, with input in chunks of any size", async () => {
  for (const size of [1, 2, 3, 100])
    assert.deepEqual(await collect("a\u2028b\r\n\n👩‍💻 ü\nlast", size), ["a\u2028b\r", "", "👩‍💻 ü", "last"]);
  assert.deepEqual(await collect("a\n", 1), ["a"]);
});

it("readLines rejects a line beyond the limit, with its number, before it has read the whole line", async () => {
  let read = 0;
  async function* endless(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("first\nsecond\n");
    for (; read < 1000; read++) yield Buffer.alloc(10, "x");
  }
  const lines: string[] = [];
  await assert.rejects(
    async () => {
      for await (const line of readLines(endless(), () => undefined, new AbortController().signal, 100))
        lines.push(line);
    },
    { code: "invalid_input", message: "line 3: expected at most 100 characters" },
  );
  assert.deepEqual(lines, ["first", "second"]);
  assert.ok(read < 20);
  // The limit applies to each line, not to their sum.
  assert.equal((await collect(`${"x".repeat(100)}\n`.repeat(3), 7, 100)).length, 3);
});
