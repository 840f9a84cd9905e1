import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { JsonError, parseJson } from "gantry";

describe("bounded JSON", () => {
  it("takes what is as deep as allowed and refuses what is deeper", () => {
    assert.deepEqual(parseJson("[[1]]", 2), [[1]]);
    assert.throws(() => parseJson("[[[1]]]", 2), JsonError);
    assert.throws(() => parseJson(`${"[".repeat(200_000)}${"]".repeat(200_000)}`), JsonError);
  });
  it("does not count brackets in strings", () => {
    assert.deepEqual(parseJson('["[[[[\\"[[[["]', 1), ['[[[["[[[[']);
  });
  it("says what is wrong", () => {
    assert.throws(() => parseJson("{"), JsonError);
  });
});
