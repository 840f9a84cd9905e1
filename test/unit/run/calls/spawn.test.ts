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

const isHelpers = ({ system }: ModelRequest): boolean => system.includes("You are a helper");
/** The task of a subagent. */
const taskOf = ({ messages }: ModelRequest): string => (messages[0] ? textOf(messages[0]) : "");
const resultsIn = ({ messages }: ModelRequest): string[] =>
  messages.filter(({ role }) => role === "tool").map((message) => textOf(message));

const changing = (ran: string[]): Tool =>
  defineTool({
    name: "change",
    description: "Changes something.",
    kind: "edit",
    describe: () => "Change it",
    run: (_, { sessionId }) => (ran.push(sessionId), "changed"),
  });
const looking = defineTool({
  name: "look",
  description: "Looks.",
  kind: "read",
  describe: () => "Look at it",
  run: () => "seen",
});

interface Family {
  agent: Agent;
  provider: ScriptedProvider;
  /** Ids of the sessions in which `change` ran. */
  ran: string[];
}

/** An agent whose model answers the parent run from a script and the subagents from a function. */
async function family(
  t: TestContext,
  script: readonly ScriptedStep[],
  helper: Answers = () => "helped",
  options: Partial<AgentOptions> = {},
): Promise<Family> {
  const steps = [...script];
  const ran: string[] = [];
  const answer: ScriptedStep = async (request, signal) => {
    if (isHelpers(request)) return helper(request, signal);
    const step = steps.shift() ?? "end";
    return typeof step === "function" ? step(request, signal) : step;
  };
  const provider = new ScriptedProvider([], { fallback: answer, models: [PRICED] });
  const { path } = await tempDir(t);
  const task = builtinTools().find(({ name }) => name === "task");
  const tools = [changing(ran), looking, ...(task ? [task] : [])];
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

async function helpersIn(agent: Agent, { sessionId }: Run): Promise<Session[]> {
  return (await agent.sessions.list({ spawnedBy: sessionId })).sessions;
}

describe("a helper", { concurrency: 4 }, () => {
  it("has a session of its own, which tells who asked for it and is in no list", async (t) => {
    const { agent, provider } = await family(t, [callTools(task())]);
    const titled = new Promise((resolve) => agent.on("session.updated", resolve));
    const run = await agent.run({ message: "go" });
    const results = resultsOf(await eventsOf(run));
    const [helper] = await helpersIn(agent, run);
    assert.ok(helper);
    assert.deepEqual(helper.spawnedBy, { sessionId: run.sessionId, runId: run.id, callId: "t1" });
    assert.deepEqual([helper.title, helper.hasFinalTitle, helper.parentId], ["Find it", true, ""]);
    assert.deepEqual(results.get("t1")?.output, `helped\n\n[helper session ${helper.id}]`);
    assert.equal(results.get("t1")?.failed, false);
    const listed = await agent.sessions.list();
    assert.deepEqual([listed.sessions.map(({ id }) => id), listed.total], [[run.sessionId], 1]);
    const messages = await agent.sessions.messages(helper.id);
    assert.deepEqual(
      messages.map((message) => textOf(message)),
      ["Find the thing.", "helped"],
    );
    // The subagent has a context of its own, and no title is generated for its session.
    const [request] = provider.requests.filter(isHelpers);
    assert.equal(request?.messages.length, 1);
    await titled;
    assert.equal(provider.titleRequests.length, 1);
  });

  it("may use what its asker has, never the tool that asks, nor one that is for people", async (t) => {
    const asking = builtinTools().filter(({ name }) => name === "ask_user");
    const { agent, provider, ran } = await family(
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
    const parentRequest = provider.requests.find((request) => !isHelpers(request));
    assert.deepEqual(
      parentRequest?.tools.map(({ name }) => name),
      ["ask_user", "change", "look", "task"],
    );
    const offered = provider.requests.filter(isHelpers).map((request) => request.tools.map(({ name }) => name).join());
    assert.deepEqual(offered.sort(), ["change,look", "look", "look"]);
    assert.match(results.get("t4")?.output ?? "", /expected a list with some of change, look/);
    assert.match(results.get("t5")?.output ?? "", /expected a list with some of change, look/);
    assert.deepEqual(ran, []);
    assert.equal((await helpersIn(agent, run)).length, 3);
  });

  it("shows what it does as the progress of the call, a line for each of its calls", async (t) => {
    const shown = opening();
    const { agent } = await family(t, [callTools(task())], async (request) => {
      if (resultsIn(request).length === 0) return callTools(["look", {}, "l1"], ["change", {}, "c1"]);
      await shown.promise;
      return "helped";
    });
    const calls: string[] = [];
    let lines = "";
    for await (const event of await agent.run({ message: "go" })) {
      if (event.type === "tool_call") calls.push(event.callId);
      if (event.type !== "tool_progress") continue;
      assert.equal(event.callId, "t1");
      lines += event.text;
      if (lines === "Look at it\nChange it\n") shown.resolve();
    }
    // Calls of the subagent stay in its run: the parent's reader sees one call only.
    assert.deepEqual(calls, ["t1"]);
  });

  it("spends in its asker's run and session at once, and in its own", async (t) => {
    const used = { inputTokens: 100, outputTokens: 7 };
    let seen: number | undefined;
    const { agent } = await family(
      t,
      [callTools(task()), () => say("end", { inputTokens: 1, outputTokens: 1 })],
      async (request) => {
        if (resultsIn(request).length > 0) {
          const [stored] = await agent.runs.list({ sessionId: run.sessionId });
          seen = stored?.usage.totalTokens;
          return say("helped", used);
        }
        return callTools(["look", {}]).map((chunk) =>
          chunk.type === "finish" ? { ...chunk, usage: { ...chunk.usage, ...used } } : chunk,
        );
      },
    );
    const run = await agent.run({ message: "go" });
    const { usage, sessionUsage } = await run.result;
    const [helper] = await helpersIn(agent, run);
    assert.equal(helper?.usage.totalTokens, 214);
    assert.equal(usage.totalTokens, 15 + 214 + 2);
    assert.deepEqual(sessionUsage, usage);
    assert.deepEqual((await agent.sessions.get(run.sessionId))?.usage, usage);
    assert.equal(seen, 15 + 107, "the asker's run tells of the first call before the second is made");
  });

  it("ends at its own budget, and at its asker's", async (t) => {
    const hungry: Answers = () =>
      callTools(["look", {}]).map((chunk) =>
        chunk.type === "finish" ? { ...chunk, usage: { ...chunk.usage, inputTokens: 400 } } : chunk,
      );
    const limitedFamily = await family(t, [callTools(task({ budget: { tokens: 2_000 } }))], hungry);
    const run = await limitedFamily.agent.run({ message: "go" });
    const result = resultsOf(await eventsOf(run)).get("t1");
    assert.match(result?.output ?? "", /did not come to its end: its budget was spent/);
    assert.equal(result?.failed, true);
    assert.equal((await run.result).endedBy, "model", "its asker goes on");

    const asker = await family(t, [callTools(task())], hungry);
    const limitedRun = await asker.agent.run({ message: "go", budget: { tokens: 4_000 } });
    const { endedBy, usage } = await limitedRun.result;
    assert.equal(endedBy, "budget");
    assert.ok(usage.totalTokens <= 4_000, `${usage.totalTokens} tokens`);
    const [helper] = await helpersIn(asker.agent, limitedRun);
    assert.ok((helper?.usage.totalTokens ?? 0) > 0);
  });

  it("spends no more than there is together with others beside it", async (t) => {
    // As many output tokens as allowed, so that a subagent uses all of its reservation.
    const greedy: Answers = ({ maxTokens = 4_000 }) => say("x".repeat(10), { inputTokens: 0, outputTokens: maxTokens });
    const calls = ["a", "b", "c", "d", "e", "f"].map((id) => task({ prompt: id }, id));
    const { agent } = await family(t, [callTools(...calls)], greedy);
    const run = await agent.run({ message: "go", budget: { usd: 10 } });
    const { usage } = await run.result;
    assert.ok(usage.cost > 9 && usage.cost <= 10, `${usage.cost} USD`);
    assert.equal((await helpersIn(agent, run)).length, 6);
  });

  it("has a limit of model calls of its own", async (t) => {
    let calls = 0;
    const tools = builtinTools({ task: { maxIterations: 3 } }).filter(({ name }) => name === "task");
    const { agent } = await family(
      t,
      [callTools(task())],
      () => callTools(["look", { n: (calls += 1) }, `l${calls}`]),
      {
        tools: [looking, ...tools],
      },
    );
    const run = await agent.run({ message: "go" });
    const result = resultsOf(await eventsOf(run)).get("t1");
    assert.match(result?.output ?? "", /its 3 model calls were over/);
    assert.equal(calls, 3);
  });

  it("runs beside others, up to eight at a time", async (t) => {
    let together = 0;
    const all = opening();
    const calls = Array.from({ length: 8 }, (_, n) => task({ prompt: `p${n}` }, `t${n}`));
    const { agent } = await family(t, [callTools(...calls)], async (request) => {
      if ((together += 1) === 8) all.resolve();
      await all.promise;
      return `done ${taskOf(request)}`;
    });
    const results = resultsOf(await eventsOf(await agent.run({ message: "go" })));
    for (let n = 0; n < 8; n++) assert.match(results.get(`t${n}`)?.output ?? "", new RegExp(`^done p${n}\\n`));
  });

  it("is refused where there is no place for it, and nothing hangs", async (t) => {
    const { agent } = await family(t, [callTools(task({}, "a"), task({}, "b"), task({}, "c"))], async () => "helped", {
      concurrentRuns: 2,
    });
    const results = [...resultsOf(await eventsOf(await agent.run({ message: "go" }))).values()];
    const refused = results.filter(({ failed }) => failed);
    assert.equal(results.length, 3);
    assert.ok(refused.length >= 1 && refused.every(({ output }) => output.startsWith("No helper could begin")));
    assert.ok(results.some(({ output }) => output.startsWith("helped")));
  });

  it("is cancelled with its asker, and ended before it", async (t) => {
    const begun = opening();
    const { agent } = await family(t, [callTools(task())], () => {
      begun.resolve();
      return { hang: true };
    });
    const cancel = new AbortController();
    const run = await agent.run({ message: "go", signal: cancel.signal });
    await begun.promise;
    const [helper] = await helpersIn(agent, run);
    cancel.abort();
    await assert.rejects(run.result, { code: "run_cancelled" });
    const [stored] = await agent.runs.list({ sessionId: helper!.id });
    assert.equal(stored?.state, "cancelled");
    assert.equal(await agent.sessions.isRunning(helper!.id), false);
  });

  it("is cancelled alone by whoever watches it, and its asker goes on", async (t) => {
    const begun = opening();
    const { agent } = await family(t, [callTools(task())], () => {
      begun.resolve();
      return { hang: true };
    });
    const run = await agent.run({ message: "go" });
    await begun.promise;
    const [helper] = await helpersIn(agent, run);
    const [stored] = await agent.runs.list({ sessionId: helper!.id });
    await agent.runs.cancel(stored!.id);
    const result = resultsOf(await eventsOf(run)).get("t1");
    assert.match(result?.output ?? "", /^The helper was cancelled by a person/);
    assert.equal((await run.result).output, "end");
  });

  it("is deleted with its asker, also by another process, and while it works", async (t) => {
    const store = new MemoryDocuments();
    const begun = opening();
    const hanging: Answers = () => {
      begun.resolve();
      return { hang: true };
    };
    const { agent } = await family(t, [callTools(task())], hanging, { driver: new MemoryDriver(store) });
    const run = await agent.run({ message: "go" });
    await begun.promise;
    const [helper] = await helpersIn(agent, run);
    const deleted: string[] = [];
    agent.on("session.deleted", ({ ids }) => deleted.push(...ids));
    await agent.sessions.delete(run.sessionId);
    assert.deepEqual(deleted, [run.sessionId, helper!.id]);
    assert.equal(await agent.sessions.get(helper!.id), undefined);
    await assert.rejects(run.result);
    assert.deepEqual(await store.scan(["session/"]), []);
  });

  it("goes with its asker's session also where who deleted that did not see it yet", async (t) => {
    const store = new MemoryDocuments();
    const begun = opening();
    const hanging: Answers = () => {
      begun.resolve();
      return { hang: true };
    };
    const { agent } = await family(t, [callTools(task())], hanging, { driver: new MemoryDriver(store) });
    const run = await agent.run({ message: "go" });
    await begun.promise;
    const secondDriver = new MemoryDriver(store);
    await secondDriver.open();
    await secondDriver.delete([run.sessionId]);
    await assert.rejects(run.result);
    await agent.close();
    assert.deepEqual(await store.scan(["session/"]), []);
  });

  it("ends with the call that asked for it, which need not wait for it", async (t) => {
    let helper: Subagent | undefined;
    const careless = defineTool({
      name: "careless",
      description: "Asks for help and does not wait for it.",
      run: async (_, context) => {
        helper = await context.spawn({ title: "T", message: "M" });
        return "done";
      },
    });
    const { agent } = await family(t, [callTools(["careless", {}, "c"])], () => ({ hang: true }), {
      tools: [careless, looking],
    });
    const run = await agent.run({ message: "go" });
    const results = resultsOf(await eventsOf(run));
    assert.equal(results.get("c")?.output, "done");
    await assert.rejects(helper!.result, { code: "run_cancelled" });
    assert.equal(await agent.sessions.isRunning(helper!.sessionId), false);
  });

  it("leaves nothing running in the background", async (t) => {
    const tools = builtinTools({ bash: { sandbox: "off" } }).filter(({ name }) => /^bash|^task$/.test(name));
    const work = tools.find(({ background }) => background)?.background;
    let running: readonly unknown[] = [];
    const { agent } = await family(
      t,
      [callTools(task())],
      async (request) => {
        const [started] = resultsIn(request);
        if (started === undefined) return callTools(["bash", { command: "sleep 1000", background: true }]);
        const [helper] = await helpersIn(agent, run);
        running = (await work?.list(helper!.id)) ?? [];
        return "helped";
      },
      { tools },
    );
    const run = await agent.run({ message: "go" });
    await run.result;
    const [helper] = await helpersIn(agent, run);
    assert.equal(running.length, 1);
    assert.deepEqual(await work?.list(helper!.id), []);
  });

  it("is asked for by any tool; what is wrong with it is told by its field", async (t) => {
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
    const { agent } = await family(t, [callTools(["asks", {}, "c"])], () => "no", { tools: [asks, looking] });
    const run = await agent.run({ message: "go" });
    await run.result;
    assert.deepEqual(
      refusals.map((refusal) => refusal.split(":")[0]),
      ["message", "title", "maxIterations", "budget.usd", "tools", "tools"],
    );
    assert.deepEqual(await helpersIn(agent, run), []);
  });

  it("may do no more than its asker: its rules, its mode, also one that changes meanwhile", async (t) => {
    const rules = [{ tool: "change", action: "deny", reason: "not that" }] as const;
    const twice: Answers = (request) =>
      resultsIn(request).length === 0 ? callTools(["change", {}, "c1"]) : resultsIn(request).join();
    const ruled = await family(t, [callTools(task())], twice, { rules });
    const results = resultsOf(await eventsOf(await ruled.agent.run({ message: "go" })));
    assert.match(results.get("t1")?.output ?? "", /not allowed: not that/);

    const planned = await family(t, [callTools(task())], twice);
    const plan = resultsOf(await eventsOf(await planned.agent.run({ message: "go", mode: "plan" })));
    assert.match(plan.get("t1")?.output ?? "", /plan mode/);

    const { agent, ran } = await family(t, [callTools(task())], async (request) => {
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
    const [helper] = await helpersIn(agent, run);
    assert.deepEqual(ran, [helper!.id, helper!.id]);
  });

  it("asks the people of its asker, named, about the call that they know; leave for good is for both", async (t) => {
    const twice: Answers = (request) =>
      resultsIn(request).length === 0 ? callTools(["change", {}, "c1"]) : resultsIn(request).join();
    const { agent, ran } = await family(
      t,
      [callTools(task()), callTools(["change", {}, "own"]), callTools(task({}, "t2"))],
      twice,
    );
    const requests: AskRequest[] = [];
    const states: (string | undefined)[] = [];
    const ask: RunInput["ask"] = async (request) => {
      requests.push(request);
      const [helper] = (await agent.sessions.list({ spawnedBy: run.sessionId })).sessions;
      for (const id of [run.sessionId, helper!.id]) states.push((await agent.runs.list({ sessionId: id }))[0]?.state);
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

  it("that is cancelled while it asks leaves no question, and its asker's time goes on", async (t) => {
    const requestOpened = opening();
    const { agent } = await family(t, [callTools(task())], () => callTools(["change", {}, "c1"]));
    const ask: RunInput["ask"] = (_, signal) =>
      new Promise((_, reject) => {
        requestOpened.resolve();
        signal.addEventListener("abort", () => reject(new Error("gone")), { once: true });
      });
    const run = await agent.run({ message: "go", ask });
    await requestOpened.promise;
    const [helper] = await helpersIn(agent, run);
    const [stored] = await agent.runs.list({ sessionId: helper!.id });
    await agent.runs.cancel(stored!.id);
    assert.match(resultsOf(await eventsOf(run)).get("t1")?.output ?? "", /cancelled by a person/);
    assert.deepEqual(
      (await agent.asks.list({ sessionId: run.sessionId })).map(({ state }) => state),
      ["withdrawn"],
    );
    assert.equal((await agent.runs.list({ sessionId: run.sessionId }))[0]?.state, "finished");
  });

  it("is none of a call that is over: nobody would wait for it", async (t) => {
    let endedContext: ToolContext | undefined;
    const keeping: Tool = {
      ...looking,
      run: (_, context) => ((endedContext = context), Promise.resolve({ text: "seen" })),
    };
    const provider = new ScriptedProvider([callTools(["look", {}]), say("done")]);
    const agent = new Agent({ providers: [provider], tools: [keeping] });
    t.after(() => agent.close());
    const run = await agent.run({ message: "go" });
    await run.result;
    await assert.rejects(async () => endedContext?.spawn({ message: "late", title: "late" }), {
      code: "run_cancelled",
    });
    assert.deepEqual(await helpersIn(agent, run), []);
  });

  it("whose process died is interrupted, its asker is told, and both go on", async (t) => {
    const store = new MemoryDocuments();
    const begun = opening();
    const dead = await family(
      t,
      [callTools(task())],
      () => {
        begun.resolve();
        return { hang: true };
      },
      { driver: new MemoryDriver(store) },
    );
    const run = await dead.agent.run({ message: "go" });
    await begun.promise;
    // Simulates a crash: copies the current data to another store.
    const copy = new MemoryDocuments();
    const [helper] = await helpersIn(dead.agent, run);
    const [from, to] = [new MemoryDriver(store), new MemoryDriver(copy)];
    for (const driver of [from, to]) await driver.open();
    for (const id of [run.sessionId, helper!.id]) await to.load((await from.dump(id))!);
    const { agent } = await family(t, ["again"], () => "by a person", { driver: new MemoryDriver(copy) });
    assert.equal((await agent.runs.list({ sessionId: helper!.id }))[0]?.state, "interrupted");
    assert.equal((await (await agent.run({ message: "on", sessionId: run.sessionId })).result).output, "again");
    const toolMessage = (await agent.sessions.messages(run.sessionId)).find(({ role }) => role === "tool");
    assert.equal(toolMessage?.failed, true);
    // A user can continue the subagent's session. It stays a subagent session of its parent.
    await (
      await agent.run({ message: "and you", sessionId: helper!.id })
    ).result;
    assert.deepEqual((await agent.sessions.get(helper!.id))?.spawnedBy, helper!.spawnedBy);
  });

  it("goes on behind a compaction as its asker's", async (t) => {
    const { agent } = await family(t, [callTools(task())]);
    const run = await agent.run({ message: "go" });
    await run.result;
    const [helper] = await helpersIn(agent, run);
    const fork = await agent.sessions.fork(helper!.id, (await agent.sessions.messages(helper!.id))[1]!.id);
    assert.equal(fork.spawnedBy, null, "a fork is a person's own");
    assert.deepEqual((await agent.sessions.list()).total, 2);
  });
});
