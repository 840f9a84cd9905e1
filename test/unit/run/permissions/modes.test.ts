import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  Agent,
  builtinTools,
  defineTool,
  MemoryDriver,
  type AgentOptions,
  type RunInput,
  type SessionMode,
  type ToolKind,
} from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { tempDir, type Hooks } from "../../../helpers/temp-dir.js";

const KINDS: readonly ToolKind[] = ["read", "edit", "delete", "search", "execute", "fetch", "think", "other"];

/** The results of tools of each kind in a session with this mode, and the kinds that ran. */
async function runTools(
  t: Hooks,
  mode: SessionMode,
  input: Partial<RunInput> = {},
  beforeFourthCall?: (agent: Agent, id: string) => Promise<void>,
) {
  const toolsRun: string[] = [];
  const tools = KINDS.map((kind) =>
    defineTool({ name: kind, description: kind, kind, run: () => (toolsRun.push(kind), "done") }),
  );
  const folder = await tempDir(t);
  const calls = KINDS.map((kind) => callTools([kind, {}, `call-${kind}`]));
  let callCount = 0;
  const steps: ScriptedStep[] = calls.map((call) => async () => {
    if ((callCount += 1) === 4) await beforeFourthCall?.(agent, session.id);
    return call;
  });
  const agent = new Agent({ providers: [new ScriptedProvider([...steps, "end"])], tools, projectDir: folder.path });
  t.after(() => agent.close());
  const session = await agent.sessions.create();
  await agent.sessions.update(session.id, { mode });
  const outputsByTool = new Map<string, string>();
  for await (const event of await agent.run({ message: "x", sessionId: session.id, ...input }))
    if (event.type === "tool_result") outputsByTool.set(event.name, event.output);
  return { toolsRun, outputsByTool };
}

describe("the session mode", () => {
  it('"auto" runs tools of every kind', async (t) => {
    assert.deepEqual((await runTools(t, "auto")).toolsRun, KINDS);
  });

  it('"ask" denies tools that need permission if there is no client, and otherwise asks the client', async (t) => {
    const { toolsRun, outputsByTool } = await runTools(t, "ask");
    assert.deepEqual(toolsRun, ["read", "search", "think"]);
    assert.match(outputsByTool.get("edit")!, /no client could answer/);
    const requestedTools: string[] = [];
    const ask: RunInput["ask"] = ({ tool }) => (
      requestedTools.push(tool),
      Promise.resolve(tool === "fetch" ? "reject" : "allow")
    );
    const attendedOutcome = await runTools(t, "ask", { ask });
    assert.deepEqual(requestedTools, ["edit", "delete", "execute", "fetch", "other"]);
    assert.deepEqual(
      attendedOutcome.toolsRun,
      KINDS.filter((kind) => kind !== "fetch"),
    );
  });

  it('"auto" does not ask a client with alwaysAsk: false, and a mode change counts from the next call on', async (t) => {
    const requestedTools: string[] = [];
    const ask: RunInput["ask"] = ({ tool }) => (requestedTools.push(tool), Promise.resolve("allow"));
    const autoOutcome = await runTools(t, "auto", { ask, alwaysAsk: false });
    assert.deepEqual([requestedTools, autoOutcome.toolsRun], [[], KINDS]);
    const toAutoOutcome = await runTools(t, "ask", { ask, alwaysAsk: false }, async (agent, id) => {
      await agent.sessions.update(id, { mode: "auto" });
    });
    assert.deepEqual([requestedTools.splice(0), toAutoOutcome.toolsRun], [["edit", "delete"], KINDS]);
    const toAskOutcome = await runTools(t, "auto", { ask, alwaysAsk: false }, async (agent, id) => {
      await agent.sessions.update(id, { mode: "ask" });
    });
    assert.deepEqual([requestedTools, toAskOutcome.toolsRun], [["execute", "fetch", "other"], KINDS]);
  });

  it('"plan" denies edit, delete, execute and other tools, even if the client allows them', async (t) => {
    const { toolsRun, outputsByTool } = await runTools(t, "plan", { ask: () => Promise.resolve("allow_always") });
    assert.deepEqual(toolsRun, ["read", "search", "fetch", "think"]);
    for (const kind of ["edit", "delete", "execute", "other"]) assert.match(outputsByTool.get(kind)!, /plan mode/);
  });

  it("applies from the next call on when it changes during a run", async (t) => {
    const { toolsRun } = await runTools(t, "auto", {}, async (agent, id) => {
      await agent.sessions.update(id, { mode: "plan" });
    });
    assert.deepEqual(toolsRun, ["read", "edit", "delete", "search", "think"]);
  });

  it('"plan" denies the built-in tools bash, write, edit and delete, and allows read', async (t) => {
    const folder = await tempDir(t, { "a.txt": "a" });
    const calls = [
      callTools(["bash", { command: "echo x > b.txt; rm a.txt" }]),
      callTools(["write", { path: "b.txt", content: "b" }]),
      callTools(["edit", { path: "a.txt", old_string: "a", new_string: "b" }]),
      callTools(["delete", { path: "a.txt" }]),
      callTools(["read", { path: "a.txt" }]),
    ];
    const tools = builtinTools();
    const agent = new Agent({ providers: [new ScriptedProvider([...calls, "end"])], tools, projectDir: folder.path });
    t.after(() => agent.close());
    const outputs: string[] = [];
    for await (const event of await agent.run({ message: "x", mode: "plan" }))
      if (event.type === "tool_result") outputs.push(event.output);
    for (const output of outputs.slice(0, 4)) assert.match(output, /plan mode/);
    assert.match(outputs[4]!, /a/);
    assert.equal(await folder.read("a.txt"), "a");
    await assert.rejects(folder.read("b.txt"));
  });
});

