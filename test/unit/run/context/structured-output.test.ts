import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, type AgentOptions, type RunInput, type RunResult } from "gantry";
import type { JsonSchema } from "gantry/plugin";
import { callTools, say, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { noopTool } from "../../../helpers/noop-tool.js";
import { STORES } from "../../../helpers/stores.js";

const PERSON_SCHEMA: JsonSchema = {
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer" } },
  required: ["name"],
  additionalProperties: false,
};

function createAgent(t: TestContext, steps: readonly ScriptedStep[], options: Partial<AgentOptions> = {}) {
  const provider = new ScriptedProvider(steps, { fallback: "no" });
  const agent = new Agent({ providers: [provider], tools: [noopTool], projectInstructions: false, ...options });
  t.after(() => agent.close());
  return { agent, provider };
}

async function runWithSchema(agent: Agent, outputSchema: unknown, input: Partial<RunInput> = {}): Promise<RunResult> {
  const run = await agent.run({ message: "x", outputSchema: outputSchema as JsonSchema, ...input });
  return run.result;
}

describe("structured output", () => {
  for (const [name, answer] of [
    ["a plain JSON answer", '{"name":"Ada","age":36}'],
    ["a fenced block", 'Here it is:\n```json\n{"name":"Ada","age":36}\n```\nAs asked.'],
    ["the last of several fenced blocks", '```\n{"name":1}\n```\n```json\n{"name":"Ada","age":36}\n```'],
    ["JSON with text around it", 'It is {"name":"Ada","age":36}, I think.'],
  ] as const)
    it(`is parsed from ${name}, with one model call`, async (t) => {
      const { agent, provider } = createAgent(t, [say(answer)]);
      const result = await runWithSchema(agent, PERSON_SCHEMA);
      assert.deepEqual([result.structured, result.output], [{ name: "Ada", age: 36 }, answer]);
      assert.equal(provider.requests.length, 1);
      const [request] = provider.requests;
      assert.deepEqual(request?.outputSchema, PERSON_SCHEMA);
      assert.ok(request?.system.endsWith(JSON.stringify(PERSON_SCHEMA)));
    });

  it("can be any JSON value that the schema allows, including null", async (t) => {
    for (const [schema, value] of [
      [{ type: "null" }, null],
      [{ type: "array", items: { type: "number" } }, [1, 2]],
      [{ enum: [false] }, false],
      [{ $schema: "http://json-schema.org/draft-07/schema#", type: "array", items: [{ const: 1 }] }, [1, "x"]],
      [{ $schema: "https://json-schema.org/draft/2020-12/schema", prefixItems: [{ const: 1 }] }, [1]],
      [
        // A reference to the root schema is not a circular reference.
        { type: "object", properties: { child: { $ref: "#" } }, additionalProperties: false },
        { child: { child: {} } },
      ],
      [
        { $defs: { n: { type: "object", properties: { next: { $ref: "#/$defs/n" } } } }, $ref: "#/$defs/n" },
        { next: { next: {} } },
      ],
    ] as const) {
      const { agent } = createAgent(t, [say(JSON.stringify(value))]);
      const result = await runWithSchema(agent, schema);
      assert.ok("structured" in result);
      assert.deepEqual(result.structured, value);
    }
  });

  for (const [name, makeStore] of STORES)
    it(`is requested again with the validation error, and stored with its run (${name})`, async (t) => {
      const driver = (await makeStore(t))();
      const steps = [callTools(["noop", {}]), say("I do not know."), say('{"name":5,"size":1}'), say('{"name":"Ada"}')];
      const { agent, provider } = createAgent(t, steps, { driver });
      const run = await agent.run({ message: "x", outputSchema: PERSON_SCHEMA, idempotencyKey: "k" });
      const { structured, output, iterations, usage } = await run.result;
      assert.deepEqual([structured, output, iterations], [{ name: "Ada" }, '{"name":"Ada"}', 4]);
      assert.equal(usage.totalTokens, 60);
      const correctionMessages = provider.requests.slice(2).map(({ messages }) => messages.at(-1));
      assert.deepEqual(
        correctionMessages.map((message) => message?.role),
        ["user", "user"],
      );
      const corrections = correctionMessages.map((message) => JSON.stringify(message?.parts));
      assert.match(corrections[0] ?? "", /it is not JSON/);
      assert.match(corrections[1] ?? "", /\/name must be string/);
      assert.match(corrections[1] ?? "", /must NOT have additional properties: .*size/);
      const record = await agent.runs.get(run.id);
      assert.deepEqual(record?.answer, { output, finishReason: "stop", structured: { name: "Ada" } });
      const roles = (await agent.sessions.messages(run.sessionId)).map(({ role }) => role);
      assert.deepEqual(roles, ["user", "assistant", "tool", "assistant", "user", "assistant", "user", "assistant"]);
      // A later run without a schema is not asked for structured output.
      const nextRun = await agent.run({ message: "y", sessionId: run.sessionId });
      assert.equal((await nextRun.result).output, "no");
      assert.equal(provider.requests.at(-1)?.outputSchema, undefined);
      assert.ok(!provider.requests.at(-1)?.system.includes("JSON Schema"));
    });

  it("fails the run after three invalid answers, and all answers are stored", async (t) => {
    for (const schema of [{ not: {} }, { enum: ["yes"] }]) {
      const { agent, provider } = createAgent(t, []);
      const run = await agent.run({ message: "x", outputSchema: schema });
      await assert.rejects(run.result, {
        code: "output_schema",
        message: /^the answer does not fit the output schema: /,
      });
      assert.equal(provider.requests.length, 3);
      const record = await agent.runs.get(run.id);
      assert.deepEqual(
        [record?.state, record?.error?.code, record?.usage.totalTokens],
        ["failed", "output_schema", 45],
      );
      assert.equal((await agent.sessions.messages(run.sessionId)).length, 6);
      // The session can continue.
      assert.equal((await (await agent.run({ message: "y", sessionId: run.sessionId })).result).output, "no");
    }
  });

  it("is absent if a limit ends the run", async (t) => {
    const { agent } = createAgent(t, [callTools(["noop", {}])], { maxIterations: 1 });
    const result = await runWithSchema(agent, PERSON_SCHEMA);
    assert.deepEqual([result.endedBy, "structured" in result], ["max_iterations", false]);
  });

  it("rejects an answer of 100,000 nested levels, and corrects 200,000 errors in under 4,000 characters", async (t) => {
    const nestedAnswer = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    const { agent, provider } = createAgent(t, [say(nestedAnswer), say(`[${"1,".repeat(200_000)}1]`), say("[]")], {
      compaction: { strategy: "sliding-window" },
    });
    const result = await runWithSchema(agent, { type: "array", items: { type: "string" } });
    assert.deepEqual(result.structured, []);
    assert.match(JSON.stringify(provider.requests[1]?.messages.at(-1)), /nested deeper/);
    assert.ok(JSON.stringify(provider.requests[2]?.messages.at(-1)).length < 4_000);
  });
});

describe("an invalid output schema", () => {
  const createNestedSchema = (levels: number): unknown => {
    let schema: unknown = {};
    for (let i = 0; i < levels; i += 1) schema = { not: schema };
    return schema;
  };
  const circularSchema: Record<string, unknown> = {};
  circularSchema["properties"] = { self: circularSchema };
  for (const [name, schema, messagePattern] of [
    ["a string", "object", /a JSON Schema, as an object/],
    ["an array", [], /a JSON Schema, as an object/],
    ["null", null, /a JSON Schema, as an object/],
    ["an unknown type", { type: "objekt" }, /type/],
    ["an invalid pattern", { pattern: "(" }, /pattern|regular expression/i],
    ["a reference to a missing definition", { $ref: "#/$defs/none" }, /resolve reference/],
    ["a reference to a remote document", { $ref: "http://127.0.0.1:9/schema.json" }, /resolve reference/],
    ["a reference to itself", { $ref: "#" }, /endless recursion/],
    [
      "circular references",
      { $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } }, $ref: "#/$defs/a" },
      /endless recursion/,
    ],
    ["10,000 levels", createNestedSchema(10_000), /at most 64 levels/],
    ["an object that contains itself", circularSchema, /at most 64 levels/],
    ["an enum of 100,000 values", { enum: Array.from({ length: 100_000 }, (_, i) => i) }, /at most 10000 values/],
    ["a string of 100,000 characters", { enum: ["x".repeat(100_000)] }, /at most 65536 characters/],
    ["a value that is not JSON", { const: () => 1 }, /nothing but JSON/],
    ["JSON Schema draft-04", { $schema: "http://json-schema.org/draft-04/schema#" }, /2020-12 or draft-07/],
    ["an asynchronous schema", { $async: true, type: "string" }, /\$async/],
  ] as const)
    it(`is rejected before anything is stored: ${name}`, async (t) => {
      const { agent, provider } = createAgent(t, []);
      await assert.rejects(runWithSchema(agent, schema), {
        code: "invalid_input",
        field: "outputSchema",
        message: messagePattern,
      });
      assert.equal(provider.requests.length, 0);
      assert.deepEqual((await agent.sessions.list()).sessions, []);
    });
});
