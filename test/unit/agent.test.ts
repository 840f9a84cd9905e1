import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import {
  Agent,
  MemoryDriver,
  ProviderError,
  silentLogger,
  type AgentEvent,
  type AgentOptions,
  type Run,
  type RunInput,
  type Session,
  type Tool,
} from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import { waitTurns } from "../helpers/fake-time.js";
import { createGate } from "../helpers/gate.js";
import { waitUntil } from "../helpers/server-runs.js";
import { tempDir } from "../helpers/temp-dir.js";

function createTool(
  name: string,
  run: Tool<Record<string, unknown>>["run"],
  overrides: Partial<Tool> = {},
): Tool<Record<string, unknown>> {
  return {
    name,
    description: name,
    inputSchema: { type: "object" },
    kind: "other",
    parallel: false,
    needsPermission: false,
    parse: (input) => input as Record<string, unknown>,
    describe: () => ({ title: `Use ${name}`, locations: [] }),
    run,
    ...overrides,
  };
}

function createAgent(t: TestContext, provider: ScriptedProvider, options: Partial<AgentOptions> = {}): Agent {
  const agent = new Agent({ providers: [provider], ...options });
  t.after(() => agent.close());
  return agent;
}

async function readEvents(run: Run): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  for await (const event of run) events.push(event);
  return events;
}

const createTransientError = () =>
  new ProviderError("scripted", "overloaded", "busy", { status: 529, retryAfterMs: 1 });

