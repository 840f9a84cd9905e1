import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, ProviderError, type AgentEvent, type AgentOptions, type Message, type Run, type Tool } from "gantry";
import type { CompactionStrategy, ModelMessage, ModelProvider, SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider } from "gantry/testing";
import { findNewest } from "../../../src/testing/session-driver/driver-calls.js";
import { QUICK_STORES, STORES, memoryStore } from "../../helpers/stores.js";
import {
  findHistoryFaults,
  WindowProvider,
  type WindowProviderOptions,
} from "../../helpers/context-window-provider.js";

const GOAL = "GOAL: build the bridge";

let fillCount = 0;

/** Returns the requested number of bytes, each time with different content, so that the loop detection does not act. */
const fillTool: Tool<{ bytes: number }> = {
  name: "fill",
  description: "Gives text.",
  inputSchema: { type: "object", properties: { bytes: { type: "number", description: "how many" } } },
  kind: "read",
  parallel: true,
  needsPermission: false,
  parse: (input) => input as { bytes: number },
  describe: () => ({ title: "Fill", locations: [] }),
  run: ({ bytes }) =>
    Promise.resolve({ text: `begin ${"lorem ipsum dolor ".repeat(Math.ceil(bytes / 18))} ${++fillCount} end` }),
};

/**
 * The default strategy is the sliding window, because the test providers count each model call as a call of the
 * conversation.
 */
function createAgent(
  t: TestContext,
  provider: ModelProvider,
  driver: SessionDriver,
  { compaction, ...otherOptions }: Partial<AgentOptions> = {},
): Agent {
  const compactionOptions = { strategy: "sliding-window", ...compaction };
  const agent = new Agent({
    providers: [provider],
    driver,
    tools: [fillTool],
    compaction: compactionOptions,
    ...otherOptions,
  });
  t.after(() => agent.close());
  return agent;
}

async function createMemoryDriver(t: TestContext): Promise<SessionDriver> {
  return (await memoryStore[1](t))();
}

async function readEvents(run: Run): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  for await (const event of run) events.push(event);
  await run.result;
  return events;
}

async function runAndWait(agent: Agent, message: string, sessionId?: string): Promise<Run> {
  const run = await agent.run({ message, ...(sessionId === undefined ? {} : { sessionId }) });
  await run.result;
  return run;
}

const toText = (message: ModelMessage | undefined): string =>
  (message?.parts ?? []).map((part) => ("text" in part ? part.text : "")).join("");

/** In `turn <n>`, the model calls a tool and then answers. In turn 50 of 100, the tool output exceeds the window. */
function createTurnAnswers(windowTokens: number): WindowProviderOptions["answer"] {
  return ({ messages }) => {
    const lastMessage = messages.at(-1);
    const turn = Number(/turn (\d+)/.exec(toText(messages.findLast((message) => message.role === "user")))?.[1] ?? 0);
    if (lastMessage?.role === "tool") return `answer ${turn} ${"blah ".repeat(30)}`;
    return [["fill", { bytes: turn % 100 === 50 ? windowTokens * 4 : 300 }]];
  };
}

/** The soak test uses more windows and longer conversations. */
const IS_SOAK = process.env.STORES === "all";
const WINDOW_SIZES_TOKENS = IS_SOAK ? [4_000, 8_000, 128_000] : [4_000, 128_000];
const TURN_COUNT = IS_SOAK ? 300 : 100;
/** Each turn has four messages: prompt, call, result, answer. */
const MESSAGE_COUNT = TURN_COUNT * 4;

