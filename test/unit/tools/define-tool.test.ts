import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as v from "valibot";
import { z } from "zod";
import { Agent, defineTool, type Tool, type ToolContext } from "gantry";
import { callTools, ScriptedProvider, toolChecks } from "gantry/testing";
import { callTool, toolContext } from "../../helpers/tool-context.js";

/** The same tool, with each kind of schema. */
const withZod = defineTool({
  name: "weather",
  description: "The weather of a city.",
  schema: z.object({ city: z.string().min(1).describe("Its name."), days: z.int().min(1).default(1) }),
  run: ({ city, days }) => `${city.toUpperCase()}: fine for ${days.toFixed(0)}`,
});
const withValibot = defineTool({
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
const withJsonSchema = defineTool({
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

for (const [library, tool] of Object.entries({ zod: withZod, valibot: withValibot, "JSON Schema": withJsonSchema })) {
  describe(`a tool with a ${library} schema`, () => {
    for (const check of toolChecks({
      create: () => Promise.resolve({ tool, projectDir: "/", input: { city: "Oslo" }, slow: undefined }),
      clean: () => Promise.resolve(),
    }))
      it(check.name, () => check.run());

    it("receives the arguments as parsed by its schema, with defaults", async () => {
      assert.deepEqual(await callTool(tool as Tool, { city: "Oslo" }, toolContext("/")), { text: "OSLO: fine for 1" });
      assert.deepEqual(tool.parse('{"city":"Oslo","days":3}'), { city: "Oslo", days: 3 });
    });

    it("names the wrong argument in its error", () => {
      assert.throws(() => tool.parse({ city: "Oslo", days: [] }), { code: "tool_input", message: /^days: .*\w/ });
      assert.throws(() => tool.parse([]), { code: "tool_input", message: "arguments: expected an object, got []" });
    });

    it("has a plain JSON Schema as inputSchema", async () => {
      const { Ajv } = await import("ajv");
      const valid = new Ajv().compile(tool.inputSchema);
      assert.ok(valid({ city: "Oslo", days: 2 }));
      assert.ok(!valid({ days: 2 }));
      assert.equal(tool.inputSchema["$schema"], undefined);
    });
  });
}

describe("defineTool", () => {
  const plain = { name: "plain", description: "Plain.", run: () => "done" };

  it("sets defaults for all fields except name, description and run; harmful kinds need permission", () => {
    const { parse, describe, run, ...spec } = defineTool(plain);
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
    const asks = (["read", "edit", "delete", "search", "execute", "fetch", "think", "other"] as const).filter(
      (kind) => defineTool({ ...plain, kind }).needsPermission,
    );
    assert.deepEqual(asks, ["edit", "delete", "execute", "fetch", "other"]);
    assert.equal(defineTool({ ...plain, kind: "execute", needsPermission: false }).needsPermission, false);
  });

  it("describes a call with a one-line title, whatever its arguments", () => {
    const tool = defineTool({ ...plain, schema: z.object({ text: z.any() }) });
    const title = (text: unknown) => tool.describe({ text }, "/").title;
    assert.equal(title("a\nb"), 'plain {"text":"a\\nb"}');
    assert.match(title("\u202Egnp"), /\\u202e/);
    assert.ok(title("x".repeat(1000)).length <= 200);
    assert.equal(title(10n), "plain");
    const customTool = { ...plain, describe: () => ({ title: "mine", diff: [] }) };
    assert.deepEqual(defineTool(customTool).describe({}, "/"), { title: "mine", locations: [], diff: [] });
    assert.deepEqual(defineTool({ ...plain, describe: () => "mine" }).describe({}, "/"), {
      title: "mine",
      locations: [],
    });
  });

  it("rejects invalid names and schemas with the expected value", () => {
    const refused = (what: object, message: RegExp) =>
      assert.throws(() => defineTool({ ...plain, ...what }), { code: "invalid_input", message });
    refused({ name: "a.b" }, /^name: expected 1 to 64 letters/);
    refused({ schema: v.object({ a: v.string() }) }, /^schema of plain: expected jsonSchema, because valibot/);
    refused(
      { schema: z.object({ at: z.date() }) },
      /^schema of plain: expected a schema that converts to JSON Schema, or jsonSchema: .*Date/,
    );
    refused({ schema: z.string() }, /^schema of plain: expected an object/);
    refused({ schema: { type: "string" } }, /^schema of plain: expected an object/);
  });

  it("throws for a schema with an asynchronous check", () => {
    const tool = defineTool({
      ...plain,
      schema: z.object({ a: z.string().refine(async () => Promise.resolve(true)) }),
    });
    assert.throws(() => tool.parse({ a: "" }), /asynchron|Promise/);
  });

  it("coerces arguments of a plain JSON Schema like the built-in tools", () => {
    const { parse } = defineTool({
      ...plain,
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
    const errorOf = (input: object) => {
      try {
        parse(input);
      } catch (error) {
        return (error as Error).message;
      }
      return "";
    };
    assert.equal(errorOf({ count: 10 }), "count: expected an integer >= 1 and <= 9, got 10");
    assert.equal(errorOf({ size: "l" }), 'size: expected one of "s", "m", 3, got "l"');
    assert.equal(
      errorOf({ tags: ["long"], place: {} }),
      'tags[0]: expected at most 3 characters, got "long"; place.x: expected a number, got nothing',
    );
    assert.equal(errorOf({ ratio: Number.NaN }), "ratio: expected a number, got null");
  });

  it("uses a default unchanged, even if its schema does not allow it", () => {
    const { parse } = defineTool({
      ...plain,
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
      ...plain,
      schema: { type: "object", properties: { constructor: { type: "string" }, toString: { type: "string" } } },
    });
    assert.deepEqual(Object.entries(parse({})), []);
    assert.deepEqual(Object.entries(parse({ constructor: "a" })), [["constructor", "a"]]);
  });

  it("does not change a prototype for an argument named `__proto__`", () => {
    const { parse } = defineTool({ ...plain, schema: { type: "object", properties: { a: { type: "string" } } } });
    const read = parse(JSON.parse('{"__proto__":{"polluted":true},"a":"b"}')) as object;
    assert.equal(({} as { polluted?: boolean }).polluted, undefined);
    assert.equal(Object.getPrototypeOf(read), Object.prototype);
  });

  it("infers the type of run's arguments from the schema", () => {
    const tool = defineTool({
      ...plain,
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
        // @ts-expect-error -- it may be left out
        const wrong: string[] = args.tags;
        return `${unit} ${days} ${String(wrong)}`;
      },
    });
    assert.ok(tool);
  });

  it("defines tools that a model calls in a run", async (t) => {
    const provider = new ScriptedProvider([
      callTools(["weather", { city: "Oslo" }, "a"], ["weather", {}, "b"], ["broken", {}, "c"]),
      "Fine.",
    ]);
    const broken = defineTool({
      name: "broken",
      description: "Fails.",
      run(_args, context: ToolContext) {
        throw new Error(`nothing for ${context.callId}`);
      },
    });
    const agent = new Agent({ providers: [provider], tools: [withZod, broken] });
    t.after(() => agent.close());
    const results: unknown[] = [];
    for await (const event of await agent.run({ message: "x" }))
      if (event.type === "tool_result") results.push([event.failed, event.output]);
    assert.deepEqual(results[0], [false, "OSLO: fine for 1"]);
    assert.match(String(results[1]), /^true,weather: city: .*expected string/);
    assert.deepEqual(results[2], [true, "broken: nothing for c"]);
  });
});