describe("a run", () => {
  it("returns output, usage, iterations, finish reason and context size", async (t) => {
    const agent = createAgent(t, new ScriptedProvider([say("Hello", { inputTokens: 7, outputTokens: 3 })]));
    const run = await agent.run({ message: "hi" });
    const { sessionUsage: _, context, ...result } = await run.result;
    assert.deepEqual(result, {
      output: "Hello",
      usage: { promptTokens: 7, completionTokens: 3, totalTokens: 10, cost: 0 },
      iterations: 1,
      finishReason: "stop",
      endedBy: "model",
      sessionId: run.sessionId,
    });
    assert.deepEqual(context, { used: 10, size: 128_000 });
  });

  it("calls tools, sends their results to the model, and adds up the usage of both model calls", async (t) => {
    const provider = new ScriptedProvider([callTools(["add", { a: 1, b: 2 }]), say("It is 3")]);
    const add = createTool("add", ({ a, b }) => Promise.resolve({ text: String(Number(a) + Number(b)) }));
    const agent = createAgent(t, provider, { tools: [add] });
    const run = await agent.run({ message: "1+2?" });
    const events = await readEvents(run);
    const { usage, iterations } = await run.result;
    assert.deepEqual(
      events.map((event) => event.type),
      ["tool_call", "tool_result", "token", "done"],
    );
    assert.equal(usage.totalTokens, 30);
    assert.equal(iterations, 2);
    assert.deepEqual(
      provider.requests[1]?.messages.map((m) => [m.role, m.parts.map((p) => (p.type === "text" ? p.text : p.type))]),
      [
        ["user", ["1+2?"]],
        ["assistant", ["tool_call"]],
        ["tool", ["3"]],
      ],
    );
  });

  it("runs calls of parallel tools concurrently, and calls of other tools one at a time", async (t) => {
    let runningCallCount = 0;
    let maxRunningCallCount = 0;
    let expectedCount = 3;
    const runCountedCall = async () => {
      runningCallCount += 1;
      maxRunningCallCount = Math.max(maxRunningCallCount, runningCallCount);
      // All calls that may run in parallel start before one of them ends.
      if (expectedCount > 1) await waitUntil(() => maxRunningCallCount === expectedCount);
      else await waitTurns();
      runningCallCount -= 1;
      return { text: "" };
    };
    const createSteps = (name: string) => [callTools([name, {}], [name, {}], [name, {}]), say("ok")];
    const provider = new ScriptedProvider([...createSteps("both"), ...createSteps("alone")]);
    const agent = createAgent(t, provider, {
      tools: [createTool("both", runCountedCall, { parallel: true }), createTool("alone", runCountedCall)],
    });
    await (
      await agent.run({ message: "x" })
    ).result;
    assert.equal(maxRunningCallCount, 3);
    [maxRunningCallCount, expectedCount] = [0, 1];
    await (
      await agent.run({ message: "x" })
    ).result;
    assert.equal(maxRunningCallCount, 1);
  });

  it("reports invalid arguments, unknown tools and failing tools as failed tool results", async (t) => {
    const provider = new ScriptedProvider([callTools(["t", '{"a":'], ["nope", {}], ["t", {}]), say("ok")]);
    const agent = createAgent(t, provider, {
      tools: [createTool("t", () => Promise.reject(new Error("disk on fire")))],
    });
    const run = await agent.run({ message: "x" });
    const results = (await readEvents(run)).filter((event) => event.type === "tool_result");
    assert.ok(results.every((result) => result.failed));
    assert.match(results[0]?.output ?? "", /arguments of t are not valid JSON.*Send the call again/);
    assert.match(results[1]?.output ?? "", /Tool "nope" does not exist. Use one of: t\./);
    assert.match(results[2]?.output ?? "", /disk on fire/);
    await run.result;
  });

  it("quotes the name of an unknown tool with escaped control characters and at most 100 characters", async (t) => {
    const names = ["odd \u001b]0;title\u0007", "n".repeat(5000)];
    const provider = new ScriptedProvider([callTools(...names.map((name) => [name, {}] as const)), say("ok")]);
    const run = await createAgent(t, provider).run({ message: "x" });
    const outputs = (await readEvents(run)).flatMap((event) => (event.type === "tool_result" ? [event.output] : []));
    assert.match(outputs[0] ?? "", /^Tool "odd \\u001b\]0;title\\u0007" does not exist\. Use one of: /);
    assert.match(outputs[1] ?? "", /^Tool "n{100}…" does not exist\. /);
    await run.result;
  });

  it("rejects an answer that calls a tool with a name of more than 4,000,000 characters", async (t) => {
    const provider = new ScriptedProvider([callTools(["n".repeat(4_000_001), {}])]);
    const run = await createAgent(t, provider).run({ message: "x" });
    await assert.rejects(run.result, { kind: "too_large", message: /of more than 4,000,000 characters$/ });
  });

  it("makes tool call ids unique within an answer and across turns", async (t) => {
    const provider = new ScriptedProvider([
      callTools(["t", {}, "same"], ["t", {}, "same"]),
      callTools(["t", {}, "same"], ["t", {}, ""]),
      say("ok"),
    ]);
    const agent = createAgent(t, provider, { tools: [createTool("t", () => Promise.resolve({ text: "done" }))] });
    const run = await agent.run({ message: "x" });
    await run.result;
    const messages = await agent.sessions.messages(run.sessionId);
    const callIds = messages.flatMap((m) => m.parts.flatMap((p) => (p.type === "tool_call" ? [p.id] : [])));
    assert.equal(callIds.length, 4);
    assert.equal(new Set(callIds).size, 4);
    assert.deepEqual(new Set(messages.filter((m) => m.role === "tool").map((m) => m.toolCallId)), new Set(callIds));
  });

  it("accepts 128 tool calls in one answer, and runs no call of an answer with 1,000 tool calls", async (t) => {
    const createCalls = (count: number) =>
      callTools(...Array.from({ length: count }, (_, i) => ["t", {}, `c${i}`] as const));
    const provider = new ScriptedProvider([createCalls(128), say("ok"), createCalls(1000)]);
    let callCount = 0;
    const runTool = () => Promise.resolve({ text: `${(callCount += 1)}` });
    const agent = createAgent(t, provider, { tools: [createTool("t", runTool, { parallel: true })] });
    const firstRun = await agent.run({ message: "x" });
    assert.equal((await firstRun.result).output, "ok");
    // The prompt, the answer with the calls, 128 tool results and the final answer.
    assert.equal((await agent.sessions.messages(firstRun.sessionId)).length, 131);
    const secondRun = await agent.run({ message: "y", sessionId: firstRun.sessionId });
    await assert.rejects(secondRun.result, { kind: "too_large", message: /of more than 128 tool calls$/ });
    assert.equal(callCount, 128);
  });

  it("ends at maxIterations with finish reason `length`", async (t) => {
    const provider = new ScriptedProvider([], { fallback: callTools(["t", {}]) });
    const agent = createAgent(t, provider, {
      tools: [createTool("t", () => Promise.resolve({ text: "" }))],
      maxIterations: 3,
    });
    const result = await (await agent.run({ message: "x" })).result;
    assert.equal(result.iterations, 3);
    assert.equal(result.finishReason, "length");
    assert.equal(result.endedBy, "max_iterations");
  });

  it("cuts the middle of a tool output that exceeds toolOutputBytes", async (t) => {
    const provider = new ScriptedProvider([callTools(["t", {}]), say("ok")]);
    const agent = createAgent(t, provider, {
      tools: [createTool("t", () => Promise.resolve({ text: "a".repeat(50_000) }))],
      toolOutputBytes: 2000,
    });
    const run = await agent.run({ message: "x" });
    await run.result;
    const [toolMessage] = (await agent.sessions.messages(run.sessionId)).filter((m) => m.role === "tool");
    const part = toolMessage?.parts[0];
    // The notice at the cut may add 200 bytes.
    assert.ok(part?.type === "text" && Buffer.byteLength(part.text) <= 2200, "the output is cut near the limit");
    assert.match(part.text, /^a+[^a][\s\S]*[^a]a+$/);
  });

  it("requests permission for each call until the answer is `allow_always`", async (t) => {
    const requestTitles: string[] = [];
    const answers = ["reject", "allow", "allow_always"] as const;
    const provider = new ScriptedProvider([callTools(["t", {}], ["t", {}], ["t", {}], ["t", {}]), say("ok")]);
    const agent = createAgent(t, provider, {
      tools: [createTool("t", () => Promise.resolve({ text: "ran" }), { needsPermission: true })],
    });
    const run = await agent.run({
      message: "x",
      ask: (request) => {
        requestTitles.push(request.title);
        return Promise.resolve(answers[requestTitles.length - 1] ?? "reject");
      },
    });
    const failedFlags = (await readEvents(run)).flatMap((event) =>
      event.type === "tool_result" ? [event.failed] : [],
    );
    assert.deepEqual(failedFlags, [true, false, false, false]);
    assert.equal(requestTitles.length, 3);
  });

  it("runs a tool only if the permission answer is exactly `allow`", async (t) => {
    const answers: unknown[] = [
      false,
      undefined,
      null,
      "",
      "deny",
      "Allow",
      true,
      { allow: false },
      { outcome: "allow" },
    ];
    const failingFunctions = [() => Promise.reject(new Error("gone")), () => { throw new Error("gone"); }]; // prettier-ignore
    const answerFunctions = [...answers.map((answer) => () => Promise.resolve(answer)), ...failingFunctions];
    const toolCalls = answerFunctions.map((_, n) => ["t", { n }] as const);
    let callCount = 0;
    const provider = new ScriptedProvider([callTools(...toolCalls), callTools(["t", {}]), say("ok")]);
    const agent = createAgent(t, provider, {
      tools: [createTool("t", () => Promise.resolve({ text: `ran ${++callCount}` }), { needsPermission: true })],
    });
    let requestCount = 0;
    const ask = (() =>
      (answerFunctions[requestCount++] ?? (() => Promise.resolve("allow")))()) as unknown as NonNullable<
      RunInput["ask"]
    >;
    const run = await agent.run({ message: "x", ask });
    const outputs = (await readEvents(run)).flatMap((event) => (event.type === "tool_result" ? [event.output] : []));
    assert.equal(callCount, 1);
    assert.equal(outputs.at(-1), "ran 1");
    for (const output of outputs.slice(0, answers.length)) assert.match(output, /^The user rejected this call/);
    // A failed request counts as unanswered, not as refused.
    for (const output of outputs.slice(answers.length, -1)) assert.match(output, /no client could answer/);
  });

  it("stores `[cancelled before it ran]` for a call whose permission request was open at the cancel", async (t) => {
    for (const ignoresAbort of [false, true]) {
      const agent = createAgent(t, new ScriptedProvider([callTools(["t", {}])]), {
        tools: [createTool("t", () => Promise.resolve({ text: "ran" }), { needsPermission: true })],
      });
      const cancelController = new AbortController();
      const ask: NonNullable<RunInput["ask"]> = (_, signal) => {
        setImmediate(() => cancelController.abort());
        return new Promise((resolve, reject) => {
          signal.addEventListener("abort", () => {
            if (ignoresAbort) setImmediate(() => resolve("allow"));
            else reject(new Error("cancelled"));
          });
        });
      };
      const run = await agent.run({ message: "x", signal: cancelController.signal, ask });
      await assert.rejects(run.result, { code: "run_cancelled" });
      const lastMessage = (await agent.sessions.messages(run.sessionId)).at(-1);
      assert.deepEqual(lastMessage?.parts, [{ type: "text", text: "[cancelled before it ran]" }]);
    }
  });

  it("emits one error event as its last event when it fails or is cancelled", async (t) => {
    const permanentError = new ProviderError("scripted", "authentication", "no such key", { status: 401 });
    const agent = createAgent(t, new ScriptedProvider([permanentError, { hang: true }]));
    const events = await readEvents(await agent.run({ message: "x" }));
    assert.deepEqual(events, [{ type: "error", error: permanentError }]);
    const cancelController = new AbortController();
    const run = await agent.run({ message: "x", signal: cancelController.signal });
    cancelController.abort();
    assert.deepEqual(
      (await readEvents(run)).map((event) => event.type === "error" && (event.error as { code?: string }).code),
      ["run_cancelled"],
    );
  });

  it("is rejected with session_busy while its session runs in this or another agent on the same store", async (t) => {
    const store = new MemoryDocuments();
    const provider = new ScriptedProvider([{ hang: true }]);
    const firstAgent = createAgent(t, provider, { driver: new MemoryDriver(store) });
    const secondAgent = createAgent(t, new ScriptedProvider(), { driver: new MemoryDriver(store) });
    const cancelController = new AbortController();
    const run = await firstAgent.run({ message: "x", signal: cancelController.signal });
    for (const agent of [firstAgent, secondAgent])
      await assert.rejects(agent.run({ message: "y", sessionId: run.sessionId }), { code: "session_busy" });
    cancelController.abort();
    await assert.rejects(run.result, { code: "run_cancelled" });
    assert.equal((await (await secondAgent.run({ message: "y", sessionId: run.sessionId })).result).output, "ok");
  });

  it("is rejected while concurrentRuns runs are active; a run that fails to start or has ended frees its slot", async (t) => {
    const provider = new ScriptedProvider([{ hang: true }]);
    const agent = createAgent(t, provider, { concurrentRuns: 1 });
    await assert.rejects(agent.run({ message: "x", sessionId: "nope" }), { code: "session_not_found" });
    const cancelController = new AbortController();
    const run = await agent.run({ message: "x", signal: cancelController.signal });
    await assert.rejects(agent.run({ message: "y" }), { code: "too_many_runs" });
    await waitUntil(() => provider.requests.length === 1);
    cancelController.abort();
    await assert.rejects(run.result);
    await (
      await agent.run({ message: "y" })
    ).result;
  });

  it("is rejected for invalid input, with the name of the field or an error code", async (t) => {
    const agent = createAgent(t, new ScriptedProvider());
    await assert.rejects(agent.run({ message: " " }), { code: "invalid_input", field: "message" });
    await assert.rejects(agent.run({ message: "x", provider: 5 as unknown as string }), { field: "provider" });
    await assert.rejects(agent.run({ message: "x", projectDir: "relative" }), { field: "projectDir" });
    await assert.rejects(agent.run({ message: "x", projectDir: "/nonexistent/folder" }), { code: "project_folder" });
  });

  it("sends a text attachment as text with its file name, and a binary attachment as a file", async (t) => {
    const provider = new ScriptedProvider();
    const agent = createAgent(t, provider);
    const createFile = (filename: string, bytes: Uint8Array) => ({
      type: "file" as const,
      mediaType: "application/octet-stream",
      filename,
      data: Buffer.from(bytes).toString("base64"),
    });
    const run = await agent.run({
      message: "see",
      attachments: [createFile("a.txt", Buffer.from("über")), createFile("b.bin", Uint8Array.of(0xff, 0xfe, 0))],
    });
    await run.result;
    const parts = provider.requests[0]?.messages[0]?.parts ?? [];
    assert.deepEqual(
      parts.map((part) => (part.type === "text" ? part.text : part.type)),
      ["see", '<file name="a.txt">\nüber\n</file>', "file"],
    );
    const [storedMessage] = await agent.sessions.messages(run.sessionId);
    assert.deepEqual(
      storedMessage?.parts.map((part) => part.type),
      ["text", "file", "file"],
    );
  });

  it("keeps the prefix of requests unchanged, with tools sorted by name and AGENTS.md in the system prompt", async (t) => {
    const folder = await tempDir(t, { "AGENTS.md": "Use tabs." });
    const provider = new ScriptedProvider([callTools(["b", {}]), say("ok"), say("ok")]);
    const tools = ["c", "b", "a"].map((name) => createTool(name, () => Promise.resolve({ text: name })));
    const agent = createAgent(t, provider, { tools, projectDir: folder.path, systemPrompt: "Be brief." });
    const run = await agent.run({ message: "x" });
    await run.result;
    await (
      await agent.run({ message: "y", sessionId: run.sessionId })
    ).result;
    const [firstRequest, secondRequest, thirdRequest] = provider.requests;
    assert.deepEqual(
      firstRequest?.tools.map(({ name }) => name),
      ["a", "b", "c"],
    );
    assert.match(firstRequest?.system ?? "", /Be brief\.[\s\S]*Use tabs\./);
    assert.equal(firstRequest?.system, thirdRequest?.system);
    assert.deepEqual(secondRequest?.messages.slice(0, firstRequest?.messages.length), firstRequest?.messages);
    assert.deepEqual(thirdRequest?.messages.slice(0, secondRequest?.messages.length), secondRequest?.messages);
    assert.equal(new Set(provider.requests.map(({ cacheKey }) => cacheKey)).size, 1);
  });
});