describe("a mode change while a call waits", () => {
  /** The result of a call if plan mode starts while the call waits. */
  async function runWithModeSwitch(
    t: Hooks,
    options: (switchToPlan: () => Promise<void>) => Partial<AgentOptions & RunInput>,
  ) {
    const toolsRun: string[] = [];
    const act = defineTool({ name: "act", description: "x", kind: "edit", run: () => (toolsRun.push("act"), "done") });
    const store = new MemoryDocuments();
    const secondAgent = new Agent({ driver: new MemoryDriver(store), providers: [new ScriptedProvider([])] });
    t.after(() => secondAgent.close());
    let id = "";
    const switchToPlan = async () => void (await secondAgent.sessions.update(id, { mode: "plan" }));
    const { ask, ...agentOptions } = options(switchToPlan);
    const provider = new ScriptedProvider([callTools(["act", {}, "a"]), "end"]);
    const agent = new Agent({ driver: new MemoryDriver(store), providers: [provider], tools: [act], ...agentOptions });
    t.after(() => agent.close());
    ({ id } = await agent.sessions.create());
    const outputs: string[] = [];
    for await (const event of await agent.run({ message: "x", sessionId: id, ...(ask && { ask }) }))
      if (event.type === "tool_result") outputs.push(event.output);
    return { toolsRun, outputs };
  }

  it("applies to a call that the client has allowed meanwhile", async (t) => {
    const { toolsRun, outputs } = await runWithModeSwitch(t, (switchToPlan) => ({
      ask: () => switchToPlan().then(() => "allow"),
    }));
    assert.deepEqual(toolsRun, []);
    assert.match(outputs[0]!, /plan mode/);
  });

  it("applies to a call that a hook or a policy has delayed", async (t) => {
    for (const delay of ["hook", "policy"] as const) {
      const { toolsRun, outputs } = await runWithModeSwitch(t, (switchToPlan) =>
        delay === "hook"
          ? { hooks: { beforeToolCall: switchToPlan } }
          : { permissions: { name: "slow", judge: () => switchToPlan().then(() => ({ action: "allow" })) } },
      );
      assert.deepEqual(toolsRun, [], delay);
      assert.match(outputs[0]!, /plan mode/);
    }
  });

  it("applies as plan mode if the stored mode is unknown", async (t) => {
    const store = new MemoryDocuments();
    const driver = new MemoryDriver(store);
    const { toolsRun, outputs } = await runWithModeSwitch(t, () => ({
      ask: () => Promise.resolve("allow"),
      permissions: {
        name: "odd",
        judge: async ({ sessionId }) => {
          await driver
            .write(sessionId, { fence: null, sync: false, set: { mode: "yolo" as never } })
            .catch(() => undefined);
          return { action: "allow" };
        },
      },
      driver,
    }));
    assert.deepEqual([toolsRun, /plan mode/.test(outputs[0]!)], [[], true]);
  });
});

it("the agent's mode applies to new sessions, and a run's mode to its session", async (t) => {
  const agent = new Agent({ providers: [new ScriptedProvider([])], mode: "ask" });
  t.after(() => agent.close());
  const run = await agent.run({ message: "x" });
  await run.result;
  assert.equal((await agent.sessions.get(run.sessionId))?.mode, "ask");
  assert.equal((await agent.sessions.create()).mode, "ask");
  const planRun = await agent.run({ message: "x", mode: "plan" });
  await planRun.result;
  assert.equal((await agent.sessions.get(planRun.sessionId))?.mode, "plan");
  assert.throws(() => new Agent({ providers: [new ScriptedProvider([])], mode: "free" as never }), { field: "mode" });
});
