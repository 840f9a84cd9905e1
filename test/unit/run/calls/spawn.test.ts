import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import {
  Agent,
  builtinTools,
  defineTool,
  hasCode,
  MemoryDriver,
  type AgentEvent,
  type AgentOptions,
  type AskRequest,
  type Run,
  type RunInput,
  type Session,
  type Tool,
  type ToolContext,
} from "gantry";
import {
  MemoryDocuments,
  type Subagent,
  type Model,
  type ModelRequest,
  type SpawnInput,
  type ToolSource,
} from "gantry/plugin";
import { callTools, say, ScriptedProvider, type ScriptedReply, type ScriptedStep } from "gantry/testing";
import { textOf } from "../../../../src/conversation/messages.js";
import { tempDir } from "../../../helpers/temp-dir.js";

/** One USD per thousand output tokens. The prompt costs nothing. */
const PRICED: Model = {
  id: "m",
  name: "M",
  ownedBy: "o",
  maxOutput: 4_000,
  contextWindow: 100_000,
  prices: { input: 0, output: 1000 },
};

type AnswerFunction = (request: ModelRequest, signal: AbortSignal) => ScriptedReply | Promise<ScriptedReply>;

/** A promise and the function that resolves it. */
function createSignal(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((resolvePromise) => (resolve = resolvePromise));
  return { promise, resolve };
}

const isSubagentRequest = ({ system }: ModelRequest): boolean => system.includes("You are a subagent");
/** The task of a subagent. */
const readTask = ({ messages }: ModelRequest): string => (messages[0] ? textOf(messages[0]) : "");
const readResults = ({ messages }: ModelRequest): string[] =>
  messages.filter(({ role }) => role === "tool").map((message) => textOf(message));

const makeChangeTool = (changedSessionIds: string[]): Tool =>
  defineTool({
    name: "change",
    description: "Changes something.",
    kind: "edit",
    describe: () => "Change it",
    run: (_, { sessionId }) => (changedSessionIds.push(sessionId), "changed"),
  });
const lookTool = defineTool({
  name: "look",
  description: "Looks.",
  kind: "read",
  describe: () => "Look at it",
  run: () => "seen",
});

interface TestAgents {
  agent: Agent;
  provider: ScriptedProvider;
  /** Ids of the sessions in which `change` ran. */
  changedSessionIds: string[];
}

/** An agent whose model answers the parent run from a script and the subagents from a function. */
async function makeAgents(
  t: TestContext,
  script: readonly ScriptedStep[],
  answerSubagent: AnswerFunction = () => "helped",
  options: Partial<AgentOptions> = {},
): Promise<TestAgents> {
  const steps = [...script];
  const changedSessionIds: string[] = [];
  const answer: ScriptedStep = async (request, signal) => {
    if (isSubagentRequest(request)) return answerSubagent(request, signal);
    const step = steps.shift() ?? "end";
    return typeof step === "function" ? step(request, signal) : step;
  };
  const provider = new ScriptedProvider([], { fallback: answer, models: [PRICED] });
  const { path } = await tempDir(t);
  const taskTool = builtinTools().find(({ name }) => name === "task");
  const tools = [makeChangeTool(changedSessionIds), lookTool, ...(taskTool ? [taskTool] : [])];
  const agent = new Agent({ providers: [provider], tools, projectDir: path, projectInstructions: false, ...options });
  t.after(() => agent.close());
  return { agent, provider, changedSessionIds };
}

const createTaskCall = (args: Record<string, unknown> = {}, id = "t1") =>
  ["task", { description: "Find it", prompt: "Find the thing.", ...args }, id] as const;

async function readEvents(run: Run): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  for await (const event of run) events.push(event);
  return events;
}

/** The results of the calls of a run, by call id. */
const mapResults = (events: readonly AgentEvent[]): Map<string, { output: string; failed: boolean }> =>
  new Map(events.flatMap((event) => (event.type === "tool_result" ? [[event.callId, event] as const] : [])));

async function listSubagents(agent: Agent, { sessionId }: Run): Promise<Session[]> {
  return (await agent.sessions.list({ spawnedBy: sessionId })).sessions;
}

