import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as v from "valibot";
import { z } from "zod";
import { builtinTools, defineTool, type Tool, type ToolKind } from "gantry";
import type { JsonSchema, StandardSchema } from "gantry/plugin";
import { tempDir } from "../../helpers/temp.js";
import { callTool, toolContext } from "../../helpers/tool-context.js";

const tools = new Map(builtinTools().map((tool) => [tool.name, tool]));

function named(name: string): Tool {
  return tools.get(name) ?? assert.fail(name);
}

function refusal(tool: Tool, input: object): string {
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
      const knownArguments = Object.keys(named(name).inputSchema["properties"] as object).join(", ");
      assert.equal(
        refusal(named(name), { ...input, folder: "packages/x" }),
        `unknown argument folder. The call did not run. Known arguments: ${knownArguments}.`,
      );
      assert.equal(refusal(named(name), input), "");
    });

  it("of a read-only tool is ignored, and the result of that call says so", async (t) => {
    const folder = await tempDir(t, { "a.txt": "text" });
    const context = toolContext(folder.path);
    const { text } = await callTool(named("read"), { path: "a.txt", encoding: "latin1" }, context);
    assert.match(text, /text\n?[\s\S]*\n\[unknown argument encoding was ignored\. Known arguments: path, offset/);
    assert.doesNotMatch((await callTool(named("read"), { path: "a.txt" }, context)).text, /unknown/);
    for (const [name, input] of [
      ["grep", { pattern: "text" }],
      ["glob", { pattern: "*" }],
      ["list", {}],
    ] as const)
      assert.match((await callTool(named(name), { ...input, sorted: 1 }, context)).text, /unknown argument sorted was/);
  });

  it("is accepted if it is empty or false, or only explains the call", () => {
    const nothing = { cwd_of: null, dry_run: false, note: "", unset: undefined };
    const comments = { description: "Lists it", explanation: "x", justification: "x", purpose: "x", reason: "x" };
    assert.equal(refusal(named("bash"), { command: "ls", ...nothing, ...comments }), "");
    assert.match(refusal(named("bash"), { command: "ls", dry_run: true }), /^unknown argument dry_run\./);
  });

  it("can be an alias whose value differs from the argument's value", () => {
    const write = (paths: object) => refusal(named("write"), { content: "x", ...paths });
    assert.equal(write({ file_path: "a" }), "");
    assert.equal(write({ path: "a", file_path: "a" }), "");
    assert.match(write({ path: "a", file_path: "b" }), /^unknown argument file_path\./);
    assert.match(write({ file_path: "a", filename: "b" }), /^unknown argument filename\./);
  });

  it("is named in a message that is short and escaped", () => {
    const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`name${i}`, 1]));
    assert.match(refusal(named("bash"), { command: "ls", ...many }), /name0, .*name9, and 4990 more\./);
    assert.match(refusal(named("bash"), { command: "ls", "\u202Ex": 1 }), /^unknown argument "\\u202ex"\./);
    assert.match(refusal(named("bash"), JSON.parse('{"command":"ls","__proto__":1}') as object), /__proto__/);
  });

  it("of a third-party tool is rejected if its schema drops it", () => {
    const made = (schema: StandardSchema | JsonSchema, kind: ToolKind = "other", jsonSchema?: JsonSchema) =>
      defineTool({ name: "own", description: "x", kind, schema, ...(jsonSchema && { jsonSchema }), run: () => "" });
    const plain = { type: "object", properties: { a: { type: "number" } } };
    const isRefused = (tool: Tool) => refusal(tool, { a: 1, b: 2 }) !== "";
    assert.equal(isRefused(made(z.object({ a: z.number() }))), true);
    assert.equal(isRefused(made(z.object({ a: z.number() }).transform(({ a }) => a))), true);
    assert.equal(isRefused(made(v.object({ a: v.number() }), "other", plain)), true);
    assert.equal(isRefused(made({ ...plain, additionalProperties: false })), true);
    // These schemas accept unknown arguments.
    assert.equal(isRefused(made(z.looseObject({ a: z.number() }))), false);
    assert.equal(isRefused(made(z.record(z.string(), z.number()))), false);
    assert.equal(isRefused(made(plain)), false);
    // Only the schema library knows which arguments this schema accepts.
    assert.equal(isRefused(made(v.object({ a: v.number() }), "other", { ...plain, anyOf: [{}] })), false);
    assert.equal(isRefused(made(z.object({ a: z.number() }), "search")), false);
  });
});
