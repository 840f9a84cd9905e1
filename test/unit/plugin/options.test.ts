import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as v from "valibot";
import { z } from "zod";
import { defineAdapter, option } from "gantry/plugin";

const assertRejects = (
  schema: Parameters<typeof option.read>[0],
  raw: unknown,
  message: string | RegExp,
  location = "f: a",
): void => assert.throws(() => option.read(schema, raw, location), { code: "config", message });

const testSchema = option.section({
  port: option.integer("A port.", { min: 0, max: 65_535, default: 80 }),
  on_close: option.oneOf(["wait", "cut"], "What then.", { default: "wait" }),
  names: option.list(option.text("A name."), "Names.", { default: [] }),
  api_key: option.text("A key.", { secret: true, fits: (key) => key !== "", expected: "a key" }),
  deep: option.section({ at_most: option.number("A share.", { above: 0, max: 1 }) }),
});

describe("options", () => {
  it("are returned with defaults and camelCase names", () => {
    const options: { port: number; onClose: "wait" | "cut"; apiKey: string | undefined } = option.read(
      testSchema,
      {},
      "",
    );
    assert.deepEqual(options, { port: 80, onClose: "wait", names: [], apiKey: undefined, deep: { atMost: undefined } });
    const values = { port: 0, on_close: "cut", names: ["a"], api_key: "k", deep: { at_most: 1 } };
    assert.deepEqual(option.read(testSchema, values, ""), {
      port: 0,
      onClose: "cut",
      names: ["a"],
      apiKey: "k",
      deep: { atMost: 1 },
    });
  });

  it("name the path, the expected value and the actual value in an error", () => {
    assertRejects(testSchema, { port: "x" }, 'f: a.port: expected a whole number from 0 to 65535, got "x"');
    assertRejects(testSchema, { port: 1.5 }, "f: a.port: expected a whole number from 0 to 65535, got 1.5");
    assertRejects(testSchema, { on_close: null }, 'f: a.on_close: expected one of "wait", "cut", got null');
    assertRejects(testSchema, { names: "a" }, 'f: a.names: expected a list of strings, got "a"');
    assertRejects(testSchema, { names: ["a", 5] }, "f: a.names[1]: expected a string, got 5");
    assertRejects(
      testSchema,
      { deep: { at_most: 2 } },
      "f: a.deep.at_most: expected a number above 0, at most 1, got 2",
    );
    assertRejects(testSchema, { deep: { most: 2 } }, "f: a.deep.most: unknown key; expected one of at_most");
    assertRejects(
      testSchema,
      { prot: 1, port: "x" },
      "f: a.prot: unknown key; expected one of port, on_close, names, api_key, deep",
    );
    assertRejects(
      testSchema,
      [],
      "f: a: expected an object with the keys port, on_close, names, api_key, deep, got Array",
    );
    assertRejects(testSchema, { names: ["x".repeat(500), 5] }, /^.{0,200}$/);
    assertRejects(testSchema, JSON.parse('{"__proto__":{"port":1}}'), /^f: a\.__proto__: unknown key/);
    assertRejects(testSchema, { port: "x" }, 'port: expected a whole number from 0 to 65535, got "x"', "");
    assertRejects(testSchema, [], /^f: expected an object/, "f: ");
    assertRejects(
      testSchema,
      { "a\nb": 1 },
      'f: a."a\\nb": unknown key; expected one of port, on_close, names, api_key, deep',
    );
  });

  it("do not repeat a value that may be secret in an error", () => {
    for (const invalidKey of ["", 5, ["s3cret"], { k: "s3cret" }, null])
      assertRejects(
        testSchema,
        { api_key: invalidKey },
        /^f: a\.api_key: expected a key, got (string|number|Array|object|null)$/,
      );
    const headersSchema = option.section({
      headers: option.headers("Headers.", { sent: true, reserved: new Set(["date"]) }),
    });
    assertRejects(
      headersSchema,
      { headers: { "X-Key": "s3cret\n" } },
      "f: a.headers.X-Key: expected one line of Latin-1 text, got string",
    );
    assertRejects(
      headersSchema,
      { headers: { Date: "s3cret" } },
      /headers\.Date: expected another header: .*, got Date$/,
    );
    const createFault = () => ({ key: "api_key", expected: "another" });
    assertRejects(
      option.section({ ...testSchema.entries }, { rule: createFault }),
      { api_key: "s3cret" },
      "f: a.api_key: expected another, got string",
    );
  });

  it("can have names that the user chooses, in a map", () => {
    const entrySchema = option.section({ first_size: option.integer("Its size.", { required: true }) });
    const nameRule = { fits: (name: string) => /^[a-z_]+$/.test(name), expected: "small letters" };
    const mapSchema = option.section({ all: option.map(entrySchema, "All.", nameRule) });
    const options = option.read(mapSchema, { all: { my_own: { first_size: 1 }, constructor: { first_size: 2 } } }, "");
    assert.deepEqual({ ...options.all }, { my_own: { firstSize: 1 }, constructor: { firstSize: 2 } });
    assert.deepEqual({ ...option.read(mapSchema, {}, "").all }, {});
    assert.equal(option.read(mapSchema, { all: {} }, "").all["toString"], undefined);
    assertRejects(
      mapSchema,
      { all: { a: { first_size: "x" } } },
      'f: a.all.a.first_size: expected a whole number, got "x"',
    );
    assertRejects(mapSchema, { all: { A: {} } }, 'f: a.all.A: expected small letters, got "A"');
    assertRejects(mapSchema, { all: [] }, "f: a.all: expected an object, got Array");
    const pollutedValue = JSON.parse('{"all":{"__proto__":{"first_size":1}}}') as unknown;
    assert.deepEqual(Object.keys(option.read(mapSchema, pollutedValue, "").all), ["__proto__"]);
  });

  it("can be required, optional, open to unknown keys or written as a short text", () => {
    const entrySchema = option.textOr(
      "id",
      option.section({ id: option.text("Its id.", { required: true }), size: option.integer("Its size.") }),
    );
    const listSchema = option.section({ all: option.list(entrySchema, "All.", { filled: "entry", default: [] }) });
    assert.deepEqual(option.read(listSchema, { all: ["a", { id: "b", size: 2 }] }, ""), {
      all: [
        { id: "a", size: undefined },
        { id: "b", size: 2 },
      ],
    });
    assertRejects(listSchema, { all: [{ size: 2 }] }, "f: a.all[0].id: expected a string, got nothing");
    assertRejects(listSchema, { all: [] }, "f: a.all: expected at least one entry, got 0");
    const openSchema = option.section({ kind: option.text("A kind.", { default: "x" }) }, { open: true });
    assert.deepEqual(option.read(openSchema, { other_key: 1 }, ""), { kind: "x", other_key: 1 });
    const optionalSection = option.section({ inner: option.section({ a: option.flag("A.") }, { optional: true }) });
    assert.deepEqual(option.read(optionalSection, {}, ""), { inner: undefined });
  });

  it("accept zod and plain valibot schemas, for a whole section or a single option", () => {
    const zodSchema = z.strictObject({ sides: z.number().min(2).default(6) });
    assert.deepEqual(option.read(zodSchema, {}, ""), { sides: 6 });
    assertRejects(zodSchema, { sides: "six" }, /^f: a\.sides: Invalid input: expected number, received string$/);
    assertRejects(
      v.object({ list: v.array(v.number()) }),
      { list: ["x"] },
      /^f: a\.list\[0\]: Invalid type: Expected number/,
    );
    const mixedSchema = option.section({ when: z.iso.date(), sides: option.integer("Sides.", { default: 6 }) });
    const options: { when: string; sides: number } = option.read(mixedSchema, { when: "2026-01-01" }, "");
    assert.deepEqual(options, { when: "2026-01-01", sides: 6 });
    assertRejects(mixedSchema, { when: "never" }, /^f: a\.when: Invalid ISO date/);
    assertRejects(
      z.string().refine(async () => true),
      "x",
      /expected a synchronous schema, got an asynchronous one/,
    );
  });
});

describe("defineAdapter", () => {
  const context = { location: "f: x", configDir: "/", home: "/", projectDir: "/" };
  const start = () => Promise.reject(new Error("not today"));

  it("infers the option types from the schema, and parses options with the schema", () => {
    const adapter = defineAdapter({
      kind: "transport",
      name: "x",
      schema: testSchema,
      create: ({ port: portNumber, deep }) => ({ name: `x${portNumber + (deep.atMost ?? 0)}`, start }),
    });
    assert.equal(adapter.parse({ port: 9 }, context).port, 9);
    assert.throws(() => adapter.parse({ port: -1 }, context), /^ConfigError: f: x\.port: expected/);
  });

  it("accepts no options without a schema", () => {
    const adapter = defineAdapter({ kind: "transport", name: "x", create: () => ({ name: "x", start }) });
    assert.deepEqual(adapter.parse({}, context), {});
    assert.throws(() => adapter.parse({ port: 1 }, context), /f: x\.port: unknown key; there are no options$/);
  });
});
