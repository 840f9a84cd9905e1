import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, hasCode, MemoryDriver } from "gantry";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import { createTestTool } from "../helpers/acp-agent.js";

/** Passes a value that the types would reject, as JavaScript code can. */
const asAnyType = (value: unknown) => value as never;

const isInputError = (field: string, pattern: RegExp) => (error: unknown) => {
  assert.ok(hasCode(error, "invalid_input"), String(error));
  assert.equal(error.field, field);
  assert.match(error.message, pattern);
  return true;
};

describe("values of wrong types from JavaScript", () => {
  it("are rejected by the Agent constructor with the option and the expected value", () => {
    const createAgent = (options: unknown) => () => new Agent(asAnyType(options));
    const provider = new ScriptedProvider([]);
    assert.throws(createAgent(undefined), isInputError("options", /an object with `providers`/));
    assert.throws(createAgent({}), isInputError("providers", /a list of model providers/));
    assert.throws(createAgent({ providers: [{}] }), isInputError("providers[0]", /with name, models, stream, close/));
    assert.throws(createAgent({ providers: [provider], tools: {} }), isInputError("tools", /a list of tools/));
    assert.throws(
      createAgent({ providers: [provider], tools: [{ name: "x" }] }),
      isInputError("tools[0]", /with parse, describe, run/),
    );
    assert.throws(
      createAgent({ providers: [provider], driver: "sqlite" }),
      isInputError("driver", /a session driver, with name, open/),
    );
    assert.throws(
      createAgent({ providers: [provider], provider }),
      isInputError("provider", /one of providers, driver, tools/),
    );
    assert.throws(
      createAgent({ providers: [provider], model: { reasoningEffort: "huge" } }),
      isInputError("model.reasoningEffort", /one of "", "minimal", "low"/),
    );
  });

  it("are rejected by events, runs and lists with the field and the expected value", async (t) => {
    const agent = new Agent({ providers: [new ScriptedProvider([], { fallback: "ok" })], driver: new MemoryDriver() });
    t.after(() => agent.close());
    assert.throws(() => agent.on(asAnyType("run.ended"), () => undefined), isInputError("event", /"run.finished"/));
    const startRun = (input: object) => agent.run(asAnyType({ message: "x", ...input }));
    await assert.rejects(
      startRun({ session: "1" }),
      isInputError("session", /one of message, compact, rewind, retry, commands/),
    );
    await assert.rejects(startRun({ reasoningEffort: "huge" }), isInputError("reasoningEffort", /"minimal"/));
    await assert.rejects(startRun({ overflow: "block" }), isInputError("overflow", /"drop", "merge"/));
    for (let i = 0; i < 2; i += 1) await (await agent.run({ message: "x" })).result;
    assert.equal((await agent.sessions.list()).sessions.length, 2);
    assert.equal((await agent.sessions.list({})).total, 2);
    await assert.rejects(agent.sessions.list({ limit: -1 }), isInputError("limit", /a whole number/));
    await assert.rejects(agent.sessions.list({ limit: asAnyType("5") }), isInputError("limit", /a whole number/));
  });

  it("fail the tool call if a tool returns such a value; a string is accepted as the tool's output", async (t) => {
    const provider = new ScriptedProvider([
      callTools(["plain", {}, "a"], ["empty", {}, "b"], ["odd", {}, "c"]),
      say("done"),
    ]);
    const tools = [
      createTestTool("plain", () => asAnyType("just text")),
      createTestTool("empty", () => asAnyType(undefined)),
      createTestTool("odd", () => asAnyType({ output: "x" })),
    ];
    const agent = new Agent({ providers: [provider], tools });
    t.after(() => agent.close());
    const toolResults: unknown[] = [];
    for await (const event of await agent.run({ message: "x" }))
      if (event.type === "tool_result") toolResults.push([event.name, event.failed, event.output]);
    assert.deepEqual(toolResults, [
      ["plain", false, "just text"],
      ["empty", true, "empty: the tool ran, but returned no text"],
      ["odd", true, "odd: the tool ran, but returned no text"],
    ]);
  });
});
