import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as v from "valibot";
import { z } from "zod";
import { Agent, defineTool, type Tool, type ToolContext } from "gantry";
import { callTools, ScriptedProvider, toolChecks } from "gantry/testing";
import { callTool, createToolContext } from "../../helpers/tool-context.js";

// The same tool with a schema of zod, of valibot, and in JSON Schema.
const zodTool = defineTool({
  name: "weather",
  description: "The weather of a city.",
  schema: z.object({ city: z.string().min(1).describe("Its name."), days: z.int().min(1).default(1) }),
  run: ({ city, days }) => `${city.toUpperCase()}: fine for ${days.toFixed(0)}`,
});
const valibotTool = defineTool({
  name: "weather",
  description: "The weather of a city.",
  schema: v.object({
    city: v.pipe(v.string(), v.minLength(1)),
    days: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1)), 1),
  }),
  jsonSchema: {
    type: "object",
    properties: { city: { type: "string" }, days: { type: "integer", minimum: 1 } },
    required: ["city"],
  },
  run: ({ city, days }) => `${city.toUpperCase()}: fine for ${days.toFixed(0)}`,
});
const jsonSchemaTool = defineTool({
  name: "weather",
  description: "The weather of a city.",
  schema: {
    type: "object",
    properties: {
      city: { type: "string", minLength: 1, description: "Its name." },
      days: { type: "integer", minimum: 1, default: 1 },
    },
    required: ["city"],
  },
  run: ({ city, days }) => `${city.toUpperCase()}: fine for ${days.toFixed(0)}`,
});

for (const [library, tool] of Object.entries({ zod: zodTool, valibot: valibotTool, "JSON Schema": jsonSchemaTool })) {
  describe(`a tool with a ${library} schema`, () => {
    for (const check of toolChecks({
      create: () => Promise.resolve({ tool, projectDir: "/", input: { city: "Oslo" }, slow: undefined }),
      clean: () => Promise.resolve(),
    }))
      it(check.name, () => check.run());

    it("receives the arguments as parsed by its schema, with defaults", async () => {
      assert.deepEqual(await callTool(tool as Tool, { city: "Oslo" }, createToolContext("/")), {
        text: "OSLO: fine for 1",
      });
      assert.deepEqual(tool.parse('{"city":"Oslo","days":3}'), { city: "Oslo", days: 3 });
    });

    it("names the wrong argument in its error", () => {
      assert.throws(() => tool.parse({ city: "Oslo", days: [] }), { code: "tool_input", message: /^days: .*\w/ });
      assert.throws(() => tool.parse([]), { code: "tool_input", message: "arguments: expected an object, got []" });
    });

    it("has a plain JSON Schema as inputSchema", async () => {
      const { Ajv } = await import("ajv");
      const isValid = new Ajv().compile(tool.inputSchema);
      assert.ok(isValid({ city: "Oslo", days: 2 }));
      assert.ok(!isValid({ days: 2 }));
      assert.equal(tool.inputSchema["$schema"], undefined);
    });
  });
}

