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
import { MemoryDocuments, type Subagent, type Model, type ModelRequest, type SpawnInput } from "gantry/plugin";
import { callTools, say, ScriptedProvider, type ScriptedReply, type ScriptedStep } from "gantry/testing";
import { textOf } from "../../../../src/conversation/messages.js";
import { tempDir } from "../../../helpers/temp.js";

/** One USD per thousand output tokens. The prompt costs nothing. */
const PRICED: Model = {
  id: "m",
  name: "M",
  ownedBy: "o",
  maxOutput: 4_000,
  contextWindow: 100_000,
  prices: { input: 0, output: 1000 },
};

type Answers = (request: ModelRequest, signal: AbortSignal) => ScriptedReply | Promise<ScriptedReply>;

/** A promise and the function that resolves it. */
function opening(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((open) => (resolve = open));
  return { promise, resolve };
}

const isSubagentRequest = ({ system }: ModelRequest): boolean => system.includes("You are a subagent");
/** The task of a subagent. */
const taskOf = ({ messages }: ModelRequest): string => (messages[0] ? textOf(messages[0]) : "");
const resultsIn = ({ messages }: ModelRequest): string[] =>
  messages.filter(({ role }) => role === "tool").map((message) => textOf(message));

const makeChangeTool = (ran: string[]): Tool =>
  defineTool({
    name: "change",
    description: "Changes something.",
    kind: "edit",
    describe: () => "Change it",
    run: (_, { sessionId }) => (ran.push(sessionId), "changed"),
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
  ran: string[];
}

/** An agent whose model answers the parent run from a script and the subagents from a function. */
async function makeAgents(
  t: TestContext,
  script: readonly ScriptedStep[],
  answerSubagent: Answers = () => "helped",
  options: Partial<AgentOptions> = {},
): Promise<TestAgents> {
  const steps = [...script];
  const ran: string[] = [];
  const answer: ScriptedStep = async (request, signal) => {
    if (isSubagentRequest(request)) return answerSubagent(request, signal);
    const step = steps.shift() ?? "end";
    return typeof step === "function" ? step(request, signal) : step;
  };
  const provider = new ScriptedProvider([], { fallback: answer, models: [PRICED] });
  const { path } = await tempDir(t);
  const task = builtinTools().find(({ name }) => name === "task");
  const tools = [makeChangeTool(ran), lookTool, ...(task ? [task] : [])];
  const agent = new Agent({ providers: [provider], tools, projectDir: path, projectInstructions: false, ...options });
  t.after(() => agent.close());
  return { agent, provider, ran };
}

const task = (args: Record<string, unknown> = {}, id = "t1") =>
  ["task", { description: "Find it", prompt: "Find the thing.", ...args }, id] as const;

async function eventsOf(run: Run): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  for await (const event of run) events.push(event);
  return events;
}

/** The results of the calls of a run, by call id. */
const resultsOf = (events: readonly AgentEvent[]): Map<string, { output: string; failed: boolean }> =>
  new Map(events.flatMap((event) => (event.type === "tool_result" ? [[event.callId, event] as const] : [])));

async function subagentsOf(agent: Agent, { sessionId }: Run): Promise<Session[]> {
  return (await agent.sessions.list({ spawnedBy: sessionId })).sessions;
}

