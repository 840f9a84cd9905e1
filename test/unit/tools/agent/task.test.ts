import assert from "node:assert/strict";
import { it } from "node:test";
import { builtinTools, RunCancelledError, TooManyRunsError, type ToolContext } from "gantry";
import type { SubagentResult, SpawnInput } from "gantry/plugin";
import { callTool, createToolContext } from "../../../helpers/tool-context.js";

const usage = { promptTokens: 1, completionTokens: 1, totalTokens: 2, cost: 0 };
const tool = builtinTools().find(({ name }) => name === "task")!;

/** Returns the tool's result for a subagent that ends as given, and the input with which the tool spawned it. */
async function callTaskTool(ending: Partial<SubagentResult> | Error, args: object = {}) {
  const inputs: SpawnInput[] = [];
  const spawn: ToolContext["spawn"] = async (input) => {
    inputs.push(input);
    if (ending instanceof TooManyRunsError) throw ending;
    const subagentResult = { output: "found", endedBy: "model", usage, iterations: 2, ...ending } as const;
    const result = ending instanceof Error ? Promise.reject<SubagentResult>(ending) : Promise.resolve(subagentResult);
    return { runId: "r", sessionId: "s-1", result };
  };
  const output = await callTool(
    tool,
    { description: " Find\n it ", prompt: "Find it.", ...args },
    createToolContext("/", { spawn }),
  );
  return { ...output, input: inputs[0] };
}

it("the task tool starts a subagent with the given arguments and returns its final answer", async () => {
  const { text, failed, input } = await callTaskTool({});
  assert.deepEqual([text, failed], ["found\n\n[subagent session s-1]", false]);
  assert.deepEqual(input, { message: "Find it.", title: "Find it", readOnly: false, budget: {}, maxIterations: 50 });
  const args = { tools: ["read"], read_only: true, budget: { usd: "0.5", tokens: 1000, seconds: null } };
  const spawnInput = (await callTaskTool({}, args)).input;
  assert.deepEqual(
    [spawnInput?.tools, spawnInput?.readOnly, spawnInput?.budget],
    [["read"], true, { usd: 0.5, tokens: 1000, seconds: undefined }],
  );
});

it("the task tool reports a subagent that stopped early, failed or returned no text", async () => {
  const cases: [Partial<SubagentResult> | Error, RegExp][] = [
    [{ output: " " }, /^\(The subagent gave no answer\.\)/],
    [{ endedBy: "budget" }, /^found\n\n\[The subagent did not finish: it used its budget\.\]/],
    [{ endedBy: "max_iterations", iterations: 50 }, /it used its 50 model calls/],
    [new RunCancelledError(), /^A user cancelled the subagent/],
    [new TooManyRunsError(), /^No subagent could start/],
    [new Error("the model is away"), /^The subagent failed: the model is away/],
  ];
  for (const [ending, expectedText] of cases) {
    const { text, failed } = await callTaskTool(ending);
    assert.match(text, expectedText);
    assert.equal(failed, ending instanceof Error || ending.endedBy !== undefined, text);
  }
});

it("the task tool truncates a long answer in the middle", async () => {
  const { text } = await callTaskTool({ output: `begin${"x".repeat(100_000)}end` });
  assert.ok(text.length < 31_000);
  assert.match(text, /^begin/);
  assert.match(text, /end\n\n\[subagent session s-1\]$/);
});

it("the task tool names the invalid argument in its error", () => {
  for (const [args, expectedMessage] of [
    [{ prompt: "x" }, /description/],
    [{ description: "x", prompt: "" }, /prompt/],
    [{ description: "x", prompt: "y", budget: { usd: 0 } }, /budget.*usd.*a number above 0/s],
    [{ description: "x", prompt: "y", tools: "read" }, /tools/],
  ] as const)
    assert.throws(() => tool.parse(args) as unknown, { code: "tool_input", message: expectedMessage });
});