describe("defineTool", () => {
  const plainTool = { name: "plain", description: "Plain.", run: () => "done" };

  it("sets defaults for all fields except name, description and run; harmful kinds need permission", () => {
    const { parse, describe, run, ...spec } = defineTool(plainTool);
    assert.deepEqual(spec, {
      name: "plain",
      description: "Plain.",
      inputSchema: { type: "object", properties: {}, additionalProperties: false },
      kind: "other",
      parallel: false,
      needsPermission: true,
    });
    assert.deepEqual(parse({}), {});
    assert.deepEqual(describe({}, "/"), { title: "plain", locations: [] });
    assert.equal(typeof run, "function");
    const kindsNeedingPermission = (
      ["read", "edit", "delete", "search", "execute", "fetch", "think", "other"] as const
    ).filter((kind) => defineTool({ ...plainTool, kind }).needsPermission);
    assert.deepEqual(kindsNeedingPermission, ["edit", "delete", "execute", "fetch", "other"]);
    assert.equal(defineTool({ ...plainTool, kind: "execute", needsPermission: false }).needsPermission, false);
  });

  it("describes a call with a one-line title of at most 200 characters, for any arguments", () => {
    const tool = defineTool({ ...plainTool, schema: z.object({ text: z.any() }) });
    const getTitle = (text: unknown) => tool.describe({ text }, "/").title;
    assert.equal(getTitle("a\nb"), 'plain {"text":"a\\nb"}');
    assert.match(getTitle("\u202Egnp"), /\\u202e/);
    assert.ok(getTitle("x".repeat(1000)).length <= 200);
    assert.equal(getTitle(10n), "plain");
    const customTool = { ...plainTool, describe: () => ({ title: "mine", diff: [] }) };
    assert.deepEqual(defineTool(customTool).describe({}, "/"), { title: "mine", locations: [], diff: [] });
    assert.deepEqual(defineTool({ ...plainTool, describe: () => "mine" }).describe({}, "/"), {
      title: "mine",
      locations: [],
    });
  });

  it("rejects invalid names and schemas with the expected value", () => {
    const assertInvalid = (fields: object, message: RegExp) =>
      assert.throws(() => defineTool({ ...plainTool, ...fields }), { code: "invalid_input", message });
    assertInvalid({ name: "a.b" }, /^name: expected 1 to 64 letters/);
    assertInvalid({ schema: v.object({ a: v.string() }) }, /^schema of plain: expected jsonSchema, because valibot/);
    assertInvalid(
      { schema: z.object({ at: z.date() }) },
      /^schema of plain: expected a schema that converts to JSON Schema, or jsonSchema: .*Date/,
    );
    assertInvalid({ schema: z.string() }, /^schema of plain: expected an object/);
    assertInvalid({ schema: { type: "string" } }, /^schema of plain: expected an object/);
  });

  it("throws for a schema with an asynchronous check", () => {
    const tool = defineTool({
      ...plainTool,
      schema: z.object({ a: z.string().refine(async () => Promise.resolve(true)) }),
    });
    assert.throws(() => tool.parse({ a: "" }), /asynchron|Promise/);
  });

  it("coerces arguments of a plain JSON Schema like the built-in tools", () => {
    const { parse } = defineTool({
      ...plainTool,
      schema: {
        type: "object",
        properties: {
          count: { type: "integer", minimum: 1, maximum: 9 },
          ratio: { type: "number" },
          sure: { type: "boolean" },
          size: { enum: ["s", "m", 3] },
          tags: { type: "array", items: { type: "string", maxLength: 3 }, maxItems: 2 },
          place: {
            type: "object",
            properties: { x: { type: "number" } },
            required: ["x"],
            additionalProperties: false,
          },
          note: { type: ["string", "null"] },
          any: { anyOf: [{ type: "string" }, { type: "object" }] },
        },
      },
    });
    assert.deepEqual(
      parse({ count: "7", ratio: "0.5", sure: "TRUE", size: "3", tags: '["a"]', place: '{"x":1,"y":2}' }),
      {
        count: 7,
        ratio: 0.5,
        sure: true,
        size: 3,
        tags: ["a"],
        place: { x: 1 },
      },
    );
    assert.deepEqual(parse({ count: null, note: null, any: { a: 1 }, extra: [1] }), {
      extra: [1],
      note: null,
      any: { a: 1 },
    });
    const getErrorMessage = (input: object) => {
      try {
        parse(input);
      } catch (error) {
        return (error as Error).message;
      }
      return "";
    };
    assert.equal(getErrorMessage({ count: 10 }), "count: expected an integer >= 1 and <= 9, got 10");
    assert.equal(getErrorMessage({ size: "l" }), 'size: expected one of "s", "m", 3, got "l"');
    assert.equal(
      getErrorMessage({ tags: ["long"], place: {} }),
      'tags[0]: expected at most 3 characters, got "long"; place.x: expected a number, got nothing',
    );
    assert.equal(getErrorMessage({ ratio: Number.NaN }), "ratio: expected a number, got null");
  });

  it("uses a default unchanged, even if its schema does not allow it", () => {
    const { parse } = defineTool({
      ...plainTool,
      schema: {
        type: "object",
        properties: { place: { type: "string", default: null }, count: { type: "integer", minimum: 1, default: 0 } },
        required: ["place"],
      },
    });
    assert.deepEqual(parse({}), { place: null, count: 0 });
    assert.throws(() => parse({ count: 0 }), { message: "count: expected an integer >= 1, got 0" });
  });

  it("reads arguments that are named like members of Object.prototype", () => {
    const { parse } = defineTool({
      ...plainTool,
      schema: { type: "object", properties: { constructor: { type: "string" }, toString: { type: "string" } } },
    });
    assert.deepEqual(Object.entries(parse({})), []);
    assert.deepEqual(Object.entries(parse({ constructor: "a" })), [["constructor", "a"]]);
  });

  it("does not change a prototype for an argument named `__proto__`", () => {
    const { parse } = defineTool({ ...plainTool, schema: { type: "object", properties: { a: { type: "string" } } } });
    const parsedArguments = parse(JSON.parse('{"__proto__":{"polluted":true},"a":"b"}')) as object;
    assert.equal(({} as { polluted?: boolean }).polluted, undefined);
    assert.equal(Object.getPrototypeOf(parsedArguments), Object.prototype);
  });

  it("infers the type of run's arguments from the schema", () => {
    const tool = defineTool({
      ...plainTool,
      schema: {
        type: "object",
        properties: {
          unit: { enum: ["c", "f"] },
          days: { type: "integer" },
          tags: { type: "array", items: { type: "string" } },
        },
        required: ["unit"],
      },
      run(args) {
        const unit: "c" | "f" = args.unit;
        const days: number | undefined = args.days;
        // @ts-expect-error -- The property is not required, so its type includes undefined.
        const tags: string[] = args.tags;
        return `${unit} ${days} ${String(tags)}`;
      },
    });
    assert.ok(tool);
  });

  it("defines tools that a model calls in a run", async (t) => {
    const provider = new ScriptedProvider([
      callTools(["weather", { city: "Oslo" }, "a"], ["weather", {}, "b"], ["broken", {}, "c"]),
      "Fine.",
    ]);
    const failingTool = defineTool({
      name: "broken",
      description: "Fails.",
      run(_args, context: ToolContext) {
        throw new Error(`nothing for ${context.callId}`);
      },
    });
    const agent = new Agent({ providers: [provider], tools: [zodTool, failingTool] });
    t.after(() => agent.close());
    const results: unknown[] = [];
    for await (const event of await agent.run({ message: "x" }))
      if (event.type === "tool_result") results.push([event.failed, event.output]);
    assert.deepEqual(results[0], [false, "OSLO: fine for 1"]);
    assert.match(String(results[1]), /^true,weather: city: .*expected string/);
    assert.deepEqual(results[2], [true, "broken: nothing for c"]);
  });
});
