import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { JsonError, parseJson } from "gantry/plugin";

describe("bounded JSON", () => {
  it("takes what is as deep as allowed and refuses what is deeper", () => {
    assert.deepEqual(parseJson("[[1]]", 2), [[1]]);
    assert.throws(() => parseJson("[[[1]]]", 2), JsonError);
    assert.throws(() => parseJson(`${"[".repeat(200_000)}${"]".repeat(200_000)}`), JsonError);
  });
  it("does not count brackets in strings", () => {
    assert.deepEqual(parseJson('["[[[[\\"[[[["]', 1), ['[[[["[[[[']);
  });
  it("takes as many keys as allowed and refuses more, of all objects together", () => {
    assert.deepEqual(parseJson('[{"a:b":1},{"c":{}}]', 3, 2), [{ "a:b": 1 }, { c: {} }]);
    assert.throws(() => parseJson('[{"a":1},{"b":{"c":1}}]', 3, 2), /more than 2 keys/);
    const large = `{${Array.from({ length: 50_001 }, (_, i) => `"k${i}":1`).join(",")}}`;
    assert.throws(() => parseJson(large), /more than 50000 keys/);
  });
  it("says what is wrong", () => {
    assert.throws(() => parseJson("{"), JsonError);
  });
});