describe("a provider error", () => {
  it("is retried if no text has arrived, and each retry is reported by model.retried", async (t) => {
    const provider = new ScriptedProvider([createTransientError(), createTransientError(), say("at last")], {
      maxRetries: 2,
    });
    const agent = createAgent(t, provider);
    const retries: number[] = [];
    agent.on("model.retried", ({ attempt }) => retries.push(attempt));
    assert.equal((await (await agent.run({ message: "x" })).result).output, "at last");
    assert.deepEqual(retries, [1, 2]);
  });

  it("is not retried if it is permanent, or after maxRetries attempts", async (t) => {
    const permanentError = new ProviderError("scripted", "authentication", "no such key", { status: 401 });
    const provider = new ScriptedProvider(
      [permanentError, createTransientError(), createTransientError(), say("never")],
      { maxRetries: 1 },
    );
    const agent = createAgent(t, provider);
    await assert.rejects((await agent.run({ message: "x" })).result, { message: "scripted: 401: no such key" });
    await assert.rejects((await agent.run({ message: "x" })).result, { message: "scripted: 529: busy" });
    assert.equal(provider.requests.length, 3);
  });

  it("after partial text leaves an unfinished message, which the next request of the session contains", async (t) => {
    const partialAnswer = {
      chunks: [{ type: "text" as const, block: "0", text: "Half an ans" }],
      fault: createTransientError(),
    };
    const provider = new ScriptedProvider([partialAnswer, say("whole")]);
    const agent = createAgent(t, provider);
    const run = await agent.run({ message: "x" });
    await assert.rejects(run.result, { code: "provider" });
    assert.equal((await agent.sessions.messages(run.sessionId))[1]?.finished, false);
    await (
      await agent.run({ message: "again", sessionId: run.sessionId })
    ).result;
    assert.deepEqual(
      provider.requests[1]?.messages.map((m) => m.parts.map((p) => (p.type === "text" ? p.text : ""))),
      [["x"], ["Half an ans"], ["again"]],
    );
  });

  it("has kind `timeout` if the provider sends nothing within idleTimeoutMs", async (t) => {
    const agent = createAgent(t, new ScriptedProvider([{ hang: true }], { idleTimeoutMs: 20 }));
    await assert.rejects((await agent.run({ message: "x" })).result, { code: "provider", kind: "timeout" });
  });

  it("has kind `protocol` if an answer ends without a finish chunk", async (t) => {
    const agent = createAgent(
      t,
      new ScriptedProvider([{ chunks: [{ type: "text", block: "0", text: "x" }], finish: false }]),
    );
    await assert.rejects((await agent.run({ message: "x" })).result, { code: "provider", kind: "protocol" });
  });
});

