import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, ProviderError, type AgentEvent, type AgentOptions, type ProviderErrorKind, type Run } from "gantry";
import type { ModelChunk, ModelMessage } from "gantry/plugin";
import { callTools, finish, say, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { CONTINUE_INSTRUCTION } from "../../../src/conversation/messages.js";
import { noopTool } from "../../helpers/noop-tool.js";
import { STORES } from "../../helpers/stores.js";

function createAgent(t: TestContext, provider: ScriptedProvider, options: Partial<AgentOptions> = {}): Agent {
  const agent = new Agent({ providers: [provider], tools: [noopTool], ...options });
  t.after(() => agent.close());
  return agent;
}

const createText = (content: string): ModelChunk => ({ type: "text", block: "t", text: content });
const createReasoning = (content: string): ModelChunk => ({ type: "reasoning", block: "r", text: content });
/** A fault with a retry delay of 1 ms. */
const createFault = (kind: ProviderErrorKind = "network", details: { status?: number; hint?: string } = {}) =>
  new ProviderError("scripted", kind, "it broke", { retryAfterMs: 1, ...details });
const createBrokenStep = (chunks: readonly ModelChunk[], kind?: ProviderErrorKind) => ({
  chunks,
  fault: createFault(kind),
});

async function readEvents(run: Run): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  for await (const event of run) events.push(event);
  return events;
}

const toTexts = (messages: readonly ModelMessage[] | undefined) =>
  (messages ?? []).map(
    ({ role, parts }) => `${role}: ${parts.map((part) => ("text" in part ? part.text : part.type)).join(" | ")}`,
  );

