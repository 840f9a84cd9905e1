import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, hasCode, MemoryDriver } from "gantry";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import { testTool } from "../helpers/acp-agent.js";

/** A value that the types would reject, as JavaScript code can pass it. */
const untyped = (value: unknown) => value as never;

const refused = (field: string, pattern: RegExp) => (error: unknown) => {
  assert.ok(hasCode(error, "invalid_input"), String(error));
  assert.equal(error.field, field);
  assert.match(error.message, pattern);
  return true;
};

describe("values of wrong types from JavaScript", () => {
  it("are rejected by the Agent constructor with the option and the expected value", () => {
    const make = (options: unknown) => () => new Agent(untyped(options));
    const provider = new ScriptedProvider([]);
    assert.throws(make(undefined), refused("options", /an object with `providers`/));
    assert.throws(make({}), refused("providers", /a list of model providers/));
    assert.throws(make({ providers: [{}] }), refused("providers[0]", /with name, models, stream, close/));
    assert.throws(make({ providers: [provider], tools: {} }), refused("tools", /a list of tools/));
    assert.throws(
      make({ providers: [provider], tools: [{ name: "x" }] }),
      refused("tools[0]", /with parse, describe, run/),
    );
    assert.throws(
      make({ providers: [provider], driver: "sqlite" }),
      refused("driver", /a session driver, with name, open/),
    );
    assert.throws(make({ providers: [provider], provider }), refused("provider", /one of providers, driver, tools/));
    assert.throws(
      make({ providers: [provider], model: { reasoningEffort: "huge" } }),
      refused("model.reasoningEffort", /one of "", "minimal", "low"/),
    );
  });

  it("are rejected by events, runs and lists with the field and the expected value", async (t) => {
    const agent = new Agent({ providers: [new ScriptedProvider([], { fallback: "ok" })], driver: new MemoryDriver() });
    t.after(() => agent.close());
    assert.throws(() => agent.on(untyped("run.ended"), () => undefined), refused("event", /"run.finished"/));
    const run = (input: object) => agent.run(untyped({ message: "x", ...input }));
    await assert.rejects(run({ session: "1" }), refused("session", /one of message, compact, commands, attachments/));
    await assert.rejects(run({ reasoningEffort: "huge" }), refused("reasoningEffort", /"minimal"/));
    await assert.rejects(run({ overflow: "block" }), refused("overflow", /"drop", "merge"/));
    for (let i = 0; i < 2; i += 1) await (await agent.run({ message: "x" })).result;
    assert.equal((await agent.sessions.list()).sessions.length, 2);
    assert.equal((await agent.sessions.list({})).total, 2);
    await assert.rejects(agent.sessions.list({ limit: -1 }), refused("limit", /a whole number/));
    await assert.rejects(agent.sessions.list({ limit: untyped("5") }), refused("limit", /a whole number/));
  });

  it("fail the tool call if a tool returns them; a string is accepted as the tool's output", async (t) => {
    const provider = new ScriptedProvider([
      callTools(["plain", {}, "a"], ["empty", {}, "b"], ["odd", {}, "c"]),
      say("done"),
    ]);
    const tools = [
      testTool("plain", () => untyped("just text")),
      testTool("empty", () => untyped(undefined)),
      testTool("odd", () => untyped({ output: "x" })),
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
