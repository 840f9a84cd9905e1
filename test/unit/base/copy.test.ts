import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { deepCopy } from "../../../src/base/copy.js";

describe("deepCopy", () => {
  it("returns a copy that shares no nested array with the original", () => {
    const data = { list: [{ deep: ["a"] }], none: null, missing: undefined, text: "x" };
    const copy = deepCopy(data);
    assert.deepEqual(copy, data);
    copy.list[0]!.deep.push("b");
    assert.deepEqual(data.list[0]?.deep, ["a"]);
  });

  it("copies a field named __proto__ as an ordinary field", () => {
    const data = JSON.parse('{"__proto__":{"polluted":true},"a":{"__proto__":1}}') as Record<string, unknown>;
    const copy = deepCopy(data);
    assert.deepEqual(Object.keys(copy), ["__proto__", "a"]);
    assert.equal(JSON.stringify(copy), JSON.stringify(data));
    assert.equal(Object.getPrototypeOf(copy), Object.prototype);
    assert.notEqual(Object.getOwnPropertyDescriptor(copy, "__proto__")?.value, data["__proto__"]);
  });

  it("copies Date and Map values", () => {
    const copy = deepCopy({ at: new Date(5), names: new Map([["a", 1]]) });
    assert.equal(copy.at.getTime(), 5);
    assert.equal(copy.names.get("a"), 1);
  });
});