describe("an interrupted answer", () => {
  for (const [name, makeStore] of STORES) {
    it(`with text is stored as unfinished, and the retry continues it (${name})`, async (t) => {
      const provider = new ScriptedProvider(
        [createBrokenStep([createReasoning("hm"), createText("Half an")], "overloaded"), say(" answer.")],
        {
          maxRetries: 1,
        },
      );
      const agent = createAgent(t, provider, { driver: (await makeStore(t))() });
      const retryEvents: unknown[] = [];
      agent.on("model.retried", (event) => retryEvents.push(event));
      const run = await agent.run({ message: "x" });
      const events = await readEvents(run);
      const { output, iterations, finishReason } = await run.result;
      assert.deepEqual([output, iterations, finishReason], ["Half an answer.", 1, "stop"]);
      assert.equal(
        events.map((event) => (event.type === "token" ? (event.text ?? "") : "")).join(""),
        "Half an answer.",
      );
      const [, partialAnswer, continuation] = await agent.sessions.messages(run.sessionId);
      assert.deepEqual(
        partialAnswer?.parts.map((part) => ("text" in part ? `${part.type}: ${part.text}` : part.type)),
        ["reasoning: hm", "text: Half an"],
      );
      assert.deepEqual([partialAnswer?.finished, continuation?.finished], [false, true]);
      // Partial reasoning is not sent back. A user message follows the partial answer, so that the roles alternate.
      assert.deepEqual(toTexts(provider.requests[1]?.messages), [
        "user: x",
        "assistant: Half an",
        `user: ${CONTINUE_INSTRUCTION}`,
      ]);
      const retryEvent = events.find((event) => event.type === "retry");
      assert.equal(retryEvent?.messageId, partialAnswer?.id);
      assert.equal(retryEvent?.attempt, 1);
      assert.equal(retryEvent?.error.message, "scripted: overloaded: it broke");
      assert.equal(retryEvents.length, 1);

      // Later requests contain the same messages, so that the prefix does not change.
      await (
        await agent.run({ message: "more", sessionId: run.sessionId })
      ).result;
      assert.deepEqual(toTexts(provider.requests[2]?.messages), [
        "user: x",
        "assistant: Half an",
        `user: ${CONTINUE_INSTRUCTION}`,
        "assistant:  answer.",
        "user: more",
      ]);
    });
  }

  it("with reasoning only is requested again, and the reasoning is stored as unfinished", async (t) => {
    const provider = new ScriptedProvider([createBrokenStep([createReasoning("let me")]), say("yes")], {
      maxRetries: 1,
    });
    const agent = createAgent(t, provider);
    const run = await agent.run({ message: "x" });
    assert.equal((await run.result).output, "yes");
    assert.deepEqual(toTexts(provider.requests[1]?.messages), ["user: x"]);
    const storedMessages = await agent.sessions.messages(run.sessionId);
    assert.deepEqual(toTexts(storedMessages), ["user: x", "assistant: let me", "assistant: yes"]);
    assert.deepEqual(
      storedMessages.map((message) => message.finished),
      [true, false, true],
    );
  });

  it("with a tool call is requested again with the text before it, and the incomplete call does not run", async (t) => {
    const [toolCall] = callTools(["noop", { n: 1 }]);
    const provider = new ScriptedProvider(
      [
        createBrokenStep([{ type: "tool_input", text: '{"n"' }]),
        createBrokenStep([createText("I do it."), { type: "tool_input", text: "{" }, toolCall!]),
        callTools(["noop", { n: 1 }]),
        say("Done."),
      ],
      { maxRetries: 2 },
    );
    let callCount = 0;
    const countingTool = { ...noopTool, run: () => Promise.resolve({ text: `run ${++callCount}` }) };
    const agent = createAgent(t, provider, { tools: [countingTool] });
    const { output, iterations } = await (await agent.run({ message: "x" })).result;
    assert.deepEqual([output, iterations, callCount], ["Done.", 2, 1]);
    assert.deepEqual(toTexts(provider.requests[1]?.messages), ["user: x"]);
    assert.deepEqual(toTexts(provider.requests[2]?.messages), [
      "user: x",
      "assistant: I do it.",
      `user: ${CONTINUE_INSTRUCTION}`,
    ]);
  });

  it("without a finish chunk or with a protocol error is continued", async (t) => {
    const provider = new ScriptedProvider(
      [{ chunks: [createText("a")], finish: false }, createBrokenStep([createText("b")], "protocol"), say("c")],
      { maxRetries: 2 },
    );
    const run = await createAgent(t, provider).run({ message: "x" });
    assert.equal((await run.result).output, "abc");
  });

  it("ends the run when the retries are used up, and all partial answers are stored", async (t) => {
    const provider = new ScriptedProvider(
      [createBrokenStep([createText("a")]), createBrokenStep([createText("b")]), createBrokenStep([createText("c")])],
      {
        maxRetries: 2,
      },
    );
    const agent = createAgent(t, provider);
    const run = await agent.run({ message: "x" });
    const events = await readEvents(run);
    await assert.rejects(run.result, { code: "provider", kind: "network" });
    assert.equal(events.filter(({ type }) => type === "retry").length, 2);
    assert.deepEqual(events.at(-1)?.type, "error");
    assert.deepEqual(toTexts(await agent.sessions.messages(run.sessionId)), [
      "user: x",
      "assistant: a",
      "assistant: b",
      "assistant: c",
    ]);
  });

  it("is stored as unfinished if a cancel interrupted it", async (t) => {
    const agent = createAgent(t, new ScriptedProvider([{ chunks: [createText("Half")], hang: true }]));
    const cancelController = new AbortController();
    const run = await agent.run({ message: "x", signal: cancelController.signal });
    for await (const event of run) if (event.type === "token") cancelController.abort();
    await assert.rejects(run.result, { code: "run_cancelled" });
    const [, partialAnswer] = await agent.sessions.messages(run.sessionId);
    assert.deepEqual([partialAnswer?.finished, toTexts([partialAnswer!])], [false, ["assistant: Half"]]);
  });

  it("is unfinished in a fork, too", async (t) => {
    const agent = createAgent(t, new ScriptedProvider([createBrokenStep([createText("Half")])]));
    const run = await agent.run({ message: "x" });
    await assert.rejects(run.result);
    const [, partialAnswer] = await agent.sessions.messages(run.sessionId);
    const fork = await agent.sessions.fork(run.sessionId, partialAnswer!.id);
    assert.equal((await agent.sessions.messages(fork.id))[1]?.finished, false);
  });
});

