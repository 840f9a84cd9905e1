import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { countSettledBytes } from "../../../src/processes/clean-stream.js";

describe("settledBytes", () => {
  it("excludes only an incomplete character or escape sequence at the end of the output", () => {
    const countUnsettled = (text: string | Buffer): number =>
      Buffer.byteLength(text) - countSettledBytes(Buffer.from(text));
    for (const settledText of ["", "a\n", "é", "日本", "😀", "\u001b[31mred", "\u001b[0m", "\u001b]0;title\u0007"])
      assert.equal(countUnsettled(settledText), 0, JSON.stringify(settledText));
    for (const [text, unsettledCount] of [
      ["a\u001b", 1],
      ["a\u001b[3", 3],
      ["a\u001b]0;tit", 7],
      ["50 %\r", 1],
    ] as const)
      assert.equal(countUnsettled(text), unsettledCount, JSON.stringify(text));
    for (const character of ["é", "日", "😀"]) {
      const bytes = Buffer.from(`a${character}`);
      for (let length = 2; length < bytes.length; length++)
        assert.equal(countSettledBytes(bytes.subarray(0, length)), 1, `${character} ${length}`);
    }
    // Invalid UTF-8 is never held back.
    assert.equal(countSettledBytes(Buffer.from([97, 0x80, 0x80, 0x80, 0x80])), 5);
    assert.equal(countSettledBytes(Buffer.from([97, 0xff])), 1);
  });
});
