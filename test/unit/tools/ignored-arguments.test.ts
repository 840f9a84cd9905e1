import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as v from "valibot";
import { z } from "zod";
import { builtinTools, defineTool, type Tool, type ToolKind } from "gantry";
import type { JsonSchema, StandardSchema } from "gantry/plugin";
import { tempDir } from "../../helpers/temp-dir.js";
import { callTool, createToolContext } from "../../helpers/tool-context.js";

const tools = new Map(builtinTools().map((tool) => [tool.name, tool]));

function requireTool(name: string): Tool {
  return tools.get(name) ?? assert.fail(name);
}

function getParseError(tool: Tool, input: object): string {
  try {
    tool.parse(input);
  } catch (error) {
    assert.equal((error as { code?: string }).code, "tool_input");
    return (error as Error).message;
  }
  return "";
}

const CALLS: Readonly<Record<string, object>> = {
  bash: { command: "ls" },
  bash_input: { id: "bg-1", text: "x" },
  bash_stop: { id: "bg-1" },
  write: { path: "a", content: "x" },
  edit: { path: "a", old_string: "x", new_string: "y" },
  delete: { path: "a" },
  todowrite: { todos: [] },
  task: { description: "x", prompt: "x" },
};

describe("an unknown argument", () => {
  for (const [name, input] of Object.entries(CALLS))
    it(`of ${name} is rejected with its name and the known names`, () => {
      const knownArguments = Object.keys(requireTool(name).inputSchema["properties"] as object).join(", ");
      assert.equal(
        getParseError(requireTool(name), { ...input, folder: "packages/x" }),
        `unknown argument folder. The call did not run. Known arguments: ${knownArguments}.`,
      );
      assert.equal(getParseError(requireTool(name), input), "");
    });

  it("of a read-only tool is ignored, and the result of the call names the argument", async (t) => {
    const folder = await tempDir(t, { "a.txt": "text" });
    const context = createToolContext(folder.path);
    const { text } = await callTool(requireTool("read"), { path: "a.txt", encoding: "latin1" }, context);
    assert.match(text, /text\n?[\s\S]*\n\[unknown argument encoding was ignored\. Known arguments: path, offset/);
    assert.doesNotMatch((await callTool(requireTool("read"), { path: "a.txt" }, context)).text, /unknown/);
    for (const [name, input] of [
      ["grep", { pattern: "text" }],
      ["glob", { pattern: "*" }],
      ["list", {}],
    ] as const)
      assert.match(
        (await callTool(requireTool(name), { ...input, sorted: 1 }, context)).text,
        /unknown argument sorted was/,
      );
  });

  it("is accepted if it is empty or false, or only explains the call", () => {
    const emptyArguments = { cwd_of: null, dry_run: false, note: "", unset: undefined };
    const explanations = { description: "Lists it", explanation: "x", justification: "x", purpose: "x", reason: "x" };
    assert.equal(getParseError(requireTool("bash"), { command: "ls", ...emptyArguments, ...explanations }), "");
    assert.match(getParseError(requireTool("bash"), { command: "ls", dry_run: true }), /^unknown argument dry_run\./);
  });

  it("can be an alias whose value differs from the argument's value", () => {
    const parseWrite = (paths: object) => getParseError(requireTool("write"), { content: "x", ...paths });
    assert.equal(parseWrite({ file_path: "a" }), "");
    assert.equal(parseWrite({ path: "a", file_path: "a" }), "");
    assert.match(parseWrite({ path: "a", file_path: "b" }), /^unknown argument file_path\./);
    assert.match(parseWrite({ file_path: "a", filename: "b" }), /^unknown argument filename\./);
  });

  it("is named in a message that is short and escaped", () => {
    const manyArguments = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`name${i}`, 1]));
    assert.match(
      getParseError(requireTool("bash"), { command: "ls", ...manyArguments }),
      /name0, .*name9, and 4990 more\./,
    );
    assert.match(getParseError(requireTool("bash"), { command: "ls", "\u202Ex": 1 }), /^unknown argument "\\u202ex"\./);
    assert.match(
      getParseError(requireTool("bash"), JSON.parse('{"command":"ls","__proto__":1}') as object),
      /__proto__/,
    );
  });

  it("of a third-party tool is rejected if the tool's schema drops the argument", () => {
    const createTool = (schema: StandardSchema | JsonSchema, kind: ToolKind = "other", jsonSchema?: JsonSchema) =>
      defineTool({ name: "own", description: "x", kind, schema, ...(jsonSchema && { jsonSchema }), run: () => "" });
    const plainSchema = { type: "object", properties: { a: { type: "number" } } };
    const isRejected = (tool: Tool) => getParseError(tool, { a: 1, b: 2 }) !== "";
    assert.equal(isRejected(createTool(z.object({ a: z.number() }))), true);
    assert.equal(isRejected(createTool(z.object({ a: z.number() }).transform(({ a }) => a))), true);
    assert.equal(isRejected(createTool(v.object({ a: v.number() }), "other", plainSchema)), true);
    assert.equal(isRejected(createTool({ ...plainSchema, additionalProperties: false })), true);
    // These schemas accept unknown arguments.
    assert.equal(isRejected(createTool(z.looseObject({ a: z.number() }))), false);
    assert.equal(isRejected(createTool(z.record(z.string(), z.number()))), false);
    assert.equal(isRejected(createTool(plainSchema)), false);
    // Only the schema library knows which arguments this schema accepts.
    assert.equal(isRejected(createTool(v.object({ a: v.number() }), "other", { ...plainSchema, anyOf: [{}] })), false);
    assert.equal(isRejected(createTool(z.object({ a: z.number() }), "search")), false);
  });
});