describe("a cancel", () => {
  it("ends a run whose model ignores the abort signal", async (t) => {
    const provider = new ScriptedProvider([]);
    provider.stream = async function* () {
      await new Promise(() => undefined);
    };
    const agent = createAgent(t, provider);
    const cancelController = new AbortController();
    const run = await agent.run({ message: "x", signal: cancelController.signal });
    cancelController.abort(new Error("my own reason"));
    await assert.rejects(run.result, { code: "run_cancelled" });
  });

  it("ends a run whose tool ignores the abort signal; each call gets one result, and no call runs again", async (t) => {
    let callCount = 0;
    const lateResult = createGate();
    const unresponsiveTool = createTool("deaf", async () => {
      callCount += 1;
      await lateResult.wait();
      return { text: "late" };
    });
    const provider = new ScriptedProvider([callTools(["deaf", {}, "a"], ["deaf", {}, "b"]), say("resumed")]);
    const agent = createAgent(t, provider, { tools: [unresponsiveTool] });
    const cancelController = new AbortController();
    const run = await agent.run({ message: "x", signal: cancelController.signal });
    await waitUntil(() => callCount === 1);
    cancelController.abort();
    await assert.rejects(run.result, { code: "run_cancelled" });
    await (
      await agent.run({ message: "go on", sessionId: run.sessionId })
    ).result;
    assert.equal(callCount, 1);
    const results = provider.requests[1]?.messages
      .filter((m) => m.role === "tool")
      .map((m) => [m.toolCallId, m.parts[0]]);
    assert.deepEqual(results, [
      ["a", { type: "text", text: "[interrupted: outcome unknown]" }],
      ["b", { type: "text", text: "[cancelled before it ran]" }],
    ]);
    lateResult.open();
  });

  it("before the start of a run rejects the run and creates no session", async (t) => {
    const agent = createAgent(t, new ScriptedProvider());
    await assert.rejects(agent.run({ message: "x", signal: AbortSignal.abort() }), { code: "run_cancelled" });
    assert.equal((await agent.sessions.list({ limit: 10 })).total, 0);
  });
});

