import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools, type Tool } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { callTools, say, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { collectState } from "../../../../src/conversation/conversation.js";
import { CallState } from "../../../../src/run/tools/tool-state.js";
import { STORES } from "../../../helpers/stores.js";
import { tempDir } from "../../../helpers/temp-dir.js";

/** The outputs of the tools in a run of these steps. */
async function readOutputs(
  driver: SessionDriver,
  projectDir: string,
  steps: readonly ScriptedStep[],
  sessionId?: string,
): Promise<{ sessionId: string; texts: string[] }> {
  const agent = new Agent({ providers: [new ScriptedProvider(steps)], driver, projectDir, tools: builtinTools() });
  try {
    const run = await agent.run({ message: "x", ...(sessionId === undefined ? {} : { sessionId }) });
    const texts: string[] = [];
    for await (const event of run) if (event.type === "tool_result") texts.push(event.output);
    await run.result;
    return { sessionId: run.sessionId, texts };
  } finally {
    await agent.close();
  }
}

describe("the stored state of a session's tools", () => {
  for (const [name, makeStore] of STORES) {
    it(`is available in another process (${name})`, async (t) => {
      const openDriver = await makeStore(t);
      const folder = await tempDir(t, { "a.txt": "one\n", "b.txt": "one\n" });
      const todos = [{ content: "read it", status: "pending" }];
      const { sessionId } = await readOutputs(openDriver(), folder.path, [
        callTools(["todowrite", { todos }], ["read", { path: "a.txt" }], ["read", { path: "b.txt" }]),
        say("ok"),
      ]);
      await folder.write({ "a.txt": "changed by somebody\n" });
      const secondRun = await readOutputs(
        openDriver(),
        folder.path,
        [
          callTools(
            ["todoread", {}],
            ["write", { path: "a.txt", content: "two\n" }],
            ["write", { path: "b.txt", content: "two\n" }],
          ),
          say("ok"),
        ],
        sessionId,
      );
      assert.equal(secondRun.texts[0], "[ ] read it");
      assert.match(secondRun.texts[1]!, /changed/);
      assert.equal(await folder.read("a.txt"), "changed by somebody\n");
      assert.equal(await folder.read("b.txt"), "two\n");
    });
  }

  it("is available after compactions and after runs of 260 other sessions", async (t) => {
    const todos = [{ content: "mind me", status: "pending" }];
    const longText = "word ".repeat(400);
    const provider = new ScriptedProvider([callTools(["todowrite", { todos }]), say("ok")], {
      models: [{ id: "m", name: "m", ownedBy: "x", contextWindow: 4_000 }],
    });
    const agent = new Agent({ providers: [provider], tools: builtinTools().filter(({ name }) => /todo/.test(name)) });
    t.after(() => agent.close());
    let compactionCount = 0;
    agent.on("session.compacted", () => (compactionCount += 1));
    const { sessionId, result } = await agent.run({ message: "x" });
    await result;
    for (let n = 0; n < 40; n++) await (await agent.run({ message: longText, sessionId })).result;
    assert.ok(compactionCount > 0);
    for (let n = 0; n < 260; n++) await (await agent.run({ message: `other ${n}` })).result;
    provider.push(callTools(["todoread", {}]), say("ok"));
    const run = await agent.run({ message: "x", sessionId });
    const texts: string[] = [];
    for await (const event of run) if (event.type === "tool_result") texts.push(event.output);
    assert.deepEqual(texts, ["[ ] mind me"]);
  });

  for (const [name, makeStore] of STORES) {
    it(`includes the changes of another process and of a revert (${name})`, async (t) => {
      const openDriver = await makeStore(t);
      const createListStep = (content: string) => callTools(["todowrite", { todos: [{ content, status: "pending" }] }]);
      const tools = builtinTools().filter(({ name }) => /todo/.test(name));
      const [firstProvider, secondProvider] = [
        new ScriptedProvider([createListStep("mine"), say("ok")]),
        new ScriptedProvider([]),
      ];
      const agents = [firstProvider, secondProvider].map(
        (provider) => new Agent({ providers: [provider], driver: openDriver(), tools }),
      );
      t.after(() => Promise.all(agents.map((agent) => agent.close())));
      const [firstAgent, secondAgent] = agents as [Agent, Agent];
      const firstRun = await firstAgent.run({ message: "x" });
      await firstRun.result;
      const { sessionId } = firstRun;
      secondProvider.push(createListStep("theirs"), say("ok"));
      await (
        await secondAgent.run({ message: "y", sessionId })
      ).result;
      const readTodos = async () => {
        firstProvider.push(callTools(["todoread", {}]), say("ok"));
        const run = await firstAgent.run({ message: "read", sessionId });
        const texts: string[] = [];
        for await (const event of run) if (event.type === "tool_result") texts.push(event.output);
        return texts;
      };
      assert.deepEqual(await readTodos(), ["[ ] theirs"]);
      const messages = await firstAgent.sessions.messages(sessionId);
      const prompts = messages.filter(({ role }) => role === "user");
      await firstAgent.sessions.revert(sessionId, messages[messages.indexOf(prompts[1]!) - 1]!.id);
      assert.deepEqual(await readTodos(), ["[ ] mine"]);
    });
  }

  it("accepts JSON values only, and no permission grants", () => {
    const sharedState = new Map<string, unknown>([["old", 1]]);
    const state = new CallState(sharedState);
    state
      .set("list", [{ a: 1 }])
      .set("map", new Map())
      .set("date", new Date())
      .set("leave:bash", true);
    state.delete("old");
    assert.equal(sharedState.size, 4);
    assert.deepEqual([...state.keys()], [...sharedState.keys()]);
    assert.deepEqual(state.collectChanges(), { list: [{ a: 1 }], old: null });
    const data = { "leave:bash": true, list: [1], gone: null };
    const opaque = { provider: "gantry", model: "tool state", data };
    const message = {
      ...{ id: "m", sessionId: "s", seq: 1, createdAt: "", finished: true, toolCallId: "c", name: "t", failed: false },
      role: "tool" as const,
      parts: [{ type: "text" as const, text: "x", opaque }],
    };
    assert.deepEqual([...collectState([message])], [["list", [1]]]);
    assert.deepEqual([...collectState([{ ...message, role: "user" }])], []);
  });

  it("is not sent to the model", async (t) => {
    const statefulTool: Tool = {
      ...{ name: "t", description: "t", inputSchema: { type: "object" }, kind: "other", parallel: false },
      needsPermission: false,
      parse: (input) => input as unknown,
      describe: () => ({ title: "t", locations: [] }),
      run: (_, { state }) => Promise.resolve({ text: `was ${String(state.get("n"))}`, ...(state.set("n", 1) && {}) }),
    };
    const provider = new ScriptedProvider([callTools(["t", {}], ["t", {}]), say("ok")]);
    const agent = new Agent({ providers: [provider], tools: [statefulTool] });
    t.after(() => agent.close());
    await (
      await agent.run({ message: "x" })
    ).result;
    assert.deepEqual(
      provider.requests[1]?.messages.slice(2).map(({ parts }) => parts),
      [[{ type: "text", text: "was undefined" }], [{ type: "text", text: "was 1" }]],
    );
  });
});
