import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { JsonError, parseJson } from "gantry/plugin";

describe("parseJson", () => {
  it("accepts input of the maximum depth and rejects deeper input", () => {
    assert.deepEqual(parseJson("[[1]]", 2), [[1]]);
    assert.throws(() => parseJson("[[[1]]]", 2), JsonError);
    assert.throws(() => parseJson(`${"[".repeat(200_000)}${"]".repeat(200_000)}`), JsonError);
  });
  it("ignores brackets in strings when it counts the depth", () => {
    assert.deepEqual(parseJson('["[[[[\\"[[[["]', 1), ['[[[["[[[[']);
  });
  it("accepts the maximum number of keys in all objects together and rejects more", () => {
    assert.deepEqual(parseJson('[{"a:b":1},{"c":{}}]', 3, 2), [{ "a:b": 1 }, { c: {} }]);
    assert.throws(() => parseJson('[{"a":1},{"b":{"c":1}}]', 3, 2), /more than 2 keys/);
    const largeObject = `{${Array.from({ length: 50_001 }, (_, i) => `"k${i}":1`).join(",")}}`;
    assert.throws(() => parseJson(largeObject), /more than 50000 keys/);
  });
  it("throws a JsonError for invalid JSON", () => {
    assert.throws(() => parseJson("{"), JsonError);
  });
});
