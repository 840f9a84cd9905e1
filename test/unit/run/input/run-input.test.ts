import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, type AgentOptions, type RunInput } from "gantry";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import { noop } from "../../../helpers/noop-tool.js";

function make(t: TestContext, provider: ScriptedProvider, options: Partial<AgentOptions> = {}): Agent {
  const agent = new Agent({ providers: [provider], ...options });
  t.after(() => agent.close());
  return agent;
}

describe("RunInput.systemPrompt", () => {
  it("replaces the agent's system prompt for this run only", async (t) => {
    const provider = new ScriptedProvider();
    const agent = make(t, provider, { systemPrompt: "Speak French." });
    const { sessionId, result } = await agent.run({ message: "x", systemPrompt: "Speak German." });
    await result;
    await (
      await agent.run({ message: "y", sessionId, systemPrompt: "" })
    ).result;
    await (
      await agent.run({ message: "z", sessionId })
    ).result;
    const [german, none, french] = provider.requests.map(({ system }) => system);
    assert.match(german ?? "", /coding agent[\s\S]*Speak German\./);
    assert.doesNotMatch(german ?? "", /French/);
    assert.doesNotMatch(none ?? "", /Speak/);
    assert.match(french ?? "", /Speak French\./);
  });
});

describe("RunInput.tools", () => {
  const named = (name: string, answer = name) => ({ ...noop, name, run: () => Promise.resolve({ text: answer }) });

  it("replaces the agent's tools for this run only", async (t) => {
    const provider = new ScriptedProvider([callTools(["second", {}]), "ok", callTools(["second", {}]), "ok"]);
    const agent = make(t, provider, { tools: [named("first")] });
    const run = await agent.run({ message: "x", tools: [named("third"), named("second", "it ran")] });
    await run.result;
    assert.deepEqual(
      provider.requests[0]?.tools.map(({ name }) => name),
      ["second", "third"],
    );
    const again = await agent.run({ message: "y", sessionId: run.sessionId });
    await again.result;
    assert.deepEqual(
      provider.requests[2]?.tools.map(({ name }) => name),
      ["first"],
    );
    const results = (await agent.sessions.messages(run.sessionId)).filter(({ role }) => role === "tool");
    assert.deepEqual(
      results.map(({ parts: [part] }) => part?.type === "text" && part.text),
      ["it ran", 'Tool "second" does not exist. Use one of: first.'],
    );
  });

  it("can be an empty list", async (t) => {
    const provider = new ScriptedProvider([say("ok")]);
    const agent = make(t, provider, { tools: [noop] });
    await (
      await agent.run({ message: "x", tools: [] })
    ).result;
    assert.deepEqual(provider.requests[0]?.tools, []);
  });
});

it("an invalid systemPrompt or tools value is rejected with its field, before any model call", async (t) => {
  const provider = new ScriptedProvider();
  const agent = make(t, provider);
  const wrong: [unknown, string, RegExp][] = [
    [{ systemPrompt: 1 }, "systemPrompt", /a string/],
    [{ tools: noop }, "tools", /a list of tools/],
    [{ tools: [noop, {}] }, "tools[1]", /one of the tools, with name, parse, describe, run/],
    [{ tools: [noop, { ...noop }] }, "tools", /distinct names, got noop twice/],
  ];
  for (const [input, field, message] of wrong)
    await assert.rejects(agent.run({ message: "x", ...(input as Partial<RunInput>) }), {
      code: "invalid_input",
      field,
      message,
    });
  assert.equal(provider.requests.length, 0);
});