describe("a retry delay requested by the provider", () => {
  it("is applied if it is short, and ends the run at once with the reason if it exceeds 60 s", async (t) => {
    const createRateLimit = (retryAfterMs: number) =>
      new ProviderError("scripted", "rate_limit", "Slow down.", { status: 429, retryAfterMs });
    const provider = new ScriptedProvider([createRateLimit(1), createRateLimit(3_600_000), say("never")], {
      maxRetries: 5,
    });
    const agent = createAgent(t, provider);
    await assert.rejects((await agent.run({ message: "x" })).result, {
      message: "scripted: 429: requested wait of 3600 s exceeds max_wait (60 s): Slow down.",
      kind: "rate_limit",
      retryAfterMs: 3_600_000,
    });
    assert.equal(provider.requests.length, 2);
  });

  it("ends the run if it exceeds the provider's maxWaitMs", async (t) => {
    const rateLimit = new ProviderError("scripted", "rate_limit", "Slow down.", { status: 429, retryAfterMs: 20 });
    const provider = new ScriptedProvider([rateLimit], { maxRetries: 5, maxWaitMs: 10 });
    // The message rounds 10 ms up to 1 s.
    await assert.rejects((await createAgent(t, provider).run({ message: "x" })).result, /exceeds max_wait \(1 s\)/);
  });
});