describe(`a conversation of ${TURN_COUNT} turns`, () => {
  for (const [name, makeStore] of QUICK_STORES) {
    for (const windowTokens of WINDOW_SIZES_TOKENS) {
      it(`stays within ${windowTokens} tokens, is stored completely and continues in a second agent (${name})`, async (t) => {
        const openDriver = await makeStore(t);
        const provider = new WindowProvider({
          window: windowTokens,
          answer: ({ messages, ...otherFields }, call) => {
            if (!messages.some((message) => message.role === "user" && toText(message).includes(GOAL))) {
              provider.violations.push("the goal is gone");
            }
            return createTurnAnswers(windowTokens)({ messages, ...otherFields }, call);
          },
        });
        const agent = createAgent(t, provider, openDriver());
        const compactionIds: string[] = [];
        agent.on("session.compacted", ({ rootId, from, to }) => compactionIds.push(rootId, from, to));
        const { sessionId } = await runAndWait(agent, `${GOAL}. turn 1`);
        const filler = windowTokens > 100_000 ? "more ".repeat(90_000 / TURN_COUNT) : "";
        for (let turn = 2; turn <= TURN_COUNT; turn++) await runAndWait(agent, `turn ${turn} ${filler}`, sessionId);

        assert.deepEqual(provider.violations, []);
        assert.equal(provider.refusedCount, 0);
        assert.ok(
          provider.largestRequestTokens > windowTokens * 0.3,
          `largest request: ${provider.largestRequestTokens} tokens`,
        );
        assert.ok(compactionIds.length > 0);
        assert.ok(compactionIds.filter((_, i) => i % 3 === 0).every((rootId) => rootId === sessionId));

        const allMessages = await agent.sessions.messages(sessionId);
        assert.deepEqual(
          allMessages.map((message) => message.seq),
          Array.from({ length: MESSAGE_COUNT }, (_, i) => i + 1),
        );
        assert.equal(new Set(allMessages.map((message) => message.id)).size, MESSAGE_COUNT);
        assert.deepEqual(findHistoryFaults(allMessages), []);
        for (let turn = 1; turn <= TURN_COUNT; turn++) {
          assert.match(toText(allMessages[turn * 4 - 4]), new RegExp(`turn ${turn}( |$)`));
          assert.match(toText(allMessages[turn * 4 - 1]), new RegExp(`^answer ${turn} `));
        }
        assert.ok(toText(allMessages[50 * 4 - 2]).length >= windowTokens * 4, "stored outputs are complete");
        // Every session of the chain returns the whole conversation.
        assert.equal((await agent.sessions.messages(compactionIds.at(-1)!)).length, MESSAGE_COUNT);
        const page = await agent.sessions.messages(sessionId, { after: MESSAGE_COUNT / 2, limit: 3 });
        assert.deepEqual(
          page.map((message) => message.seq),
          [1, 2, 3].map((n) => MESSAGE_COUNT / 2 + n),
        );

        const { sessions, total } = await agent.sessions.list({ limit: 10 });
        assert.equal(total, 1);
        assert.equal(sessions[0]?.id, sessionId);
        assert.equal(sessions[0].title, "A title");
        assert.equal(sessions[0].usage.completionTokens, TURN_COUNT * 2 * 20, "20 tokens per model call");
        assert.ok(sessions[0].updatedAt >= allMessages.at(-1)!.createdAt);

        // A second agent continues the session with its own driver, as in another process.
        const secondAgent = createAgent(t, provider, openDriver());
        await runAndWait(secondAgent, `turn ${TURN_COUNT + 1}`, compactionIds[1]);
        assert.deepEqual(provider.violations, []);
        assert.equal(provider.refusedCount, 0);
        assert.equal((await secondAgent.sessions.messages(sessionId)).length, MESSAGE_COUNT + 4);
        const view = await secondAgent.sessions.messages(sessionId, { view: "model" });
        assert.match(toText(view[0]), new RegExp(GOAL));
        assert.match(toText(view.at(-1)), new RegExp(`^answer ${TURN_COUNT + 1}`));

        await secondAgent.sessions.delete(compactionIds.at(-1)!);
        assert.equal((await secondAgent.sessions.list({ limit: 10 })).total, 0);
        assert.equal(await secondAgent.sessions.get(sessionId), undefined);
      });
    }
  }
});