describe("a subagent", { concurrency: 4 }, () => {
  it("has its own session, which refers to the parent run and call and is not in the session list", async (t) => {
    const { agent, provider } = await makeAgents(t, [callTools(task())]);
    const titled = new Promise((resolve) => agent.on("session.updated", resolve));
    const run = await agent.run({ message: "go" });
    const results = resultsOf(await eventsOf(run));
    const [subagent] = await subagentsOf(agent, run);
    assert.ok(subagent);
    assert.deepEqual(subagent.spawnedBy, { sessionId: run.sessionId, runId: run.id, callId: "t1" });
    assert.deepEqual([subagent.title, subagent.hasFinalTitle, subagent.parentId], ["Find it", true, ""]);
    assert.deepEqual(results.get("t1")?.output, `helped\n\n[subagent session ${subagent.id}]`);
    assert.equal(results.get("t1")?.failed, false);
    const listed = await agent.sessions.list();
    assert.deepEqual([listed.sessions.map(({ id }) => id), listed.total], [[run.sessionId], 1]);
    const messages = await agent.sessions.messages(subagent.id);
    assert.deepEqual(
      messages.map((message) => textOf(message)),
      ["Find the thing.", "helped"],
    );
    // The subagent has a context of its own, and no title is generated for its session.
    const [request] = provider.requests.filter(isSubagentRequest);
    assert.equal(request?.messages.length, 1);
    await titled;
    assert.equal(provider.titleRequests.length, 1);
  });

  it("is offered the parent's tools, or a requested subset of these, but never task or ask_user", async (t) => {
    const asking = builtinTools().filter(({ name }) => name === "ask_user");
    const { agent, provider, ran } = await makeAgents(
      t,
      [
        callTools(task(), task({ tools: ["look"] }, "t2"), task({ read_only: true }, "t3")),
        callTools(task({ tools: ["task"] }, "t4"), task({ tools: ["look", "bash"] }, "t5")),
      ],
      (request) => (taskOf(request) === "x" ? "y" : "helped"),
    );
    const tools = [...agent.tools, ...asking];
    const run = await agent.run({ message: "go", tools, ask: async () => "allow", alwaysAsk: false });
    const results = resultsOf(await eventsOf(run));
    const parentRequest = provider.requests.find((request) => !isSubagentRequest(request));
    assert.deepEqual(
      parentRequest?.tools.map(({ name }) => name),
      ["ask_user", "change", "look", "task"],
    );
    const offered = provider.requests
      .filter(isSubagentRequest)
      .map((request) => request.tools.map(({ name }) => name).join());
    assert.deepEqual(offered.sort(), ["change,look", "look", "look"]);
    assert.match(results.get("t4")?.output ?? "", /expected a list with some of change, look/);
    assert.match(results.get("t5")?.output ?? "", /expected a list with some of change, look/);
    assert.deepEqual(ran, []);
    assert.equal((await subagentsOf(agent, run)).length, 3);
  });

  it("reports each of its tool calls as a line of progress of the parent's task call", async (t) => {
    const progressReceived = opening();
    const { agent } = await makeAgents(t, [callTools(task())], async (request) => {
      if (resultsIn(request).length === 0) return callTools(["look", {}, "l1"], ["change", {}, "c1"]);
      await progressReceived.promise;
      return "helped";
    });
    const calls: string[] = [];
    let lines = "";
    for await (const event of await agent.run({ message: "go" })) {
      if (event.type === "tool_call") calls.push(event.callId);
      if (event.type !== "tool_progress") continue;
      assert.equal(event.callId, "t1");
      lines += event.text;
      if (lines === "Look at it\nChange it\n") progressReceived.resolve();
    }
    // Calls of the subagent stay in its run: the parent's reader sees one call only.
    assert.deepEqual(calls, ["t1"]);
  });

  it("counts its usage in the parent run and session at once, and in its own session", async (t) => {
    const callUsage = { inputTokens: 100, outputTokens: 7 };
    let parentTokens: number | undefined;
    const { agent } = await makeAgents(
      t,
      [callTools(task()), () => say("end", { inputTokens: 1, outputTokens: 1 })],
      async (request) => {
        if (resultsIn(request).length > 0) {
          const [stored] = await agent.runs.list({ sessionId: run.sessionId });
          parentTokens = stored?.usage.totalTokens;
          return say("helped", callUsage);
        }
        return callTools(["look", {}]).map((chunk) =>
          chunk.type === "finish" ? { ...chunk, usage: { ...chunk.usage, ...callUsage } } : chunk,
        );
      },
    );
    const run = await agent.run({ message: "go" });
    const { usage, sessionUsage } = await run.result;
    const [subagent] = await subagentsOf(agent, run);
    assert.equal(subagent?.usage.totalTokens, 214);
    assert.equal(usage.totalTokens, 15 + 214 + 2);
    assert.deepEqual(sessionUsage, usage);
    assert.deepEqual((await agent.sessions.get(run.sessionId))?.usage, usage);
    assert.equal(parentTokens, 15 + 107, "the asker's run tells of the first call before the second is made");
  });

  it("ends at its own budget, and at the budget of the parent run", async (t) => {
    const callsForever: Answers = () =>
      callTools(["look", {}]).map((chunk) =>
        chunk.type === "finish" ? { ...chunk, usage: { ...chunk.usage, inputTokens: 400 } } : chunk,
      );
    const limitedSubagent = await makeAgents(t, [callTools(task({ budget: { tokens: 2_000 } }))], callsForever);
    const run = await limitedSubagent.agent.run({ message: "go" });
    const result = resultsOf(await eventsOf(run)).get("t1");
    assert.match(result?.output ?? "", /did not finish: it used its budget/);
    assert.equal(result?.failed, true);
    assert.equal((await run.result).endedBy, "model", "its asker goes on");

    const limitedParent = await makeAgents(t, [callTools(task())], callsForever);
    const limitedRun = await limitedParent.agent.run({ message: "go", budget: { tokens: 4_000 } });
    const { endedBy, usage } = await limitedRun.result;
    assert.equal(endedBy, "budget");
    assert.ok(usage.totalTokens <= 4_000, `${usage.totalTokens} tokens`);
    const [subagent] = await subagentsOf(limitedParent.agent, limitedRun);
    assert.ok((subagent?.usage.totalTokens ?? 0) > 0);
  });

  it("shares the parent run's budget with parallel subagents, which together do not exceed it", async (t) => {
    // As many output tokens as allowed, so that a subagent uses all of its reservation.
    const usesAllTokens: Answers = ({ maxTokens = 4_000 }) =>
      say("x".repeat(10), { inputTokens: 0, outputTokens: maxTokens });
    const calls = ["a", "b", "c", "d", "e", "f"].map((id) => task({ prompt: id }, id));
    const { agent } = await makeAgents(t, [callTools(...calls)], usesAllTokens);
    const run = await agent.run({ message: "go", budget: { usd: 10 } });
    const { usage } = await run.result;
    assert.ok(usage.cost > 9 && usage.cost <= 10, `${usage.cost} USD`);
    assert.equal((await subagentsOf(agent, run)).length, 6);
  });

  it("has its own limit of model calls", async (t) => {
    let calls = 0;
    const tools = builtinTools({ task: { maxIterations: 3 } }).filter(({ name }) => name === "task");
    const { agent } = await makeAgents(
      t,
      [callTools(task())],
      () => callTools(["look", { n: (calls += 1) }, `l${calls}`]),
      {
        tools: [lookTool, ...tools],
      },
    );
    const run = await agent.run({ message: "go" });
    const result = resultsOf(await eventsOf(run)).get("t1");
    assert.match(result?.output ?? "", /it used its 3 model calls/);
    assert.equal(calls, 3);
  });

  it("runs in parallel with seven others", async (t) => {
    let startedRequests = 0;
    const allStarted = opening();
    const calls = Array.from({ length: 8 }, (_, n) => task({ prompt: `p${n}` }, `t${n}`));
    const { agent } = await makeAgents(t, [callTools(...calls)], async (request) => {
      if ((startedRequests += 1) === 8) allStarted.resolve();
      await allStarted.promise;
      return `done ${taskOf(request)}`;
    });
    const results = resultsOf(await eventsOf(await agent.run({ message: "go" })));
    for (let n = 0; n < 8; n++) assert.match(results.get(`t${n}`)?.output ?? "", new RegExp(`^done p${n}\\n`));
  });

  it("is rejected with a failed tool result if no run slot is free", async (t) => {
    const { agent } = await makeAgents(
      t,
      [callTools(task({}, "a"), task({}, "b"), task({}, "c"))],
      async () => "helped",
      {
        concurrentRuns: 2,
      },
    );
    const results = [...resultsOf(await eventsOf(await agent.run({ message: "go" }))).values()];
    const refused = results.filter(({ failed }) => failed);
    assert.equal(results.length, 3);
    assert.ok(refused.length >= 1 && refused.every(({ output }) => output.startsWith("No subagent could start")));
    assert.ok(results.some(({ output }) => output.startsWith("helped")));
  });

  it("is cancelled with the parent run, and has ended before it", async (t) => {
    const requestStarted = opening();
    const { agent } = await makeAgents(t, [callTools(task())], () => {
      requestStarted.resolve();
      return { hang: true };
    });
    const cancel = new AbortController();
    const run = await agent.run({ message: "go", signal: cancel.signal });
    await requestStarted.promise;
    const [subagent] = await subagentsOf(agent, run);
    cancel.abort();
    await assert.rejects(run.result, { code: "run_cancelled" });
    const [stored] = await agent.runs.list({ sessionId: subagent!.id });
    assert.equal(stored?.state, "cancelled");
    assert.equal(await agent.sessions.isRunning(subagent!.id), false);
  });

  it("can be cancelled alone, and the parent run continues", async (t) => {
    const requestStarted = opening();
    const { agent } = await makeAgents(t, [callTools(task())], () => {
      requestStarted.resolve();
      return { hang: true };
    });
    const run = await agent.run({ message: "go" });
    await requestStarted.promise;
    const [subagent] = await subagentsOf(agent, run);
    const [stored] = await agent.runs.list({ sessionId: subagent!.id });
    await agent.runs.cancel(stored!.id);
    const result = resultsOf(await eventsOf(run)).get("t1");
    assert.match(result?.output ?? "", /^A user cancelled the subagent/);
    assert.equal((await run.result).output, "end");
  });

  it("is deleted with the parent session while it runs", async (t) => {
    const store = new MemoryDocuments();
    const requestStarted = opening();
    const hanging: Answers = () => {
      requestStarted.resolve();
      return { hang: true };
    };
    const { agent } = await makeAgents(t, [callTools(task())], hanging, { driver: new MemoryDriver(store) });
    const run = await agent.run({ message: "go" });
    await requestStarted.promise;
    const [subagent] = await subagentsOf(agent, run);
    const deleted: string[] = [];
    agent.on("session.deleted", ({ ids }) => deleted.push(...ids));
    await agent.sessions.delete(run.sessionId);
    assert.deepEqual(deleted, [run.sessionId, subagent!.id]);
    assert.equal(await agent.sessions.get(subagent!.id), undefined);
    await assert.rejects(run.result);
    assert.deepEqual(await store.scan(["session/"]), []);
  });

  it("is deleted after another driver has deleted the parent session only", async (t) => {
    const store = new MemoryDocuments();
    const requestStarted = opening();
    const hanging: Answers = () => {
      requestStarted.resolve();
      return { hang: true };
    };
    const { agent } = await makeAgents(t, [callTools(task())], hanging, { driver: new MemoryDriver(store) });
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
    const careless = defineTool({
      name: "careless",
      description: "Asks for help and does not wait for it.",
      run: async (_, context) => {
        subagent = await context.spawn({ title: "T", message: "M" });
        return "done";
      },
    });
    const { agent } = await makeAgents(t, [callTools(["careless", {}, "c"])], () => ({ hang: true }), {
      tools: [careless, lookTool],
    });
    const run = await agent.run({ message: "go" });
    const results = resultsOf(await eventsOf(run));
    assert.equal(results.get("c")?.output, "done");
    await assert.rejects(subagent!.result, { code: "run_cancelled" });
    assert.equal(await agent.sessions.isRunning(subagent!.sessionId), false);
  });

  it("leaves no background command running", async (t) => {
    const tools = builtinTools({ bash: { sandbox: "off" } }).filter(({ name }) => /^bash|^task$/.test(name));
    const work = tools.find(({ background }) => background)?.background;
    let running: readonly unknown[] = [];
    const { agent } = await makeAgents(
      t,
      [callTools(task())],
      async (request) => {
        const [started] = resultsIn(request);
        if (started === undefined) return callTools(["bash", { command: "sleep 1000", background: true }]);
        const [subagent] = await subagentsOf(agent, run);
        running = (await work?.list(subagent!.id)) ?? [];
        return "helped";
      },
      { tools },
    );
    const run = await agent.run({ message: "go" });
    await run.result;
    const [subagent] = await subagentsOf(agent, run);
    assert.equal(running.length, 1);
    assert.deepEqual(await work?.list(subagent!.id), []);
  });

  it("is rejected with the name of the field if the spawn input is invalid", async (t) => {
    const inputs: unknown[] = [
      { title: "T", message: "" },
      { title: " ", message: "M" },
      { title: "T", message: "M", maxIterations: 0 },
      { title: "T", message: "M", budget: { usd: -1 } },
      { title: "T", message: "M", tools: ["asks"] },
      { title: "T", message: "M", tools: "look" },
    ];
    const refusals: string[] = [];
    const asks = defineTool({
      name: "asks",
      description: "Asks.",
      run: async (_, context) => {
        for (const input of inputs)
          await context.spawn(input as SpawnInput).catch((error: unknown) => {
            if (hasCode(error, "invalid_input")) refusals.push(error.message);
          });
        return "done";
      },
    });
    const { agent } = await makeAgents(t, [callTools(["asks", {}, "c"])], () => "no", { tools: [asks, lookTool] });
    const run = await agent.run({ message: "go" });
    await run.result;
    assert.deepEqual(
      refusals.map((refusal) => refusal.split(":")[0]),
      ["message", "title", "maxIterations", "budget.usd", "tools", "tools"],
    );
    assert.deepEqual(await subagentsOf(agent, run), []);
  });

  it("obeys the permission rules and the mode of the parent session, also a mode that changes meanwhile", async (t) => {
    const rules = [{ tool: "change", action: "deny", reason: "not that" }] as const;
    const twice: Answers = (request) =>
      resultsIn(request).length === 0 ? callTools(["change", {}, "c1"]) : resultsIn(request).join();
    const ruled = await makeAgents(t, [callTools(task())], twice, { rules });
    const results = resultsOf(await eventsOf(await ruled.agent.run({ message: "go" })));
    assert.match(results.get("t1")?.output ?? "", /not allowed: not that/);

    const planned = await makeAgents(t, [callTools(task())], twice);
    const plan = resultsOf(await eventsOf(await planned.agent.run({ message: "go", mode: "plan" })));
    assert.match(plan.get("t1")?.output ?? "", /plan mode/);

    const { agent, ran } = await makeAgents(t, [callTools(task())], async (request) => {
      const { length } = resultsIn(request);
      if (length === 1) await agent.sessions.update(run.sessionId, { mode: "plan" });
      if (length === 2) await agent.sessions.update(run.sessionId, { mode: "auto" });
      return length < 3 ? callTools(["change", {}, `c${length}`]) : resultsIn(request).join("|");
    });
    const run = await agent.run({ message: "go" });
    const [first, second, third] = (resultsOf(await eventsOf(run)).get("t1")?.output ?? "").split("|");
    assert.equal(first, "changed");
    assert.match(second ?? "", /plan mode/);
    assert.match(third ?? "", /^changed/);
    const [subagent] = await subagentsOf(agent, run);
    assert.deepEqual(ran, [subagent!.id, subagent!.id]);
  });

  it("sends its permission requests to the parent's client, and shares an allow_always grant with the parent", async (t) => {
    const twice: Answers = (request) =>
      resultsIn(request).length === 0 ? callTools(["change", {}, "c1"]) : resultsIn(request).join();
    const { agent, ran } = await makeAgents(
      t,
      [callTools(task()), callTools(["change", {}, "own"]), callTools(task({}, "t2"))],
      twice,
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
    const results = resultsOf(await eventsOf(run));
    assert.equal(requests.length, 1);
    assert.deepEqual(
      requests.map(({ callId, tool, title, kind }) => ({ callId, tool, title, kind })),
      [{ callId: "t1", tool: "change", title: "Find it: Change it", kind: "edit" }],
    );
    assert.deepEqual(states, ["waiting", "waiting"]);
    assert.match(results.get("t1")?.output ?? "", /^changed/);
    assert.equal(ran.length, 3, "neither the asker nor another helper is asked again");
    const [stored] = await agent.asks.list({ sessionId: run.sessionId });
    assert.deepEqual([stored?.title, stored?.callId, stored?.state], ["Find it: Change it", "t1", "answered"]);
  });

  it("withdraws its permission request when it is cancelled, and the parent run finishes", async (t) => {
    const requestOpened = opening();
    const { agent } = await makeAgents(t, [callTools(task())], () => callTools(["change", {}, "c1"]));
    const ask: RunInput["ask"] = (_, signal) =>
      new Promise((_, reject) => {
        requestOpened.resolve();
        signal.addEventListener("abort", () => reject(new Error("gone")), { once: true });
      });
    const run = await agent.run({ message: "go", ask });
    await requestOpened.promise;
    const [subagent] = await subagentsOf(agent, run);
    const [stored] = await agent.runs.list({ sessionId: subagent!.id });
    await agent.runs.cancel(stored!.id);
    assert.match(resultsOf(await eventsOf(run)).get("t1")?.output ?? "", /cancelled the subagent/);
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
    assert.deepEqual(await subagentsOf(agent, run), []);
  });

  it("is interrupted if its process dies, its tool call fails, and both sessions can continue", async (t) => {
    const store = new MemoryDocuments();
    const requestStarted = opening();
    const crashed = await makeAgents(
      t,
      [callTools(task())],
      () => {
        requestStarted.resolve();
        return { hang: true };
      },
      { driver: new MemoryDriver(store) },
    );
    const run = await crashed.agent.run({ message: "go" });
    await requestStarted.promise;
    // Simulates a crash: copies the current data to another store.
    const copy = new MemoryDocuments();
    const [subagent] = await subagentsOf(crashed.agent, run);
    const [from, to] = [new MemoryDriver(store), new MemoryDriver(copy)];
    for (const driver of [from, to]) await driver.open();
    for (const id of [run.sessionId, subagent!.id]) await to.load((await from.dump(id))!);
    const { agent } = await makeAgents(t, ["again"], () => "by a person", { driver: new MemoryDriver(copy) });
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
    const { agent } = await makeAgents(t, [callTools(task())]);
    const run = await agent.run({ message: "go" });
    await run.result;
    const [subagent] = await subagentsOf(agent, run);
    const fork = await agent.sessions.fork(subagent!.id, (await agent.sessions.messages(subagent!.id))[1]!.id);
    assert.equal(fork.spawnedBy, null, "a fork is a person's own");
    assert.deepEqual((await agent.sessions.list()).total, 2);
  });
});
