import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { toArgumentsSchema } from "../../../adapters/mcp-tools/input-schema.js";

const createArgumentsSchema = (a: unknown, keywords = {}) =>
  toArgumentsSchema({ type: "object", properties: { a }, ...keywords });
const convertProperty = (a: unknown) => (createArgumentsSchema(a)["properties"] as Record<string, unknown>)["a"];

describe("the input schema of an MCP tool", () => {
  it("drops keywords with invalid values, and is rejected if a subschema is not a schema", () => {
    assert.deepEqual(convertProperty({ type: "integer", minimum: 1, exclusiveMinimum: true }), {
      type: "integer",
      minimum: 1,
    });
    assert.deepEqual(convertProperty({ type: "integer", exclusiveMinimum: 0, multipleOf: 0, maximum: "5" }), {
      type: "integer",
      exclusiveMinimum: 0,
    });
    assert.deepEqual(
      convertProperty({
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
    assert.deepEqual(
      convertProperty({ type: ["string", "null", "string"], dependencies: { a: "b" }, $dynamicRef: "https://x" }),
      {
        type: ["string", "null"],
      },
    );
    assert.deepEqual(createArgumentsSchema({}, { required: ["a", "a", "b"] })["required"], ["a"]);
    assert.throws(
      () => createArgumentsSchema({ unevaluatedProperties: "no" }),
      /a part of the input schema is not a schema/,
    );
  });

  it("keeps internal references, including circular ones, and is rejected with unresolved or external references", () => {
    const node = { type: "object", properties: { next: { $ref: "#/$defs/a~1b" } } };
    const inputSchema = { type: "object", properties: { a: { $ref: "#/$defs/a~1b" } }, $defs: { "a/b": node } };
    assert.deepEqual(toArgumentsSchema(inputSchema), inputSchema);
    assert.deepEqual(convertProperty({ $ref: "#" }), { $ref: "#" });
    for (const $ref of ["#/$defs/none", "#/properties/a/type/0/x", "#name", "#/__proto__", "#/%"])
      assert.throws(() => createArgumentsSchema({ $ref }), /has a reference that does not resolve/);
    assert.throws(
      () => createArgumentsSchema({ $ref: "https://example.invalid/a" }),
      /the input schema refers to another document/,
    );
  });

  it("has descriptions without invisible and control characters", () => {
    assert.deepEqual(convertProperty({ description: "a\u{E0041}\u202e\u001b[8mb" }), { description: "a[8mb" });
  });
});