describe("compaction", () => {
  it("runs several times in one turn, reports each time, and is the only change to the request prefix", async (t) => {
    let previousPrefix: string[] = [];
    let prefixChangeCount = 0;
    const provider = new WindowProvider({
      window: 4_000,
      answer: ({ system, tools, messages }, call) => {
        const prefix = [system, JSON.stringify(tools), ...messages.map((message) => JSON.stringify(message))];
        if (previousPrefix.some((piece, i) => piece !== prefix[i])) prefixChangeCount += 1;
        previousPrefix = prefix;
        return call <= 60 ? [["fill", { bytes: call === 30 ? 50_000 : 500 }]] : "done";
      },
    });
    const agent = createAgent(t, provider, await createMemoryDriver(t));
    let compactionCount = 0;
    agent.on("session.compacted", () => (compactionCount += 1));
    const run = await agent.run({ message: GOAL });
    const events = await readEvents(run);
    const compactions = events.filter((event) => event.type === "compaction");
    // Each compaction leaves room for several calls.
    assert.ok(compactions.length >= 3 && compactions.length <= 15, `${compactions.length} compactions`);
    assert.equal(prefixChangeCount, compactions.length);
    for (const { strategy, messages, tokens } of compactions) {
      assert.equal(strategy, "sliding-window");
      assert.ok(messages > 1 && messages < 60);
      assert.ok(tokens > 3_200 && tokens < 4_500, `${tokens} tokens before`);
    }
    assert.deepEqual(provider.violations, []);
    assert.equal(provider.refusedCount, 0);
    assert.equal((await run.result).iterations, 61);
    assert.equal((await agent.sessions.messages(run.sessionId)).length, 1 + 60 * 2 + 1);
    // Later runs change the prefix only with a compaction.
    await runAndWait(agent, "again", run.sessionId);
    await runAndWait(agent, "and again", run.sessionId);
    assert.equal(prefixChangeCount, compactionCount);
  });

  it("cuts each of several tool outputs of one answer that together exceed the window", async (t) => {
    const provider = new WindowProvider({
      window: 4_000,
      answer: (_request, call) =>
        call === 1 ? Array.from({ length: 8 }, () => ["fill", { bytes: 50_000 }] as const) : "done",
    });
    const agent = createAgent(t, provider, await createMemoryDriver(t));
    const run = await runAndWait(agent, GOAL);
    assert.equal(provider.refusedCount, 0);
    assert.deepEqual(provider.violations, []);
    const results = provider.lastRequest?.messages.filter((message) => message.role === "tool") ?? [];
    assert.equal(results.length, 8);
    for (const result of results) assert.match(toText(result), /^begin [\s\S]*bytes cut from the middle[\s\S]* end$/);
    assert.ok((await agent.sessions.messages(run.sessionId)).every((message) => !toText(message).includes("cut from")));
  });

  it("cuts the middle of a prompt that exceeds the window, and stores the complete prompt", async (t) => {
    const provider = new WindowProvider({ window: 4_000, answer: () => "ok" });
    const agent = createAgent(t, provider, await createMemoryDriver(t));
    const prompt = `${GOAL} ${"x".repeat(40_000)} and nothing else`;
    const run = await runAndWait(agent, prompt);
    assert.equal(provider.refusedCount, 0);
    assert.match(toText(provider.lastRequest?.messages[0]), /^GOAL[\s\S]*cut from the middle[\s\S]*and nothing else$/);
    assert.equal(toText((await agent.sessions.messages(run.sessionId))[0]), prompt);
  });

  it("shortens the first prompt to 2,000 characters, and keeps the current prompt and the message ids", async (t) => {
    const provider = new WindowProvider({
      window: 8_000,
      answer: (_request, call) => (call % 2 ? [["fill", { bytes: 900 }]] : "ok"),
    });
    const agent = createAgent(t, provider, await createMemoryDriver(t), { compaction: { keepMessages: 4 } });
    const { sessionId } = await runAndWait(agent, `${GOAL} ${"y".repeat(5_000)}`);
    for (let turn = 0; turn < 20; turn++) await runAndWait(agent, `prompt ${turn} ${"z".repeat(600)}`, sessionId);
    const view = await agent.sessions.messages(sessionId, { view: "model" });
    const [firstMessage] = view;
    assert.ok(toText(firstMessage).startsWith(GOAL));
    assert.equal(firstMessage?.parts[0]?.type === "text" && firstMessage.parts[0].text.length, 2_000);
    assert.match(toText(firstMessage), /left out to save room/);
    assert.ok(view.some((message) => toText(message).startsWith("prompt 19 ")));
    // Copies keep their ids, so that a client can fork or revert at each message of the view.
    const allMessages = await agent.sessions.messages(sessionId);
    for (const message of view)
      assert.equal(allMessages.find((candidate) => candidate.id === message.id)?.seq, message.seq);
  });

  it("omits answers when texts fill the window, and keeps the first and the current prompt", async (t) => {
    const provider = new WindowProvider({
      window: 4_000,
      answer: ({ messages }) => {
        if (!toText(messages[0]).startsWith(GOAL)) provider.violations.push("goal lost");
        return `said ${"w".repeat(900)}`;
      },
    });
    const agent = createAgent(t, provider, await createMemoryDriver(t), { compaction: { keepMessages: 1_000 } });
    const { sessionId } = await runAndWait(agent, GOAL);
    for (let turn = 2; turn <= 30; turn++) {
      await runAndWait(agent, `turn ${turn}`, sessionId);
      assert.equal(toText(provider.lastRequest?.messages.at(-1)), `turn ${turn}`);
    }
    assert.deepEqual(provider.violations, []);
    assert.equal(provider.refusedCount, 0);
    assert.match(toText(provider.lastRequest?.messages[0]), /left out to save room/);
  });

  it("keeps the current prompt in each request of a long turn", async (t) => {
    const provider = new WindowProvider({
      window: 4_000,
      answer: ({ messages }, call) => {
        if (call === 1) return "hello";
        if (!messages.some((message) => toText(message).includes("TASK: paint it")))
          provider.violations.push("task lost");
        return call < 60 ? [["fill", { bytes: 400 }]] : "done";
      },
    });
    const agent = createAgent(t, provider, await createMemoryDriver(t), { compaction: { keepMessages: 4 } });
    const { sessionId } = await runAndWait(agent, GOAL);
    await runAndWait(agent, "TASK: paint it", sessionId);
    assert.deepEqual(provider.violations, []);
  });

  it("retries with a smaller conversation when the provider reports that the prompt is too long", async (t) => {
    const provider = new WindowProvider({
      window: 3_000,
      reportedWindow: 128_000,
      answer: (_request, call) => (call < 40 ? [["fill", { bytes: 700 }]] : "done"),
    });
    const agent = createAgent(t, provider, await createMemoryDriver(t));
    const run = await agent.run({ message: GOAL });
    const events = await readEvents(run);
    assert.ok(provider.refusedCount > 0 && provider.refusedCount < 8, `${provider.refusedCount} refused`);
    assert.deepEqual(provider.violations, []);
    assert.ok(events.some((event) => event.type === "compaction"));
    assert.equal((await run.result).output, "done");
  });

  it("reaches a window that is smaller than known with one rejected request if the error names the window", async (t) => {
    for (const [namesWindow, minCount, maxCount] of [
      [true, 1, 1],
      [false, 2, 5],
    ] as const) {
      const provider = new WindowProvider({
        ...{ window: 10_000, reportedWindow: 1_000_000, namesWindow },
        answer: (_request, call) => (call === 1 ? Array(6).fill(["fill", { bytes: 20_000 }]) : "done"),
      });
      const agent = createAgent(t, provider, await createMemoryDriver(t));
      const run = await agent.run({ message: GOAL });
      assert.equal((await run.result).output, "done");
      const { refusedCount } = provider;
      assert.ok(refusedCount >= minCount && refusedCount <= maxCount, `${refusedCount} refused`);
    }
  });

  it("fails with the provider's context_length error after at most 7 requests", async (t) => {
    const fault = new ProviderError("scripted", "context_length", "always too long", { status: 400 });
    const provider = new ScriptedProvider([], { fallback: fault });
    const agent = createAgent(t, provider, await createMemoryDriver(t));
    const run = await agent.run({ message: GOAL });
    await assert.rejects(run.result, { code: "provider", kind: "context_length", message: /always too long/ });
    assert.ok(provider.requests.length <= 7, `${provider.requests.length} requests`);
  });

  it("ignores a reported token count that is far too low", async (t) => {
    const provider = new WindowProvider({
      window: 4_000,
      reportTokens: () => 10,
      answer: (_request, call) => (call < 60 ? [["fill", { bytes: 500 }]] : "done"),
    });
    await runAndWait(createAgent(t, provider, await createMemoryDriver(t)), GOAL);
    assert.equal(provider.refusedCount, 0);
  });

  it("uses the reported token count if it is higher than the estimate", async (t) => {
    const provider = new WindowProvider({
      window: 8_000,
      bytesPerToken: 2,
      answer: (_request, call) => (call < 60 ? [["fill", { bytes: 500 }]] : "done"),
    });
    await runAndWait(createAgent(t, provider, await createMemoryDriver(t)), GOAL);
    assert.equal(provider.refusedCount, 0);
    assert.ok(provider.largestRequestTokens <= 8_000 * 0.85);
  });

  it("leaves at least 1,000 tokens for the answer", async (t) => {
    const provider = new WindowProvider({
      window: 8_000,
      maxOutput: 8_000,
      answer: ({ maxTokens }, call) => {
        assert.ok(maxTokens !== undefined && maxTokens >= 1_000);
        return call < 60 ? [["fill", { bytes: 900 }]] : "done";
      },
    });
    await runAndWait(createAgent(t, provider, await createMemoryDriver(t), { compaction: { threshold: 1 } }), GOAL);
    assert.equal(provider.refusedCount, 0);
  });

  it("assumes 128,000 tokens for an unknown window with one warning, and prefers the configured window", async (t) => {
    const warnings: string[] = [];
    const logger = {
      debug: () => undefined,
      info: () => undefined,
      error: () => undefined,
      warn: (message: string) => void warnings.push(message),
    };
    const providerWithoutWindow = new WindowProvider({ window: 1_000_000, reportedWindow: null, answer: () => "ok" });
    const agent = createAgent(t, providerWithoutWindow, await createMemoryDriver(t), { logger });
    const { sessionId } = await runAndWait(agent, `${GOAL} ${"v".repeat(360_000)}`);
    await runAndWait(agent, "more", sessionId);
    assert.ok(providerWithoutWindow.largestRequestTokens < 128_000 * 0.8);
    assert.equal(warnings.filter((warning) => warning.includes("context window of the model is unknown")).length, 1);

    const configuredProvider = new WindowProvider({ window: 1_000_000, answer: () => "ok" });
    await runAndWait(
      createAgent(t, configuredProvider, await createMemoryDriver(t), { compaction: { contextWindow: 5_000 } }),
      "w".repeat(90_000),
    );
    assert.ok(configuredProvider.largestRequestTokens <= 4_000);
  });

  it("shortens the system prompt and tool schemas for a small window, but no tool descriptions for a large one", async (t) => {
    const folder = process.cwd();
    const tools: Tool[] = Array.from({ length: 12 }, (_, i) => ({
      ...fillTool,
      name: `tool${i}`,
      description: `Does thing ${i}. ${"And it has a long story. ".repeat(10)}`,
      inputSchema: { type: "object", properties: { description: { type: "string", description: "q".repeat(300) } } },
    }));
    const provider = new WindowProvider({ window: 4_000, answer: () => "ok" });
    await runAndWait(
      createAgent(t, provider, await createMemoryDriver(t), {
        tools,
        systemPrompt: "rule ".repeat(5_000),
        projectDir: folder,
      }),
      GOAL,
    );
    assert.equal(provider.refusedCount, 0);
    assert.deepEqual(provider.lastRequest?.tools[0]?.inputSchema, {
      type: "object",
      properties: { description: { type: "string" } },
    });
    assert.match(provider.lastRequest.system, /^You are a coding agent/);
    const largeProvider = new WindowProvider({ window: 128_000, answer: () => "ok" });
    await runAndWait(createAgent(t, largeProvider, await createMemoryDriver(t), { tools }), GOAL);
    assert.equal(largeProvider.lastRequest?.tools[0]?.description, tools[0]?.description);
  });

  it("can be disabled: an oversized prompt then fails with context_length", async (t) => {
    const provider = new WindowProvider({ window: 2_000, answer: () => "ok" });
    const agent = createAgent(t, provider, await createMemoryDriver(t), { compaction: { enabled: false } });
    const run = await agent.run({ message: "u".repeat(20_000) });
    await assert.rejects(run.result, { kind: "context_length" });
    assert.equal(provider.refusedCount, 1);
  });

  it("rejects an unknown strategy, a threshold of 0 and keepMessages of 0", () => {
    const providers = [new ScriptedProvider()];
    assert.throws(() => new Agent({ providers, compaction: { strategy: "magic" } }), {
      code: "invalid_input",
      message: "compaction.strategy: expected sliding-window, summary",
    });
    assert.throws(() => new Agent({ providers, compaction: { threshold: 0 } }), { code: "invalid_input" });
    assert.throws(() => new Agent({ providers, compaction: { keepMessages: 0 } }), { code: "invalid_input" });
  });

  it("keeps tool call ids unique in a long run whose model repeats its ids", async (t) => {
    const steps = Array.from({ length: 30 }, () => callTools(["fill", { bytes: 600 }]));
    const provider = new ScriptedProvider([...steps, "done"], {
      models: [{ id: "m", name: "m", ownedBy: "", contextWindow: 4_000 }],
    });
    const agent = createAgent(t, provider, await createMemoryDriver(t));
    const { sessionId } = await runAndWait(agent, GOAL);
    assert.deepEqual(findHistoryFaults(await agent.sessions.messages(sessionId)), []);
    for (const { messages } of provider.requests) assert.deepEqual(findHistoryFaults(messages), []);
  });

  it("leaves a session that can continue after a crash before the first message of the follow-up", async (t) => {
    for (const [, makeStore] of STORES) {
      const openDriver = await makeStore(t);
      const provider = new WindowProvider({ window: 4_000, answer: createTurnAnswers(4_000) });
      const firstAgent = createAgent(t, provider, openDriver());
      const { sessionId } = await runAndWait(firstAgent, `${GOAL}. turn 1`);
      let followUp = "";
      firstAgent.on("session.compacted", ({ to }) => (followUp = to));
      for (let turn = 2; followUp === ""; turn++) await runAndWait(firstAgent, `turn ${turn}`, sessionId);
      await firstAgent.close();
      // The state after a crash that follows the creation of the follow-up: the follow-up has no messages.
      const driver = openDriver();
      await driver.open();
      const newest = await findNewest(driver, sessionId);
      assert.equal(newest?.id, followUp);
      const view = (await driver.dump(followUp))?.sessions.find(({ session }) => session.id === followUp)?.view ?? [];
      const earlierMessages = await driver.messages(sessionId, { scope: "chain", before: newest.lastSeq });
      const { chain: _, ...fields } = newest;
      const emptyFollowUp = { ...fields, id: "dead", lastSeq: newest.lastSeq, chain: { root: sessionId, index: 7 } };
      await driver.create({ session: emptyFollowUp, view });
      await driver.close();

      const resumedAgent = createAgent(t, provider, openDriver());
      const { sessionId: resumedId } = await runAndWait(resumedAgent, "turn 77", sessionId);
      assert.equal(resumedId, sessionId);
      const resumedView = await resumedAgent.sessions.messages(sessionId, { view: "model" });
      assert.deepEqual(findHistoryFaults(resumedView), []);
      assert.match(toText(resumedView.at(-1)), /^answer 77/);
      assert.equal((await resumedAgent.sessions.messages(sessionId)).length, earlierMessages.length + 1 + 4);
      assert.deepEqual(provider.violations, []);
    }
  });
});

