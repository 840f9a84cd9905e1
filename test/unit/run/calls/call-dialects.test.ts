import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, builtinTools, defineTool, type AgentOptions, type RunInput } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { tempDir } from "../../../helpers/temp-dir.js";

const PATCH = "*** Begin Patch\n*** Add File: new.txt\n+x\n*** End Patch";

/** A run in which a model makes one call. Returns the results, and what clients, hooks and the store saw. */
async function runCall(
  t: TestContext,
  call: readonly [name: string, args: unknown],
  { model = "m", ...options }: Partial<AgentOptions> & { model?: string } = {},
  input: Partial<RunInput> = {},
) {
  const project = await tempDir(t, { "a.txt": "one\n" });
  const hookCalls: string[] = [];
  const models = [{ id: model, name: model, ownedBy: "lab" }];
  const provider = new ScriptedProvider([callTools([...call])], { models, fallback: "end" });
  const agent = new Agent({
    providers: [provider],
    tools: builtinTools(),
    projectDir: project.path,
    hooks: {
      beforeToolCall: ({ tool, input }) => {
        hookCalls.push(`${tool.name} ${JSON.stringify(input)}`);
      },
    },
    ...options,
  });
  t.after(() => agent.close());
  const run = await agent.run({ message: "go", ...input });
  let [name, title, output] = ["", "", ""];
  for await (const event of run)
    if (event.type === "tool_call") ({ name, title } = event);
    else if (event.type === "tool_result") ({ output } = event);
  const messages = await agent.sessions.messages(run.sessionId);
  const storedNames = messages.flatMap(({ parts }) =>
    parts.flatMap((part) => (part.type === "tool_call" ? [part.name] : [])),
  );
  return { name, title, output, hookCalls, storedNames, messages, agent };
}

describe("a call with the name of another agent's tool", () => {
  it("is seen by clients, hooks and the store as a call of the tool that runs", async (t) => {
    const { name, title, output, hookCalls, storedNames, messages } = await runCall(t, [
      "Read",
      { file_path: "a.txt" },
    ]);
    assert.deepEqual([name, title, storedNames], ["read", "Read a.txt", ["read"]]);
    assert.match(output, /1\tone/);
    assert.deepEqual(hookCalls, ['read {"path":"a.txt"}']);
    assert.deepEqual(
      messages.flatMap((message) => (message.role === "tool" ? [message.name] : [])),
      ["read"],
    );
  });

  it("is subject to the permission rules, the mode and the requests of the tool that runs", async (t) => {
    const rules = [{ tool: "bash", action: "deny" } as const];
    for (const call of [
      ["shell", { command: ["bash", "-lc", "touch out"] }],
      ["exec_command", { cmd: "touch out" }],
      ["Bash", { command: "touch out" }],
      ["functions.bash", { command: "touch out" }],
    ] as const)
      assert.match((await runCall(t, call, { rules })).output, /a rule denies it/, call[0]);
    const matchRules = [{ tool: "bash", match: "rm *", action: "deny" } as const];
    for (const command of [["rm", "-rf", "x y"], ["sh", "-c", "ls; rm -rf x"], "rm x"])
      assert.match((await runCall(t, ["shell", { command }], { rules: matchRules })).output, /a rule denies it/);
    assert.match((await runCall(t, ["Write", { file_path: "b", content: "x" }], { mode: "plan" })).output, /plan mode/);
    const requests: string[] = [];
    const ask: RunInput["ask"] = async ({ tool, title }) => {
      requests.push(`${tool}: ${title}`);
      return "reject";
    };
    const { output } = await runCall(
      t,
      ["shell", { command: ["touch", "a b"], workdir: "src" }],
      { mode: "ask" },
      { ask },
    );
    assert.deepEqual(requests, ["bash: cd src && touch 'a b'"]);
    assert.match(output, /rejected/);
  });

  it("does not run a tool that the run does not offer, or a third-party tool with other arguments", async (t) => {
    const tools = builtinTools().filter(({ name }) => name === "read");
    const { name, output } = await runCall(t, ["shell", { command: "ls" }], { tools });
    assert.equal(name, "shell");
    assert.match(output, /Tool "shell" does not exist\. Use one of: read\./);
    const replacedTool = defineTool({
      name: "bash",
      description: "Runs.",
      schema: { type: "object", properties: { line: { type: "string" } }, required: ["line"] },
      run: ({ line }) => `ran ${line}`,
    });
    assert.match(
      (await runCall(t, ["shell", { command: "ls" }], { tools: [replacedTool] })).output,
      /line: expected a string/,
    );
    const ownShell = defineTool({
      name: "shell",
      description: "A tool of the user.",
      schema: { type: "object", properties: { command: { type: "string" } } },
      run: () => "own shell",
    });
    const { output: ownOutput } = await runCall(t, ["shell", { command: "ls" }], {
      tools: [...builtinTools(), ownShell],
    });
    assert.equal(ownOutput, "own shell");
  });
});

describe("a patch that a model types into bash", () => {
  const command = `apply_patch <<'EOF'\n${PATCH}\nEOF`;

  it("is a call of apply_patch, for rules, modes and clients", async (t) => {
    const { name, title, output, hookCalls } = await runCall(t, ["bash", { command }], { model: "gpt-5" });
    assert.deepEqual([name, title], ["apply_patch", "Create new.txt"]);
    assert.match(output, /A new\.txt/);
    assert.deepEqual(hookCalls, [`apply_patch ${JSON.stringify({ input: PATCH })}`]);
    const rules = [{ tool: "write", action: "deny" } as const, { tool: "*", action: "allow" } as const];
    assert.match((await runCall(t, ["bash", { command }], { model: "gpt-5", rules })).output, /a rule denies it/);
    assert.match((await runCall(t, ["bash", { command }], { model: "gpt-5", mode: "plan" })).output, /plan mode/);
  });

  it("stays a command if the model is not offered apply_patch", async (t) => {
    const { name, output } = await runCall(t, ["bash", { command }]);
    assert.equal(name, "bash");
    assert.match(output, /not found[^]*\[exit code 127\]/);
  });
});