describe("a session", () => {
  it("gets a generated title in the background, without quotes and extra spaces, from a single request", async (t) => {
    const provider = new ScriptedProvider([], { title: '"Fix the   parser."' });
    const agent = createAgent(t, provider);
    const titleUpdate = new Promise<string>((resolve) =>
      agent.on("session.updated", ({ session }) => resolve(session.title)),
    );
    const run = await agent.run({ message: "please fix the parser" });
    assert.match((await agent.sessions.get(run.sessionId))?.title ?? "", /^New Session \d{4}-\d\d-\d\dT/);
    assert.equal(await titleUpdate, "Fix the parser");
    assert.equal(provider.titleRequests[0]?.temperature, 0.3);
    await run.result;
    assert.equal((await agent.sessions.get(run.sessionId))?.usage.totalTokens, 15);
    await (
      await agent.run({ message: "more", sessionId: run.sessionId })
    ).result;
    assert.equal(provider.titleRequests.length, 1);
  });

  it("survives a failed title request: the run and the close succeed", async (t) => {
    const provider = new ScriptedProvider([], {
      title: new ProviderError("scripted", "server", "down", { status: 500 }),
    });
    const agent = createAgent(t, provider);
    const run = await agent.run({ message: "x" });
    await run.result;
    await agent.close();
    assert.match(
      (await agent.sessions.get(run.sessionId).catch(() => undefined))?.title ?? "New Session",
      /^New Session/,
    );
  });

  it("is titled with the first line of its prompt if the first run or the title request fails, until a later run generates one", async (t) => {
    const rejection = new ProviderError("scripted", "authentication", "no", { status: 401 });
    for (const firstSteps of [[rejection], [say("done"), rejection]]) {
      // Title requests take steps like the requests of the runs.
      const steps = [...firstSteps, say("done"), say("Fixed")];
      const agent = createAgent(t, new ScriptedProvider(steps, { title: null }));
      const waitForTitle = () =>
        new Promise<Session>((resolve) => {
          const stopListening = agent.on("session.updated", ({ session }) => {
            stopListening();
            resolve(session);
          });
        });
      const preliminaryTitle = waitForTitle();
      const prompt = `\n\nRepair the "parser"${" of the language".repeat(3)}\nand more`;
      const run = await agent.run({ message: prompt });
      await run.result.catch(() => undefined);
      const { title, hasFinalTitle } = await preliminaryTitle;
      assert.deepEqual(
        { title, hasFinalTitle },
        { title: 'Repair the "parser" of the language of the languag', hasFinalTitle: false },
      );
      const generatedTitle = waitForTitle();
      await (
        await agent.run({ message: "again", sessionId: run.sessionId })
      ).result;
      assert.equal((await generatedTitle).title, "Fixed");
    }
  });

  it("keeps its title `ACP Session` if the first run fails", async (t) => {
    const rejection = new ProviderError("scripted", "authentication", "no", { status: 401 });
    const agent = createAgent(t, new ScriptedProvider([rejection]));
    const { id } = await agent.sessions.create({ title: "ACP Session" });
    const run = await agent.run({ message: "Repair the parser", sessionId: id });
    await assert.rejects(run.result, { code: "provider" });
    await agent.close();
    assert.equal((await agent.sessions.get(id).catch(() => undefined))?.title ?? "ACP Session", "ACP Session");
  });

  it("requests one title when several prompts arrive before the title", async (t) => {
    let resolveTitle = (_: string): void => undefined;
    const title = new Promise<string>((resolve) => (resolveTitle = resolve));
    const provider = new ScriptedProvider([], { title: () => title });
    const agent = createAgent(t, provider);
    const { sessionId, result } = await agent.run({ message: "one" });
    await result;
    for (const message of ["two", "three"]) await (await agent.run({ message, sessionId })).result;
    const titleUpdate = new Promise((resolve) => agent.on("session.updated", resolve));
    resolveTitle("A title");
    await titleUpdate;
    assert.equal(provider.titleRequests.length, 1);
    await (
      await agent.run({ message: "four", sessionId })
    ).result;
    assert.equal(provider.titleRequests.length, 1);
  });

  it("keeps a title that a user sets while a title request is pending", async () => {
    let resolveTitle = (_: string): void => undefined;
    const title = new Promise<string>((resolve) => (resolveTitle = resolve));
    const agent = new Agent({ providers: [new ScriptedProvider([], { title: () => title })] });
    const run = await agent.run({ message: "one" });
    await run.result;
    await agent.sessions.update(run.sessionId, { title: "Mine" });
    const titles: string[] = [];
    agent.on("session.updated", ({ session }) => titles.push(session.title));
    const titleCall = new Promise((resolve) => agent.on("model.called", resolve));
    resolveTitle("Its");
    await titleCall;
    // After one more model call, the background work that follows the title has ended.
    await (
      await agent.run({ message: "two", sessionId: run.sessionId })
    ).result;
    assert.equal((await agent.sessions.get(run.sessionId))?.title, "Mine");
    assert.deepEqual(titles, []);
    await agent.close();
  });

  it("applies idleTimeoutMs to title requests, and reports their usage in model.called only", async (t) => {
    const provider = new ScriptedProvider([], { title: { hang: true }, idleTimeoutMs: 20, maxRetries: 0 });
    const warning = new Promise<string>((resolve) => {
      const warn = (message: string, fields?: object) =>
        message === "no title was generated" && resolve(JSON.stringify(fields));
      const agent = createAgent(t, provider, { logger: { ...silentLogger, warn } });
      void agent.run({ message: "x" });
    });
    assert.match(await warning, /scripted: timeout: no data/);

    const usageLines: string[] = [];
    const agent = createAgent(
      t,
      new ScriptedProvider([], { title: say("Named", { inputTokens: 3, outputTokens: 4 }) }),
    );
    agent.on("model.called", ({ usage, purpose }) => usageLines.push(`${purpose} ${usage.totalTokens}`));
    const titleUpdate = new Promise((resolve) => agent.on("session.updated", resolve));
    const run = await agent.run({ message: "x" });
    await Promise.all([run.result, titleUpdate]);
    assert.deepEqual(usageLines.sort(), ["answer 15", "title 7"]);
    assert.equal((await agent.sessions.get(run.sessionId))?.usage.totalTokens, 15);
  });

  it("can be created without a run, accepts a run by its alias, and rejects a second use of the alias", async (t) => {
    const agent = createAgent(t, new ScriptedProvider());
    const session = await agent.sessions.create({ title: "ACP Session", alias: "alias-1" });
    const run = await agent.run({ message: "x", sessionId: "alias-1" });
    assert.equal(run.sessionId, session.id);
    await assert.rejects(agent.sessions.create({ alias: "alias-1" }), { code: "session_exists" });
  });

  it("can be deleted during a run: the run fails with session_not_found, and no messages remain", async (t) => {
    const agent = createAgent(
      t,
      new ScriptedProvider([{ chunks: [{ type: "text", block: "0", text: "x" }], hang: true }]),
    );
    const run = await agent.run({ message: "x" });
    await agent.sessions.delete(run.sessionId);
    await assert.rejects(run.result, { code: "session_not_found" });
    await assert.rejects(agent.sessions.messages(run.sessionId), { code: "session_not_found" });
    await assert.rejects(agent.sessions.delete(run.sessionId), { code: "session_not_found" });
  });

  it("stores the provider and model of a run, and uses both for a later run without a requested model", async (t) => {
    const createModel = (id: string) => ({ id, name: id, ownedBy: "x" });
    const firstProvider = new ScriptedProvider([], { name: "one", models: [createModel("a"), createModel("b")] });
    const secondProvider = new ScriptedProvider([], { name: "two", models: [createModel("c")] });
    const agent = new Agent({ providers: [firstProvider, secondProvider] });
    t.after(() => agent.close());
    const run = await agent.run({ message: "x", provider: "two", model: "c" });
    await run.result;
    const nextRun = await agent.run({ message: "x", sessionId: run.sessionId });
    assert.deepEqual([nextRun.provider, nextRun.model.id], ["two", "c"]);
    await nextRun.result;
  });

  it("sends reasoning back only to the provider that produced it", async (t) => {
    const reasoning = [
      { type: "reasoning" as const, block: "r", text: "hmm" },
      { type: "reasoning" as const, block: "r", text: "", opaque: { signature: "s" } },
      ...say("answer"),
    ];
    const createModel = (id: string) => ({ id, name: id, ownedBy: "x" });
    const firstProvider = new ScriptedProvider([reasoning, say("b"), say("d")], {
      name: "one",
      models: [createModel("a")],
    });
    const secondProvider = new ScriptedProvider([say("c")], { name: "two", models: [createModel("a")] });
    const agent = new Agent({ providers: [firstProvider, secondProvider] });
    t.after(() => agent.close());
    const { sessionId, result } = await agent.run({ message: "1", provider: "one", model: "a" });
    await result;
    await (
      await agent.run({ message: "2", sessionId })
    ).result;
    await (
      await agent.run({ message: "3", sessionId, provider: "two", model: "a" })
    ).result;
    await (
      await agent.run({ message: "4", sessionId, provider: "one", model: "a" })
    ).result;
    const expectedPart = {
      type: "reasoning",
      text: "hmm",
      opaque: { provider: "one", model: "a", data: { signature: "s" } },
    };
    assert.deepEqual(firstProvider.requests[1]?.messages[1]?.parts[0], expectedPart);
    assert.deepEqual(
      secondProvider.requests[0]?.messages[1]?.parts.map((part) => part.type),
      ["text"],
    );
    assert.deepEqual(firstProvider.requests[2]?.messages[1]?.parts[0], expectedPart);
  });
});