describe("compaction strategies", () => {
  const createSummaryProvider = (createSummary: (transcript: string) => string | Error): ScriptedProvider => {
    let callCount = 0;
    return new ScriptedProvider([], {
      models: [{ id: "m", name: "m", ownedBy: "", contextWindow: 4_000, prices: { input: 1, output: 1 } }],
      fallback: (request) => {
        if (request.tools.length === 0) return createSummary(toText(request.messages[0]));
        callCount += 1;
        return callCount < 40 ? callTools(["fill", { bytes: 500, step: callCount }]) : "done";
      },
    });
  };

  it("summary: the model summarizes the removed messages and the previous summary", async (t) => {
    const transcripts: string[] = [];
    const provider = createSummaryProvider((transcript) => {
      transcripts.push(transcript);
      return `SUMMARY ${transcripts.length}`;
    });
    const agent = createAgent(t, provider, await createMemoryDriver(t), { compaction: { strategy: "summary" } });
    const run = await agent.run({ message: GOAL });
    const events = await readEvents(run);
    const compactions = events.filter((event) => event.type === "compaction");
    assert.ok(transcripts.length >= 2);
    assert.equal(transcripts.length, compactions.length);
    assert.ok(compactions.every((event) => event.strategy === "summary"));
    for (const transcript of transcripts) assert.match(transcript, /\[calls fill \{"bytes":500/);
    assert.match(transcripts[1] ?? "", /SUMMARY 1/);
    const lastMessages = provider.requests.filter((request) => request.tools.length > 0).at(-1)?.messages ?? [];
    const summaries = lastMessages.filter((message) => message.role === "user" && toText(message).includes("SUMMARY"));
    assert.deepEqual(
      summaries.map((message) => /SUMMARY \d+/.exec(toText(message))?.[0]),
      [`SUMMARY ${transcripts.length}`],
    );
    assert.ok(toText(lastMessages[0]).startsWith(GOAL));
    assert.deepEqual(findHistoryFaults(lastMessages), []);
    // A compaction is not a turn, but its tokens are counted.
    const { usage, iterations } = await run.result;
    assert.equal(iterations, 40);
    assert.equal(usage.completionTokens, (40 + transcripts.length) * 5);
    assert.deepEqual((await agent.sessions.get(run.sessionId))?.usage, usage);
    const allMessages = await agent.sessions.messages(run.sessionId);
    assert.ok(
      !allMessages.some((message) => toText(message).includes("SUMMARY")),
      "no stored message contains a summary",
    );
    assert.deepEqual(
      allMessages.map((message) => message.seq),
      allMessages.map((_, i) => i + 1),
    );
    const seqs = (await agent.sessions.messages(run.sessionId, { view: "model" })).map((message) => message.seq);
    assert.deepEqual(
      seqs,
      [...new Set(seqs)].sort((a, b) => a - b),
    );
  });

  for (const [outcome, createReply] of [
    ["fails", () => new ProviderError("scripted", "server", "no", { status: 500 })],
    ["returns only white space", () => " "],
  ] as const) {
    it(`summary: the sliding window replaces the strategy when the summary request ${outcome}`, async (t) => {
      const provider = createSummaryProvider(createReply);
      const agent = createAgent(t, provider, await createMemoryDriver(t), { compaction: { strategy: "summary" } });
      const run = await agent.run({ message: GOAL });
      const compactions = (await readEvents(run)).filter((event) => event.type === "compaction");
      assert.ok(compactions.length > 0);
      assert.ok(compactions.every((event) => event.strategy === "sliding-window"));
      assert.equal((await run.result).output, "done");
    });
  }

  it("summary: a cancel ends a pending summary request", async (t) => {
    const controller = new AbortController();
    let callCount = 0;
    const provider = new ScriptedProvider([], {
      models: [{ id: "m", name: "m", ownedBy: "", contextWindow: 4_000 }],
      fallback: (request) => {
        if (request.tools.length > 0) return callTools(["fill", { bytes: 500, step: ++callCount }]);
        controller.abort();
        return { hang: true };
      },
    });
    const agent = createAgent(t, provider, await createMemoryDriver(t), { compaction: { strategy: "summary" } });
    const run = await agent.run({ message: GOAL, signal: controller.signal });
    await assert.rejects(run.result, { code: "run_cancelled" });
  });

  it("custom: the result of the strategy becomes the view, repaired and within the window", async (t) => {
    const messageCounts: number[] = [];
    const customStrategy: CompactionStrategy = {
      name: "mine",
      compact({ messages, budget, keepMessages, estimate }) {
        messageCounts.push(messages.length);
        assert.deepEqual(findHistoryFaults(messages), []);
        assert.ok(budget > 0 && estimate(messages) > 0);
        assert.equal(keepMessages, 6);
        const [firstMessage, ...laterMessages] = messages as [Message, ...Message[]];
        const note = { ...firstMessage, id: "", parts: [{ type: "text" as const, text: "NOTE" }] };
        // This view exceeds the window, and its first tool result has no call.
        const firstResultIndex = laterMessages.findIndex((message) => message.role === "tool");
        return Promise.resolve([firstMessage, note, ...laterMessages.slice(firstResultIndex)]);
      },
    };
    const provider = new WindowProvider({
      window: 4_000,
      answer: (_request, call) => (call < 40 ? [["fill", { bytes: 500 }]] : "done"),
    });
    const agent = createAgent(t, provider, await createMemoryDriver(t), {
      compaction: { strategy: customStrategy, keepMessages: 6 },
    });
    const run = await agent.run({ message: GOAL });
    const events = await readEvents(run);
    assert.ok(messageCounts.length > 0);
    assert.ok(events.some((event) => event.type === "compaction" && event.strategy === "mine"));
    assert.deepEqual(provider.violations, []);
    assert.equal(provider.refusedCount, 0);
    assert.ok(provider.lastRequest?.messages.some((message) => toText(message) === "NOTE"));
    const view = await agent.sessions.messages(run.sessionId, { view: "model" });
    assert.deepEqual(findHistoryFaults(view), []);
    assert.equal(new Set(view.map((message) => message.id)).size, view.length);
  });

  it("custom: the sliding window replaces a strategy that rejects or returns no message", async (t) => {
    for (const compact of [() => Promise.reject(new Error("no")), () => Promise.resolve([])]) {
      const provider = new WindowProvider({
        window: 4_000,
        answer: (_request, call) => (call < 30 ? [["fill", { bytes: 500 }]] : "done"),
      });
      const agent = createAgent(t, provider, await createMemoryDriver(t), {
        compaction: { strategy: { name: "bad", compact } },
      });
      const compactions = (await readEvents(await agent.run({ message: GOAL }))).filter(
        ({ type }) => type === "compaction",
      );
      assert.ok(compactions.length > 0);
      assert.ok(compactions.every((event) => event.type === "compaction" && event.strategy === "sliding-window"));
    }
  });

  it("custom: a strategy that never settles blocks neither a cancel nor a close", async (t) => {
    const controller = new AbortController();
    let callCount = 0;
    const stuckStrategy = {
      name: "stuck",
      compact: () => {
        callCount += 1;
        // The client cancels the first call, and the close cancels the second.
        if (callCount === 1) controller.abort();
        else void agent.close();
        return new Promise<never>(() => undefined);
      },
    };
    const provider = new WindowProvider({
      window: 4_000,
      answer: (_request, call) => (call < 60 ? [["fill", { bytes: 500 + call }]] : "done"),
    });
    const agent = createAgent(t, provider, await createMemoryDriver(t), { compaction: { strategy: stuckStrategy } });
    const firstRun = await agent.run({ message: GOAL, signal: controller.signal });
    await assert.rejects(firstRun.result, { name: "RunCancelledError" });
    const secondRun = await agent.run({ message: GOAL });
    await assert.rejects(secondRun.result, { name: "ShuttingDownError" });
    await agent.close();
    assert.equal(callCount, 2);
  });
});