describe("an invalid answer of the model", () => {
  const invalidAnswers: readonly (readonly [name: string, step: ScriptedStep, reasonPattern: RegExp])[] = [
    ["an empty answer", { chunks: [] }, /the model's answer was empty/],
    ["only white space", [createText(" \n")], /the model's answer was empty/],
    ["only reasoning", [createReasoning("hm")], /answer contained only reasoning/],
    [
      "reasoning up to the token limit",
      [createReasoning("hm"), finish("length")],
      /output limit before the end of its reasoning/,
    ],
    ["finish reason tool_calls without a call", [finish("tool_calls")], /announced a tool call but made none/],
    ["a tool call without a name", callTools(["", {}]), /made a tool call without a name/],
    ["an answer that the adapter cannot parse", createFault("malformed_answer"), /it broke/],
  ];
  for (const [name, step, reasonPattern] of invalidAnswers) {
    it(`is retried three times with a correction: ${name}`, async (t) => {
      const provider = new ScriptedProvider([step, step, step, say("There.")]);
      const agent = createAgent(t, provider);
      const run = await agent.run({ message: "x" });
      const events = await readEvents(run);
      assert.equal((await run.result).output, "There.");
      const retryEvents = events.filter((event) => event.type === "retry");
      assert.deepEqual(
        retryEvents.map(({ attempt }) => attempt),
        [1, 2, 3],
      );
      for (const { error } of retryEvents) assert.match(error.message, reasonPattern);
      const correction = provider.requests[1]?.messages.at(-1);
      assert.equal(correction?.role, "user");
      assert.match(toTexts([correction])[0]!, reasonPattern);
      // The correction is only in the request. The stored messages are unchanged.
      const storedTexts = toTexts(await agent.sessions.messages(run.sessionId));
      assert.ok(!storedTexts.some((text) => text.includes("could not be used")));
      assert.equal(storedTexts.at(-1), "assistant: There.");
    });

    it(`ends the run with the reason after the fourth invalid answer: ${name}`, async (t) => {
      const provider = new ScriptedProvider([], { fallback: step });
      const run = await createAgent(t, provider).run({ message: "x" });
      await assert.rejects(run.result, (error) => {
        assert.match(String(error), reasonPattern);
        return (error as ProviderError).kind === "malformed_answer";
      });
      assert.equal(provider.requests.length, 4);
    });
  }

  it("after a tool result is retried with alternating roles, and the tokens of the invalid answer count", async (t) => {
    const provider = new ScriptedProvider([callTools(["noop", {}]), [finish("stop")], say("Done.")]);
    const agent = createAgent(t, provider);
    const run = await agent.run({ message: "x" });
    const { output, usage, sessionUsage } = await run.result;
    assert.deepEqual([output, usage.totalTokens, sessionUsage.totalTokens], ["Done.", 45, 45]);
    assert.deepEqual(
      provider.requests[2]?.messages.map(({ role }) => role),
      ["user", "assistant", "tool", "assistant", "user"],
    );
  });

  it("with text is continued from that text", async (t) => {
    const provider = new ScriptedProvider([
      { chunks: [createText("I write.")], fault: createFault("malformed_answer", { hint: "Mend it." }) },
      callTools(["noop", {}]),
      say("Done."),
    ]);
    const agent = createAgent(t, provider);
    const run = await agent.run({ message: "x" });
    assert.equal((await run.result).output, "Done.");
    const sentMessages = toTexts(provider.requests[1]?.messages);
    assert.equal(sentMessages.length, 3);
    assert.equal(sentMessages[2], `user: ${CONTINUE_INSTRUCTION} | [Mend it.]`);
  });

  it('does not include a withheld answer, which ends with finishReason "content_filter"', async (t) => {
    const provider = new ScriptedProvider([[finish("content_filter")]]);
    const { output, finishReason } = await (await createAgent(t, provider).run({ message: "x" })).result;
    assert.deepEqual([output, finishReason], ["", "content_filter"]);
  });
});

describe("a model that repeats its tool calls", () => {
  it("is warned from the fourth call on, and its run fails with repeated_calls at the 16th call", async (t) => {
    const provider = new ScriptedProvider([], { fallback: callTools(["noop", { a: 1 }]) });
    const agent = createAgent(t, provider);
    const run = await agent.run({ message: "x" });
    await assert.rejects(run.result, {
      code: "repeated_calls",
      message: "the model called noop 16 times without getting anything new; the run was ended",
    });
    assert.equal(provider.requests.length, 16);
    const results = (await agent.sessions.messages(run.sessionId)).filter(({ role }) => role === "tool");
    assert.deepEqual(
      results.map((message) => /made (\d+) times/.exec(toTexts([message])[0]!)?.[1]),
      [undefined, undefined, undefined, ...Array.from({ length: 13 }, (_, i) => String(i + 4))],
    );
  });

  it("is detected if it repeats a cycle of three calls", async (t) => {
    let callCount = 0;
    const provider = new ScriptedProvider([], { fallback: () => callTools(["noop", { step: ++callCount % 3 }]) });
    await assert.rejects((await createAgent(t, provider).run({ message: "x" })).result, { code: "repeated_calls" });
    assert.equal(provider.requests.length, 16 * 3, "the run ends after 16 cycles");
  });

  it("is not detected if results change, or if repeated calls alternate with different calls", async (t) => {
    let pollCount = 0;
    const clockTool = { ...noopTool, run: () => Promise.resolve({ text: `tick ${Math.floor(++pollCount / 3)}` }) };
    const pollingProvider = new ScriptedProvider([], { fallback: callTools(["noop", {}]) });
    const pollingRun = await createAgent(t, pollingProvider, { tools: [clockTool], maxIterations: 60 }).run({
      message: "x",
    });
    assert.equal((await pollingRun.result).endedBy, "max_iterations");
    let callCount = 0;
    const testingProvider = new ScriptedProvider([], {
      fallback: () => callTools(++callCount % 2 ? ["noop", { test: true }] : ["noop", { edit: callCount }]),
    });
    const testingRun = await createAgent(t, testingProvider, { maxIterations: 60 }).run({ message: "x" });
    assert.equal((await testingRun.result).endedBy, "max_iterations");
  });

  it("is not detected for 40 identical calls in one answer", async (t) => {
    const calls = Array.from({ length: 40 }, () => ["noop", {}] as const);
    const provider = new ScriptedProvider([callTools(...calls), say("Done.")]);
    assert.equal((await (await createAgent(t, provider).run({ message: "x" })).result).output, "Done.");
  });
});

it("an interrupted answer keeps the roles valid through a compaction", async (t) => {
  let requestCount = 0;
  const provider = new ScriptedProvider([], {
    maxRetries: 1,
    models: [{ id: "m", name: "m", ownedBy: "x", contextWindow: 4_000 }],
    fallback: ({ messages }) => {
      requestCount += 1;
      const roles = messages.filter(({ role }) => role !== "tool").map(({ role }) => role);
      // Adapters join consecutive user messages.
      assert.ok(!roles.join().includes("assistant,assistant"), roles.join());
      assert.equal(roles.at(-1), "user");
      return requestCount % 2 === 0
        ? createBrokenStep([createText(`half ${requestCount} ${"word ".repeat(60)}`)])
        : say(`whole ${requestCount} ${"word ".repeat(60)}`);
    },
  });
  const agent = createAgent(t, provider, { compaction: { strategy: "sliding-window" } });
  let compactionCount = 0;
  agent.on("session.compacted", () => (compactionCount += 1));
  let sessionId: string | undefined;
  for (let turn = 0; turn < 30; turn++) {
    const run = await agent.run({ message: `turn ${turn}`, ...(sessionId === undefined ? {} : { sessionId }) });
    assert.match((await run.result).output, /whole \d+ /);
    ({ sessionId } = run);
  }
  assert.ok(compactionCount > 0);
  const storedMessages = await agent.sessions.messages(sessionId ?? "");
  // In each turn but the first, the first answer is interrupted.
  assert.equal(storedMessages.filter(({ finished }) => !finished).length, 29);
});
