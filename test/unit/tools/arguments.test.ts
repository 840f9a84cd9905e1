import assert from "node:assert/strict";
import { it } from "node:test";
import { builtinTools } from "gantry";
import { defineArguments, flag, integer, list, object, optional, text } from "../../../src/tools/arguments.js";

const definedArguments = defineArguments({
  path: text("A path.", { minLength: 1, aliases: ["file_path"] }),
  offset: optional(integer("From.", { min: 1, max: 100 }), 1),
  all: optional(flag("All.")),
  edits: optional(list("Edits.", object({ old: text("Old."), new: text("New.") }), { min: 1, max: 3 })),
});

it("defineArguments coerces strings, null, aliases and numbers out of range", () => {
  assert.deepEqual(definedArguments.parse({ file_path: "a", offset: "7", all: "true", junk: 1 }), {
    path: "a",
    offset: 7,
    all: true,
    edits: undefined,
  });
  assert.deepEqual(definedArguments.parse({ path: "a", offset: null, all: null, edits: '[{"old":"x","new":"y"}]' }), {
    path: "a",
    offset: 1,
    all: undefined,
    edits: [{ old: "x", new: "y" }],
  });
  assert.equal(definedArguments.parse({ path: "a", offset: 1e9 }).offset, 100);
  assert.equal(definedArguments.parse('{"path":"a"}').path, "a");
});

it("defineArguments omits from the model's schema what a model does not need", () => {
  const { schema } = defineArguments({
    path: text("", { minLength: 1 }),
    offset: optional(integer("First line", { min: 1, max: 100 }), 1),
    context: optional(integer("", { min: 0 }), 0),
    all: optional(flag(), false),
    edits: optional(list("", object({ old: text() }), { min: 1, max: 3 })),
  });
  assert.deepEqual(schema, {
    type: "object",
    properties: {
      path: { type: "string" },
      offset: { type: "integer", description: "First line", default: 1 },
      context: { type: "integer" },
      all: { type: "boolean" },
      edits: {
        type: "array",
        items: { type: "object", properties: { old: { type: "string" } }, required: ["old"] },
      },
    },
    required: ["path"],
  });
  assert.deepEqual(defineArguments({}).schema, { type: "object", properties: {} });
});

it("defineArguments reports the expected value of every wrong argument", () => {
  const getErrorMessage = (input: unknown): string => {
    try {
      definedArguments.parse(input);
    } catch (error) {
      assert.equal((error as { code?: string }).code, "tool_input");
      return (error as Error).message;
    }
    return "";
  };
  assert.equal(getErrorMessage({}), "path: expected a string, got nothing");
  assert.equal(getErrorMessage({ path: "a", offset: "abc" }), 'offset: expected an integer >= 1, got "abc"');
  assert.equal(
    getErrorMessage({ path: "", all: 3 }),
    'path: expected a string that is not empty, got ""; all: expected true or false, got 3',
  );
  assert.equal(
    getErrorMessage({ path: "a", edits: [{ old: "x", new: "y" }, { old: [] }] }),
    "edits[1].old: expected a string, got []; edits[1].new: expected a string, got nothing",
  );
  assert.equal(getErrorMessage([]), "arguments: expected an object, got []");
  assert.equal(getErrorMessage("text"), 'arguments: expected an object, got "text"');
  assert.equal(getErrorMessage(JSON.parse('{"__proto__":{"path":"x"}}')), "path: expected a string, got nothing");
});

it("defineArguments lists 12 wrong arguments and the number of the others", () => {
  const listArguments = defineArguments({ lines: list("Lines.", integer("A line.", { min: 1 }), { max: 100 }) });
  const result = listArguments["~standard"].validate({ lines: Array<number>(50).fill(0) });
  assert.ok("issues" in result && result.issues?.length === 50);
  assert.throws(() => listArguments.parse({ lines: Array<number>(50).fill(0) }), {
    code: "tool_input",
    message: /^lines\[0\]: expected an integer >= 1, got 0; .*; lines\[11\]: [^;]*; and 38 more$/,
  });
});

it("the built-in tools have unique, valid names, short descriptions and valid JSON Schemas", async () => {
  const { Ajv } = await import("ajv");
  const tools = builtinTools();
  assert.equal(new Set(tools.map((tool) => tool.name)).size, tools.length);
  for (const tool of tools) {
    assert.match(tool.name, /^[a-zA-Z0-9_-]{1,64}$/);
    new Ajv({ strict: true }).compile(tool.inputSchema);
    assert.equal(tool.inputSchema.type, "object");
    assert.ok(tool.description.length < 400);
    assert.throws(() => tool.parse([]), { code: "tool_input" });
  }
});