describe("a subagent", { concurrency: 4 }, () => {
  it("has its own session, which refers to the parent run and call and is not in the session list", async (t) => {
    const { agent, provider } = await makeAgents(t, [callTools(createTaskCall())]);
    const titleUpdate = new Promise((resolve) => agent.on("session.updated", resolve));
    const run = await agent.run({ message: "go" });
    const results = mapResults(await readEvents(run));
    const [subagent] = await listSubagents(agent, run);
    assert.ok(subagent);
    assert.deepEqual(subagent.spawnedBy, { sessionId: run.sessionId, runId: run.id, callId: "t1" });
    assert.deepEqual([subagent.title, subagent.hasFinalTitle, subagent.parentId], ["Find it", true, ""]);
    assert.deepEqual(results.get("t1")?.output, `helped\n\n[subagent session ${subagent.id}]`);
    assert.equal(results.get("t1")?.failed, false);
    const sessionList = await agent.sessions.list();
    assert.deepEqual([sessionList.sessions.map(({ id }) => id), sessionList.total], [[run.sessionId], 1]);
    const messages = await agent.sessions.messages(subagent.id);
    assert.deepEqual(
      messages.map((message) => textOf(message)),
      ["Find the thing.", "helped"],
    );
    // The subagent has a context of its own, and no title is generated for its session.
    const [request] = provider.requests.filter(isSubagentRequest);
    assert.equal(request?.messages.length, 1);
    await titleUpdate;
    assert.equal(provider.titleRequests.length, 1);
  });

  it("is offered the parent's tools, or a requested subset of these, but never task or ask_user", async (t) => {
    const askTools = builtinTools().filter(({ name }) => name === "ask_user");
    const { agent, provider, changedSessionIds } = await makeAgents(
      t,
      [
        callTools(
          createTaskCall(),
          createTaskCall({ tools: ["look"] }, "t2"),
          createTaskCall({ read_only: true }, "t3"),
        ),
        callTools(createTaskCall({ tools: ["task"] }, "t4"), createTaskCall({ tools: ["look", "bash"] }, "t5")),
      ],
      (request) => (readTask(request) === "x" ? "y" : "helped"),
    );
    const tools = [...agent.tools, ...askTools];
    const run = await agent.run({ message: "go", tools, ask: async () => "allow", alwaysAsk: false });
    const results = mapResults(await readEvents(run));
    const parentRequest = provider.requests.find((request) => !isSubagentRequest(request));
    assert.deepEqual(
      parentRequest?.tools.map(({ name }) => name),
      ["ask_user", "change", "look", "task"],
    );
    const offeredToolNames = provider.requests
      .filter(isSubagentRequest)
      .map((request) => request.tools.map(({ name }) => name).join());
    assert.deepEqual(offeredToolNames.sort(), ["change,look", "look", "look"]);
    assert.match(results.get("t4")?.output ?? "", /expected a list with some of change, look/);
    assert.match(results.get("t5")?.output ?? "", /expected a list with some of change, look/);
    assert.deepEqual(changedSessionIds, []);
    assert.equal((await listSubagents(agent, run)).length, 3);
  });

  it("gets the instructions of the MCP servers whose tools it has", async (t) => {
    const createSource = (server: string): ToolSource => {
      const tool = defineTool({ name: `${server}__look`, description: "Looks.", kind: "read", run: () => "seen" });
      return {
        name: `mcp:${server}`,
        open: async () => ({
          tools: [{ ...tool, origin: `mcp:${server}/look` }],
          instructions: `Look at the ${server}.`,
          close: async () => undefined,
        }),
      };
    };
    const calls = callTools(createTaskCall(), createTaskCall({ tools: ["attic__look"] }, "t2"));
    const { agent, provider } = await makeAgents(t, [calls]);
    const tools = [...agent.tools, createSource("attic"), createSource("attic-2")];
    await (
      await agent.run({ message: "go", tools })
    ).result;
    const notes = provider.requests
      .filter(isSubagentRequest)
      .map(({ system }) => [...system.matchAll(/<instructions from="(\S+)">/g)].map(([, source]) => source).join());
    assert.deepEqual(notes.sort(), ["mcp:attic", "mcp:attic,mcp:attic-2"]);
  });

  it("reports each of its tool calls as a line of progress of the parent's task call", async (t) => {
    const progressReceived = createSignal();
    const { agent } = await makeAgents(t, [callTools(createTaskCall())], async (request) => {
      if (readResults(request).length === 0) return callTools(["look", {}, "l1"], ["change", {}, "c1"]);
      await progressReceived.promise;
      return "helped";
    });
    const callIds: string[] = [];
    let progressText = "";
    for await (const event of await agent.run({ message: "go" })) {
      if (event.type === "tool_call") callIds.push(event.callId);
      if (event.type !== "tool_progress") continue;
      assert.equal(event.callId, "t1");
      progressText += event.text;
      if (progressText === "Look at it\nChange it\n") progressReceived.resolve();
    }
    // Calls of the subagent stay in its run: the parent's reader sees one call only.
    assert.deepEqual(callIds, ["t1"]);
  });

  it("counts its usage in the parent run and session at once, and in its own session", async (t) => {
    const callUsage = { inputTokens: 100, outputTokens: 7 };
    let parentTokens: number | undefined;
    const { agent } = await makeAgents(
      t,
      [callTools(createTaskCall()), () => say("end", { inputTokens: 1, outputTokens: 1 })],
      async (request) => {
        if (readResults(request).length > 0) {
          const [storedRun] = await agent.runs.list({ sessionId: run.sessionId });
          parentTokens = storedRun?.usage.totalTokens;
          return say("helped", callUsage);
        }
        return callTools(["look", {}]).map((chunk) =>
          chunk.type === "finish" ? { ...chunk, usage: { ...chunk.usage, ...callUsage } } : chunk,
        );
      },
    );
    const run = await agent.run({ message: "go" });
    const { usage, sessionUsage } = await run.result;
    const [subagent] = await listSubagents(agent, run);
    assert.equal(subagent?.usage.totalTokens, 214);
    assert.equal(usage.totalTokens, 15 + 214 + 2);
    assert.deepEqual(sessionUsage, usage);
    assert.deepEqual((await agent.sessions.get(run.sessionId))?.usage, usage);
    assert.equal(
      parentTokens,
      15 + 107,
      "the parent run's usage includes the first model call before the second starts",
    );
  });

  it("ends at its own budget, and at the budget of the parent run", async (t) => {
    const callForever: AnswerFunction = () =>
      callTools(["look", {}]).map((chunk) =>
        chunk.type === "finish" ? { ...chunk, usage: { ...chunk.usage, inputTokens: 400 } } : chunk,
      );
    const limitedSubagent = await makeAgents(
      t,
      [callTools(createTaskCall({ budget: { tokens: 2_000 } }))],
      callForever,
    );
    const run = await limitedSubagent.agent.run({ message: "go" });
    const result = mapResults(await readEvents(run)).get("t1");
    assert.match(result?.output ?? "", /did not finish: it used its budget/);
    assert.equal(result?.failed, true);
    assert.equal((await run.result).endedBy, "model", "the parent run continues");

    const limitedParent = await makeAgents(t, [callTools(createTaskCall())], callForever);
    // The rest that the subagent leaves of this budget does not cover another call of the parent run.
    const limitedRun = await limitedParent.agent.run({ message: "go", budget: { tokens: 3_800 } });
    const { endedBy, usage } = await limitedRun.result;
    assert.equal(endedBy, "budget");
    assert.ok(usage.totalTokens <= 3_800, `${usage.totalTokens} tokens`);
    const [subagent] = await listSubagents(limitedParent.agent, limitedRun);
    assert.ok((subagent?.usage.totalTokens ?? 0) > 0);
  });

  it("shares the parent run's budget with parallel subagents, which together do not exceed it", async (t) => {
    // As many output tokens as allowed, so that a subagent uses all of its reservation.
    const useAllTokens: AnswerFunction = ({ maxTokens = 4_000 }) =>
      say("x".repeat(10), { inputTokens: 0, outputTokens: maxTokens });
    const taskCalls = ["a", "b", "c", "d", "e", "f"].map((id) => createTaskCall({ prompt: id }, id));
    const { agent } = await makeAgents(t, [callTools(...taskCalls)], useAllTokens);
    const run = await agent.run({ message: "go", budget: { usd: 10 } });
    const { usage } = await run.result;
    assert.ok(usage.cost > 9 && usage.cost <= 10, `${usage.cost} USD`);
    assert.equal((await listSubagents(agent, run)).length, 6);
  });

  it("has its own limit of model calls", async (t) => {
    let callCount = 0;
    const taskTools = builtinTools({ task: { maxIterations: 3 } }).filter(({ name }) => name === "task");
    const { agent } = await makeAgents(
      t,
      [callTools(createTaskCall())],
      () => callTools(["look", { n: (callCount += 1) }, `l${callCount}`]),
      {
        tools: [lookTool, ...taskTools],
      },
    );
    const run = await agent.run({ message: "go" });
    const result = mapResults(await readEvents(run)).get("t1");
    assert.match(result?.output ?? "", /it used its 3 model calls/);
    assert.equal(callCount, 3);
  });

  it("runs in parallel with seven others", async (t) => {
    let startedRequestCount = 0;
    const allStarted = createSignal();
    const taskCalls = Array.from({ length: 8 }, (_, n) => createTaskCall({ prompt: `p${n}` }, `t${n}`));
    const { agent } = await makeAgents(t, [callTools(...taskCalls)], async (request) => {
      if ((startedRequestCount += 1) === 8) allStarted.resolve();
      await allStarted.promise;
      return `done ${readTask(request)}`;
    });
    const results = mapResults(await readEvents(await agent.run({ message: "go" })));
    for (let n = 0; n < 8; n++) assert.match(results.get(`t${n}`)?.output ?? "", new RegExp(`^done p${n}\\n`));
  });

  it("is rejected with a failed tool result if no run slot is free", async (t) => {
    const { agent } = await makeAgents(
      t,
      [callTools(createTaskCall({}, "a"), createTaskCall({}, "b"), createTaskCall({}, "c"))],
      async () => "helped",
      {
        concurrentRuns: 2,
      },
    );
    const results = [...mapResults(await readEvents(await agent.run({ message: "go" }))).values()];
    const rejectedResults = results.filter(({ failed }) => failed);
    assert.equal(results.length, 3);
    assert.ok(
      rejectedResults.length >= 1 &&
        rejectedResults.every(({ output }) => output.startsWith("No subagent could start")),
    );
    assert.ok(results.some(({ output }) => output.startsWith("helped")));
  });

  it("is cancelled with the parent run, and has ended before it", async (t) => {
    const requestStarted = createSignal();
    const { agent } = await makeAgents(t, [callTools(createTaskCall())], () => {
      requestStarted.resolve();
      return { hang: true };
    });
    const cancelController = new AbortController();
    const run = await agent.run({ message: "go", signal: cancelController.signal });
    await requestStarted.promise;
    const [subagent] = await listSubagents(agent, run);
    cancelController.abort();
    await assert.rejects(run.result, { code: "run_cancelled" });
    const [storedRun] = await agent.runs.list({ sessionId: subagent!.id });
    assert.equal(storedRun?.state, "cancelled");
    assert.equal(await agent.sessions.isRunning(subagent!.id), false);
  });

  it("can be cancelled alone, and the parent run continues", async (t) => {
    const requestStarted = createSignal();
    const { agent } = await makeAgents(t, [callTools(createTaskCall())], () => {
      requestStarted.resolve();
      return { hang: true };
    });
    const run = await agent.run({ message: "go" });
    await requestStarted.promise;
    const [subagent] = await listSubagents(agent, run);
    const [storedRun] = await agent.runs.list({ sessionId: subagent!.id });
    await agent.runs.cancel(storedRun!.id);
    const result = mapResults(await readEvents(run)).get("t1");
    assert.match(result?.output ?? "", /^A user cancelled the subagent/);
    assert.equal((await run.result).output, "end");
  });

  it("is deleted with the parent session while it runs", async (t) => {
    const store = new MemoryDocuments();
    const requestStarted = createSignal();
    const hangForever: AnswerFunction = () => {
      requestStarted.resolve();
      return { hang: true };
    };
    const { agent } = await makeAgents(t, [callTools(createTaskCall())], hangForever, {
      driver: new MemoryDriver(store),
    });
    const run = await agent.run({ message: "go" });
    await requestStarted.promise;
    const [subagent] = await listSubagents(agent, run);
    const deletedIds: string[] = [];
    agent.on("session.deleted", ({ ids }) => deletedIds.push(...ids));
    await agent.sessions.delete(run.sessionId);
    assert.deepEqual(deletedIds, [run.sessionId, subagent!.id]);
    assert.equal(await agent.sessions.get(subagent!.id), undefined);
    await assert.rejects(run.result);
    assert.deepEqual(await store.scan(["session/"]), []);
  });

  it("is deleted after another driver has deleted the parent session only", async (t) => {
    const store = new MemoryDocuments();
    const requestStarted = createSignal();
    const hangForever: AnswerFunction = () => {
      requestStarted.resolve();
      return { hang: true };
    };
    const { agent } = await makeAgents(t, [callTools(createTaskCall())], hangForever, {
      driver: new MemoryDriver(store),
    });
    const run = await agent.run({ message: "go" });
    await requestStarted.promise;
    const secondDriver = new MemoryDriver(store);
    await secondDriver.open();
    await secondDriver.delete([run.sessionId]);
    await assert.rejects(run.result);
    await agent.close();
    assert.deepEqual(await store.scan(["session/"]), []);
  });

  it("is cancelled when the tool call that spawned it ends without waiting for it", async (t) => {
    let subagent: Subagent | undefined;
    const carelessTool = defineTool({
      name: "careless",
      description: "Asks for help and does not wait for it.",
      run: async (_, context) => {
        subagent = await context.spawn({ title: "T", message: "M" });
        return "done";
      },
    });
    const { agent } = await makeAgents(t, [callTools(["careless", {}, "c"])], () => ({ hang: true }), {
      tools: [carelessTool, lookTool],
    });
    const run = await agent.run({ message: "go" });
    const results = mapResults(await readEvents(run));
    assert.equal(results.get("c")?.output, "done");
    await assert.rejects(subagent!.result, { code: "run_cancelled" });
    assert.equal(await agent.sessions.isRunning(subagent!.sessionId), false);
  });

  it("leaves no background command running", async (t) => {
    const tools = builtinTools({ bash: { sandbox: "off" } }).filter(({ name }) => /^bash|^task$/.test(name));
    const backgroundCommands = tools.find(({ background }) => background)?.background;
    let runningCommands: readonly unknown[] = [];
    const { agent } = await makeAgents(
      t,
      [callTools(createTaskCall())],
      async (request) => {
        const [startResult] = readResults(request);
        if (startResult === undefined) return callTools(["bash", { command: "sleep 1000", background: true }]);
        const [subagent] = await listSubagents(agent, run);
        runningCommands = (await backgroundCommands?.list(subagent!.id)) ?? [];
        return "helped";
      },
      { tools },
    );
    const run = await agent.run({ message: "go" });
    await run.result;
    const [subagent] = await listSubagents(agent, run);
    assert.equal(runningCommands.length, 1);
    assert.deepEqual(await backgroundCommands?.list(subagent!.id), []);
  });

  it("is rejected with the name of the field if the spawn input is invalid", async (t) => {
    const invalidInputs: unknown[] = [
      { title: "T", message: "" },
      { title: " ", message: "M" },
      { title: "T", message: "M", maxIterations: 0 },
      { title: "T", message: "M", budget: { usd: -1 } },
      { title: "T", message: "M", tools: ["asks"] },
      { title: "T", message: "M", tools: "look" },
    ];
    const errorMessages: string[] = [];
    const askTool = defineTool({
      name: "asks",
      description: "Asks.",
      run: async (_, context) => {
        for (const input of invalidInputs)
          await context.spawn(input as SpawnInput).catch((error: unknown) => {
            if (hasCode(error, "invalid_input")) errorMessages.push(error.message);
          });
        return "done";
      },
    });
    const { agent } = await makeAgents(t, [callTools(["asks", {}, "c"])], () => "no", { tools: [askTool, lookTool] });
    const run = await agent.run({ message: "go" });
    await run.result;
    assert.deepEqual(
      errorMessages.map((refusal) => refusal.split(":")[0]),
      ["message", "title", "maxIterations", "budget.usd", "tools", "tools"],
    );
    assert.deepEqual(await listSubagents(agent, run), []);
  });

  it("obeys the permission rules and the mode of the parent session, also a mode that changes meanwhile", async (t) => {
    const rules = [{ tool: "change", action: "deny", reason: "not that" }] as const;
    const callChangeOnce: AnswerFunction = (request) =>
      readResults(request).length === 0 ? callTools(["change", {}, "c1"]) : readResults(request).join();
    const ruledAgents = await makeAgents(t, [callTools(createTaskCall())], callChangeOnce, { rules });
    const results = mapResults(await readEvents(await ruledAgents.agent.run({ message: "go" })));
    assert.match(results.get("t1")?.output ?? "", /not allowed: not that/);

    const planAgents = await makeAgents(t, [callTools(createTaskCall())], callChangeOnce);
    const planResults = mapResults(await readEvents(await planAgents.agent.run({ message: "go", mode: "plan" })));
    assert.match(planResults.get("t1")?.output ?? "", /plan mode/);

    const { agent, changedSessionIds } = await makeAgents(t, [callTools(createTaskCall())], async (request) => {
      const resultCount = readResults(request).length;
      if (resultCount === 1) await agent.sessions.update(run.sessionId, { mode: "plan" });
      if (resultCount === 2) await agent.sessions.update(run.sessionId, { mode: "auto" });
      return resultCount < 3 ? callTools(["change", {}, `c${resultCount}`]) : readResults(request).join("|");
    });
    const run = await agent.run({ message: "go" });
    const [firstResult, secondResult, thirdResult] = (mapResults(await readEvents(run)).get("t1")?.output ?? "").split(
      "|",
    );
    assert.equal(firstResult, "changed");
    assert.match(secondResult ?? "", /plan mode/);
    assert.match(thirdResult ?? "", /^changed/);
    const [subagent] = await listSubagents(agent, run);
    assert.deepEqual(changedSessionIds, [subagent!.id, subagent!.id]);
  });

  it("sends its permission requests to the parent's client, and shares an allow_always grant with the parent", async (t) => {
    const callChangeOnce: AnswerFunction = (request) =>
      readResults(request).length === 0 ? callTools(["change", {}, "c1"]) : readResults(request).join();
    const { agent, changedSessionIds } = await makeAgents(
      t,
      [callTools(createTaskCall()), callTools(["change", {}, "own"]), callTools(createTaskCall({}, "t2"))],
      callChangeOnce,
    );
    const requests: AskRequest[] = [];
    const states: (string | undefined)[] = [];
    const ask: RunInput["ask"] = async (request) => {
      requests.push(request);
      const [subagent] = (await agent.sessions.list({ spawnedBy: run.sessionId })).sessions;
      for (const id of [run.sessionId, subagent!.id]) states.push((await agent.runs.list({ sessionId: id }))[0]?.state);
      return "allow_always";
    };
    const run = await agent.run({ message: "go", ask });
    const results = mapResults(await readEvents(run));
    assert.equal(requests.length, 1);
    assert.deepEqual(
      requests.map(({ callId, tool, title, kind }) => ({ callId, tool, title, kind })),
      [{ callId: "t1", tool: "change", title: "Find it: Change it", kind: "edit" }],
    );
    assert.deepEqual(states, ["waiting", "waiting"]);
    assert.match(results.get("t1")?.output ?? "", /^changed/);
    assert.equal(changedSessionIds.length, 3, "neither the parent nor another subagent opens a second request");
    const [storedAsk] = await agent.asks.list({ sessionId: run.sessionId });
    assert.deepEqual([storedAsk?.title, storedAsk?.callId, storedAsk?.state], ["Find it: Change it", "t1", "answered"]);
  });

  it("withdraws its permission request when it is cancelled, and the parent run finishes", async (t) => {
    const requestOpened = createSignal();
    const { agent } = await makeAgents(t, [callTools(createTaskCall())], () => callTools(["change", {}, "c1"]));
    const ask: RunInput["ask"] = (_, signal) =>
      new Promise((_, reject) => {
        requestOpened.resolve();
        signal.addEventListener("abort", () => reject(new Error("gone")), { once: true });
      });
    const run = await agent.run({ message: "go", ask });
    await requestOpened.promise;
    const [subagent] = await listSubagents(agent, run);
    const [storedRun] = await agent.runs.list({ sessionId: subagent!.id });
    await agent.runs.cancel(storedRun!.id);
    assert.match(mapResults(await readEvents(run)).get("t1")?.output ?? "", /cancelled the subagent/);
    assert.deepEqual(
      (await agent.asks.list({ sessionId: run.sessionId })).map(({ state }) => state),
      ["withdrawn"],
    );
    assert.equal((await agent.runs.list({ sessionId: run.sessionId }))[0]?.state, "finished");
  });

  it("cannot be spawned by a tool call that has ended", async (t) => {
    let endedContext: ToolContext | undefined;
    const contextTool: Tool = {
      ...lookTool,
      run: (_, context) => ((endedContext = context), Promise.resolve({ text: "seen" })),
    };
    const provider = new ScriptedProvider([callTools(["look", {}]), say("done")]);
    const agent = new Agent({ providers: [provider], tools: [contextTool] });
    t.after(() => agent.close());
    const run = await agent.run({ message: "go" });
    await run.result;
    await assert.rejects(async () => endedContext?.spawn({ message: "late", title: "late" }), {
      code: "run_cancelled",
    });
    assert.deepEqual(await listSubagents(agent, run), []);
  });

  it("is interrupted if its process dies, its tool call fails, and both sessions can continue", async (t) => {
    const store = new MemoryDocuments();
    const requestStarted = createSignal();
    const crashedAgents = await makeAgents(
      t,
      [callTools(createTaskCall())],
      () => {
        requestStarted.resolve();
        return { hang: true };
      },
      { driver: new MemoryDriver(store) },
    );
    const run = await crashedAgents.agent.run({ message: "go" });
    await requestStarted.promise;
    // Simulates a crash: copies the current data to another store.
    const copiedStore = new MemoryDocuments();
    const [subagent] = await listSubagents(crashedAgents.agent, run);
    const [sourceDriver, targetDriver] = [new MemoryDriver(store), new MemoryDriver(copiedStore)];
    for (const driver of [sourceDriver, targetDriver]) await driver.open();
    for (const id of [run.sessionId, subagent!.id]) await targetDriver.load((await sourceDriver.dump(id))!);
    const { agent } = await makeAgents(t, ["again"], () => "by a person", { driver: new MemoryDriver(copiedStore) });
    assert.equal((await agent.runs.list({ sessionId: subagent!.id }))[0]?.state, "interrupted");
    assert.equal((await (await agent.run({ message: "on", sessionId: run.sessionId })).result).output, "again");
    const toolMessage = (await agent.sessions.messages(run.sessionId)).find(({ role }) => role === "tool");
    assert.equal(toolMessage?.failed, true);
    // A user can continue the subagent's session. It stays a subagent session of its parent.
    await (
      await agent.run({ message: "and you", sessionId: subagent!.id })
    ).result;
    assert.deepEqual((await agent.sessions.get(subagent!.id))?.spawnedBy, subagent!.spawnedBy);
  });

  it("becomes an ordinary session without spawnedBy, in the session list, if its session is forked", async (t) => {
    const { agent } = await makeAgents(t, [callTools(createTaskCall())]);
    const run = await agent.run({ message: "go" });
    await run.result;
    const [subagent] = await listSubagents(agent, run);
    const fork = await agent.sessions.fork(subagent!.id, (await agent.sessions.messages(subagent!.id))[1]!.id);
    assert.equal(fork.spawnedBy, null, "a fork has no parent run");
    assert.deepEqual((await agent.sessions.list()).total, 2);
  });
});
