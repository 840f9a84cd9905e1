import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, type AgentOptions, type RunInput } from "gantry";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import { noopTool } from "../../../helpers/noop-tool.js";

function createAgent(t: TestContext, provider: ScriptedProvider, options: Partial<AgentOptions> = {}): Agent {
  const agent = new Agent({ providers: [provider], ...options });
  t.after(() => agent.close());
  return agent;
}

describe("RunInput.systemPrompt", () => {
  it("replaces the agent's system prompt for this run only", async (t) => {
    const provider = new ScriptedProvider();
    const agent = createAgent(t, provider, { systemPrompt: "Speak French." });
    const { sessionId, result } = await agent.run({ message: "x", systemPrompt: "Speak German." });
    await result;
    await (
      await agent.run({ message: "y", sessionId, systemPrompt: "" })
    ).result;
    await (
      await agent.run({ message: "z", sessionId })
    ).result;
    const [germanPrompt, emptyPrompt, frenchPrompt] = provider.requests.map(({ system }) => system);
    assert.match(germanPrompt ?? "", /coding agent[\s\S]*Speak German\./);
    assert.doesNotMatch(germanPrompt ?? "", /French/);
    assert.doesNotMatch(emptyPrompt ?? "", /Speak/);
    assert.match(frenchPrompt ?? "", /Speak French\./);
  });
});

describe("RunInput.tools", () => {
  const createTool = (name: string, answer = name) => ({
    ...noopTool,
    name,
    run: () => Promise.resolve({ text: answer }),
  });

  it("replaces the agent's tools for this run only", async (t) => {
    const provider = new ScriptedProvider([callTools(["second", {}]), "ok", callTools(["second", {}]), "ok"]);
    const agent = createAgent(t, provider, { tools: [createTool("first")] });
    const run = await agent.run({ message: "x", tools: [createTool("third"), createTool("second", "it ran")] });
    await run.result;
    assert.deepEqual(
      provider.requests[0]?.tools.map(({ name }) => name),
      ["second", "third"],
    );
    const secondRun = await agent.run({ message: "y", sessionId: run.sessionId });
    await secondRun.result;
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
    const agent = createAgent(t, provider, { tools: [noopTool] });
    await (
      await agent.run({ message: "x", tools: [] })
    ).result;
    assert.deepEqual(provider.requests[0]?.tools, []);
  });
});

it("an invalid systemPrompt or tools value is rejected with its field, before any model call", async (t) => {
  const provider = new ScriptedProvider();
  const agent = createAgent(t, provider);
  const invalidInputs: [unknown, string, RegExp][] = [
    [{ systemPrompt: 1 }, "systemPrompt", /a string/],
    [{ tools: noopTool }, "tools", /a list of tools/],
    [{ tools: [noopTool, {}] }, "tools[1]", /one of the tools, with name, parse, describe, run/],
    [{ tools: [noopTool, { ...noopTool }] }, "tools", /distinct names, got noop twice/],
  ];
  for (const [input, field, message] of invalidInputs)
    await assert.rejects(agent.run({ message: "x", ...(input as Partial<RunInput>) }), {
      code: "invalid_input",
      field,
      message,
    });
  assert.equal(provider.requests.length, 0);
});
