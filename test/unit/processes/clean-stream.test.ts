import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { countSettledBytes } from "../../../src/processes/clean-stream.js";

describe("countSettledBytes", () => {
  it("excludes only an incomplete character or escape sequence at the end of the output", () => {
    const countUnsettledBytes = (text: string | Buffer): number =>
      Buffer.byteLength(text) - countSettledBytes(Buffer.from(text));
    for (const settledText of ["", "a\n", "é", "日本", "😀", "\u001b[31mred", "\u001b[0m", "\u001b]0;title\u0007"])
      assert.equal(countUnsettledBytes(settledText), 0, JSON.stringify(settledText));
    for (const [text, unsettledBytes] of [
      ["a\u001b", 1],
      ["a\u001b[3", 3],
      ["a\u001b]0;tit", 7],
      ["50 %\r", 1],
    ] as const)
      assert.equal(countUnsettledBytes(text), unsettledBytes, JSON.stringify(text));
    for (const character of ["é", "日", "😀"]) {
      const bytes = Buffer.from(`a${character}`);
      for (let byteCount = 2; byteCount < bytes.length; byteCount++)
        assert.equal(countSettledBytes(bytes.subarray(0, byteCount)), 1, `${character} ${byteCount}`);
    }
    // Continuation bytes without a start are settled. The byte 0xff counts as the start of a character.
    assert.equal(countSettledBytes(Buffer.from([97, 0x80, 0x80, 0x80, 0x80])), 5);
    assert.equal(countSettledBytes(Buffer.from([97, 0xff])), 1);
  });
});