describe("the lifecycle of an agent", () => {
  it("close() ends runs with shutting_down, rejects new runs, and closes tools and providers", async () => {
    const provider = new ScriptedProvider([{ hang: true }]);
    const closedToolNames: string[] = [];
    const close = () => Promise.resolve(void closedToolNames.push("kept"));
    const tools = ["kept", "plain"].map((name) =>
      createTool(name, () => Promise.resolve({ text: "" }), name === "kept" ? { close } : {}),
    );
    const agent = new Agent({ providers: [provider], tools });
    const run = await agent.run({ message: "x" });
    const closePromise = agent.close();
    await assert.rejects(run.result, { code: "shutting_down" });
    await closePromise;
    await agent.close();
    await assert.rejects(agent.run({ message: "x" }), { code: "shutting_down" });
    assert.equal(provider.closed, true);
    assert.deepEqual(closedToolNames, ["kept"]);
  });

  it("`await using` closes the agent at the end of its block", async () => {
    const provider = new ScriptedProvider([{ hang: true }]);
    let rejection: Promise<void> | undefined;
    {
      await using agent = new Agent({ providers: [provider] });
      const run = await agent.run({ message: "x" });
      rejection = assert.rejects(run.result, { code: "shutting_down" });
    }
    await rejection;
    assert.equal(provider.closed, true);
  });

  it("the constructor rejects duplicate tool names and duplicate provider names", () => {
    const tool = createTool("t", () => Promise.resolve({ text: "" }));
    assert.throws(() => new Agent({ providers: [], tools: [tool, tool] }), { field: "tools" });
    assert.throws(() => new Agent({ providers: [new ScriptedProvider(), new ScriptedProvider()] }), {
      field: "providers",
    });
  });
});
