import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { argumentsSchema } from "../../../adapters/mcp-tools/input-schema.js";

const of = (a: unknown, more = {}) => argumentsSchema({ type: "object", properties: { a }, ...more });
const told = (a: unknown) => (of(a)["properties"] as Record<string, unknown>)["a"];

describe("the arguments of a server's tool", () => {
  it("are told without keys that hold what JSON Schema does not know there: a provider would refuse each question", () => {
    assert.deepEqual(told({ type: "integer", minimum: 1, exclusiveMinimum: true }), { type: "integer", minimum: 1 });
    assert.deepEqual(told({ type: "integer", exclusiveMinimum: 0, multipleOf: 0, maximum: "5" }), {
      type: "integer",
      exclusiveMinimum: 0,
    });
    assert.deepEqual(
      told({
        type: "string",
        minLength: "5",
        maxLength: -1,
        title: {},
        description: 5,
        format: 7,
        examples: 5,
        id: "x",
      }),
      { type: "string" },
    );
    assert.deepEqual(told({ type: ["string", "null", "string"], dependencies: { a: "b" }, $dynamicRef: "https://x" }), {
      type: ["string", "null"],
    });
    assert.deepEqual(of({}, { required: ["a", "a", "b"] })["required"], ["a"]);
    assert.throws(() => of({ unevaluatedProperties: "no" }), /a part of its input schema is no schema/);
  });

  it("refer to what is there, also in a circle", () => {
    const node = { type: "object", properties: { next: { $ref: "#/$defs/a~1b" } } };
    const given = { type: "object", properties: { a: { $ref: "#/$defs/a~1b" } }, $defs: { "a/b": node } };
    assert.deepEqual(argumentsSchema(given), given);
    assert.deepEqual(told({ $ref: "#" }), { $ref: "#" });
    for (const $ref of ["#/$defs/none", "#/properties/a/type/0/x", "#name", "#/__proto__", "#/%"])
      assert.throws(() => of({ $ref }), /refers to what is not there/);
    assert.throws(() => of({ $ref: "https://example.invalid/a" }), /refers to another place/);
  });

  it("describe themselves in what a person can see", () => {
    assert.deepEqual(told({ description: "a\u{E0041}\u202e\u001b[8mb" }), { description: "a[8mb" });
  });
});
