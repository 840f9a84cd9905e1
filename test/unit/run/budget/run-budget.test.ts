import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import {
  Agent,
  defineTool,
  MemoryDriver,
  ProviderError,
  type AgentEvent,
  type AgentOptions,
  type Budget,
  type Run,
} from "gantry";
import { estimatePrompt, type Model, type ModelRequest, type ModelChunk, type ModelProvider } from "gantry/plugin";
import { callTools, finish, say, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { mockTime, waitTurns, waitForConditionInTurns } from "../../../helpers/fake-time.js";
import { noopTool } from "../../../helpers/noop-tool.js";
import { STORES } from "../../../helpers/stores.js";
import { WindowProvider } from "../../../helpers/context-window-provider.js";

/** The tokens that a budget expects for a prompt: also 64 bytes for what a provider's format adds to each message. */
const estimateForBudget = (request: ModelRequest): number =>
  estimatePrompt(request) + Math.ceil((request.messages.length * 64) / 3);

/** One USD per thousand output tokens, half of it per thousand prompt tokens. */
const PRICED: Model = {
  id: "m",
  name: "M",
  ownedBy: "o",
  maxOutput: 4_000,
  contextWindow: 100_000,
  prices: { input: 500, output: 1000 },
};

interface TestAgent {
  agent: Agent;
  provider: ScriptedProvider;
}

function createAgent(
  t: TestContext,
  steps: readonly ScriptedStep[],
  options: Partial<AgentOptions> = {},
  providerOptions: ConstructorParameters<typeof ScriptedProvider>[1] = {},
): TestAgent {
  let callCount = 0;
  const provider = new ScriptedProvider(steps, {
    models: [PRICED],
    fallback: () => [
      ...callTools(["noop", { n: (callCount += 1) }]).slice(0, -1),
      finish("tool_calls", providerOptions.usage),
    ],
    ...providerOptions,
  });
  // A prompt of a fixed size, independent of the agent's instructions.
  const promptOptions = { prompt: "replace", systemPrompt: "Work as you are told. ".repeat(50) } as const;
  const agent = new Agent({
    providers: [provider],
    tools: [noopTool],
    projectInstructions: false,
    ...promptOptions,
    ...options,
  });
  t.after(() => agent.close());
  return { agent, provider };
}

const createText = (content: string): ModelChunk => ({ type: "text", block: "t", text: content });

/** Collects all events of a run. */
async function readEvents(run: Run): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  for await (const event of run) events.push(event);
  return events;
}

/** An answer without an end that ignores its token limit: one token per chunk. */
const ENDLESS_STEP: ScriptedStep = {
  chunks: Array.from({ length: 20_000 }, (_, i) => createText(`w${i % 10} `)),
  hang: true,
};

describe("a token or USD budget", () => {
  for (const [name, makeStore] of STORES) {
    it(`ends a run that never stops calling tools, without exceeding 5 USD (${name})`, async (t) => {
      const driver = (await makeStore(t))();
      const { agent, provider } = createAgent(
        t,
        [],
        { driver, maxIterations: 10_000, budget: { usd: 5 } },
        {
          usage: { inputTokens: 1000, outputTokens: 50 },
        },
      );
      const run = await agent.run({ message: "x" });
      const events = await readEvents(run);
      const result = await run.result;
      assert.deepEqual([result.endedBy, result.finishReason], ["budget", "length"]);
      assert.ok(result.usage.cost <= 5 && result.usage.cost > 3.5, `${result.usage.cost} USD`);
      assert.equal(provider.requests.length, result.iterations);
      assert.deepEqual(events.at(-1), { type: "done", usage: result.usage, endedBy: "budget" });
      const record = await agent.runs.get(run.id);
      assert.deepEqual([record?.state, record?.endedBy, record?.usage], ["finished", "budget", result.usage]);
      // Every call has a result, and the session can continue.
      const nextRun = await agent.run({ message: "y", sessionId: run.sessionId });
      assert.equal((await nextRun.result).endedBy, "budget");
    });
  }

  it("sets maxTokens of a request to what the budget can pay, and ends the run when the answer reaches it", async (t) => {
    const { agent, provider } = createAgent(t, [
      ({ maxTokens = Infinity }) => [
        createText("a lot"),
        // Fewer tokens than allowed, but the finish reason still reports the limit.
        finish("length", { inputTokens: 200, outputTokens: Math.min(maxTokens, 4000) - 100 }),
      ],
    ]);
    const run = await agent.run({ message: "x", systemPrompt: "", budget: { usd: 1 } });
    const { usage, endedBy, finishReason, output, iterations } = await run.result;
    assert.deepEqual([endedBy, finishReason, output, iterations], ["budget", "length", "a lot", 1]);
    const requestedTokens = provider.requests[0]?.maxTokens ?? Infinity;
    assert.ok(requestedTokens < 1000 && requestedTokens > 100, `${requestedTokens}`);
    assert.ok(usage.cost <= 1, `${usage.cost} USD`);
  });

  it("sets no maxTokens if it covers the longest possible answer", async (t) => {
    const { agent, provider } = createAgent(t, [say("ok")]);
    await (
      await agent.run({ message: "x", budget: { usd: 100 } })
    ).result;
    assert.equal(provider.requests[0]?.maxTokens, undefined);
  });

  it("sets no maxTokens if the model's own limit is lower, and estimates a prompt from the reported token count", async (t) => {
    const smallModel = createAgent(t, [say("ok")], {}, { models: [{ ...PRICED, maxOutput: 500 }] });
    await (
      await smallModel.agent.run({ message: "x", budget: { tokens: 4_000 } })
    ).result;
    assert.equal(smallModel.provider.requests[0]?.maxTokens, undefined);
    const callingStep = [
      ...callTools(["noop", {}]).slice(0, -1),
      finish("tool_calls", { inputTokens: 250, outputTokens: 10 }),
    ];
    const { agent, provider } = createAgent(
      t,
      [callingStep, say("ok")],
      {},
      { models: [{ ...PRICED, maxOutput: 50_000 }] },
    );
    await (
      await agent.run({ message: "x".repeat(600), budget: { tokens: 10_000 } })
    ).result;
    const [firstRequest, secondRequest] = provider.requests;
    assert.ok(firstRequest && secondRequest);
    const expectedTokens = 10_000 - 260 - 250 - (estimateForBudget(secondRequest) - estimateForBudget(firstRequest));
    assert.ok(
      Math.abs((secondRequest.maxTokens ?? 0) - expectedTokens) <= 1,
      `${secondRequest.maxTokens} of ${expectedTokens}`,
    );
  });

  it("does not end an answer of many characters if the model's own token limit fits the budget", async (t) => {
    const textChunks = Array.from({ length: 100 }, () => createText("abcdefghi".repeat(20)));
    const { agent } = createAgent(t, [[...textChunks, finish("stop", { inputTokens: 250, outputTokens: 4_000 })]]);
    const run = await agent.run({ message: "x", budget: { tokens: 5_500 } });
    const { endedBy, output, usage } = await run.result;
    assert.deepEqual([endedBy, output.length, usage.totalTokens], ["model", 18_000, 4_250]);
  });

  it("ends an answer that ignores its token limit, within 2,000 tokens, and stores the partial answer", async (t) => {
    const { agent } = createAgent(t, [ENDLESS_STEP]);
    const run = await agent.run({ message: "x", budget: { tokens: 2_000 } });
    const { usage, endedBy, finishReason, output } = await run.result;
    assert.deepEqual([endedBy, finishReason], ["budget", "length"]);
    assert.ok(usage.totalTokens <= 2_000 && usage.totalTokens > 1_500, `${usage.totalTokens}`);
    assert.ok(output.startsWith("w0 w1 w2 ") && output.length > 1_000);
    const messages = await agent.sessions.messages(run.sessionId);
    assert.deepEqual(
      messages.map(({ role, finished }) => [role, finished]),
      [
        ["user", true],
        ["assistant", true],
      ],
    );
    // The session, whose usage includes this run, can continue.
    const nextRun = await agent.run({ message: "y", sessionId: run.sessionId });
    assert.equal((await nextRun.result).endedBy, "max_iterations");
  });

  it("makes no model call, not even for the title, if the prompt alone exceeds it", async (t) => {
    const { agent, provider } = createAgent(t, []);
    const run = await agent.run({ message: "x", budget: { usd: 0.001 } });
    const { endedBy, finishReason, iterations, output, usage } = await run.result;
    assert.deepEqual([endedBy, finishReason, iterations, output, usage.totalTokens], ["budget", "length", 0, "", 0]);
    assert.deepEqual([provider.requests.length, provider.titleRequests.length], [0, 0]);
  });

  it("limits the run to the lower of the agent's and the requested budget", async (t) => {
    const providerOptions = { usage: { inputTokens: 200, outputTokens: 10 } };
    for (const [configuredBudget, requestBudget] of [
      [{ tokens: 3_000 }, { tokens: 1_000_000 }],
      [{ tokens: 1_000_000 }, { tokens: 3_000 }],
    ] as const) {
      const { agent } = createAgent(t, [], { budget: configuredBudget, maxIterations: 10_000 }, providerOptions);
      const { usage, endedBy } = await (await agent.run({ message: "x", budget: requestBudget })).result;
      assert.equal(endedBy, "budget");
      assert.ok(usage.totalTokens <= 3_000, `${usage.totalTokens}`);
    }
  });

  it("limits the total of all runs of a session if it is a session budget, and a fork starts with its own usage", async (t) => {
    const driver = new MemoryDriver();
    const providerOptions = { usage: { inputTokens: 300, outputTokens: 50 }, fallback: "ok" };
    const { agent } = createAgent(t, [], { driver, sessionBudget: { usd: 2 } }, providerOptions);
    const firstRun = await agent.run({ message: "x" });
    let endedBy = (await firstRun.result).endedBy;
    let runCount = 1;
    for (; endedBy === "model" && runCount < 20; runCount += 1)
      endedBy = (await (await agent.run({ message: "x", sessionId: firstRun.sessionId })).result).endedBy;
    const spentUsd = (await agent.sessions.get(firstRun.sessionId))?.usage.cost ?? 0;
    assert.equal(endedBy, "budget");
    assert.ok(spentUsd <= 2 && spentUsd > 1, `${spentUsd} USD`);
    const fork = await agent.sessions.fork(
      firstRun.sessionId,
      (await agent.sessions.messages(firstRun.sessionId)).at(-1)?.id ?? "",
    );
    // The fork is a separate session with its own usage.
    assert.equal((await (await agent.run({ message: "x", sessionId: fork.id })).result).endedBy, "model");
  });

  it("counts the usage of a session along its chain, across compactions", async (t) => {
    let callCount = 0;
    const provider = new WindowProvider({
      window: 4_000,
      answer: () => [["noop", { text: "word ".repeat(200), n: (callCount += 1) }]],
    });
    const agent = new Agent({
      providers: [provider],
      tools: [noopTool],
      projectInstructions: false,
      maxIterations: 15,
      sessionBudget: { tokens: 60_000 },
    });
    t.after(() => agent.close());
    let compactionCount = 0;
    agent.on("session.compacted", () => (compactionCount += 1));
    const endReasons: string[] = [];
    let sessionId: string | undefined;
    while (endReasons.at(-1) !== "budget" && endReasons.length < 20) {
      const run = await agent.run({ message: "Go on.", ...(sessionId === undefined ? {} : { sessionId }) });
      sessionId = run.sessionId;
      endReasons.push((await run.result).endedBy);
    }
    const spentTokens = (await agent.sessions.get(sessionId ?? ""))?.usage.totalTokens ?? 0;
    assert.ok(
      compactionCount > 0 && endReasons.length > 1 && endReasons.at(-1) === "budget",
      `${compactionCount} ${endReasons.join()}`,
    );
    assert.ok(spentTokens <= 60_000 && spentTokens > 50_000, `${spentTokens}`);
    assert.deepEqual(provider.violations, []);
  });

  it("ends a run in spite of a steering message, in fewer than 12 model calls", async (t) => {
    const { agent, provider } = createAgent(
      t,
      [],
      { sessionBudget: { tokens: 3_000 } },
      { usage: { inputTokens: 250, outputTokens: 10 } },
    );
    const run = await agent.run({ message: "x" });
    const pendingResult = run.result;
    await agent.runs.steer(run.id, "And go on.");
    assert.equal((await pendingResult).endedBy, "budget");
    await agent.close();
    const requestCount = provider.requests.length;
    assert.ok(requestCount < 12, `${requestCount}`);
  });

  it("counts the tokens of interrupted answers", async (t) => {
    const brokenStep = {
      chunks: Array.from({ length: 100 }, () => createText("word ")),
      fault: new ProviderError("scripted", "network", "it broke", { retryAfterMs: 1 }),
    };
    const { agent, provider } = createAgent(
      t,
      Array.from({ length: 50 }, () => brokenStep),
      {},
      { maxRetries: 50 },
    );
    const run = await agent.run({ message: "x", budget: { tokens: 3_000 } });
    const { endedBy, usage, output, iterations } = await run.result;
    assert.deepEqual([endedBy, iterations], ["budget", 0]);
    assert.ok(usage.totalTokens <= 3_000 && usage.totalTokens > 1_000, `${usage.totalTokens}`);
    assert.ok(provider.requests.length < 20);
    assert.equal(output, "word ".repeat(100 * provider.requests.length));
  });

  it("counts a minimum by text length and price if the provider reports too few tokens or no cost", async (t) => {
    const longText = "x".repeat(40_000);
    const falseUsage = { inputTokens: 1, outputTokens: 1 };
    const models = [{ ...PRICED, maxOutput: 100_000, contextWindow: 10_000_000 }];
    const answerWithFalseUsage = [
      createText(longText),
      ...callTools(["noop", {}]).slice(0, -1),
      finish("tool_calls", falseUsage),
    ];
    const { agent, provider } = createAgent(t, [answerWithFalseUsage, say("ok")], {}, { models });
    await (
      await agent.run({ message: "x", budget: { tokens: 50_000 } })
    ).result;
    const [, secondRequest] = provider.requests;
    assert.ok(secondRequest);
    // No known tokenizer has more than eight characters per token, so the answer counts as at least that many tokens.
    const expectedTokens = 50_000 - 2 - (40_000 / 8 - 1) - estimateForBudget(secondRequest);
    assert.ok(
      Math.abs((secondRequest.maxTokens ?? 0) - expectedTokens) <= 2,
      `${secondRequest.maxTokens} of ${expectedTokens}`,
    );
    const freeUsage = { inputTokens: 1000, outputTokens: 100, cost: 0, costReported: true };
    const freeModel = createAgent(t, [], { maxIterations: 1_000 }, { usage: freeUsage });
    assert.equal((await (await freeModel.agent.run({ message: "x", budget: { usd: 3 } })).result).endedBy, "budget");
    assert.ok(freeModel.provider.requests.length <= 5, `${freeModel.provider.requests.length}`);
  });

  it("generates no title if 20 tokens do not cover the first model call", async (t) => {
    const { agent, provider } = createAgent(
      t,
      [callTools(["noop", {}])],
      {},
      { usage: { inputTokens: 1, outputTokens: 1 } },
    );
    const run = await agent.run({ message: "x", budget: { tokens: 20 } });
    assert.equal((await run.result).endedBy, "budget");
    await agent.close();
    assert.deepEqual([provider.requests.length, provider.titleRequests.length], [0, 0]);
  });

  it("makes no model call for a summary that it does not cover, and ends the run", async (t) => {
    const usage = { inputTokens: 10, outputTokens: 10 };
    const models = [{ ...PRICED, contextWindow: 3_000, maxOutput: 500 }];
    const { agent, provider } = createAgent(
      t,
      [],
      { compaction: { strategy: "summary", keepMessages: 2 }, budget: { tokens: 800 } },
      { usage, models, fallback: "ok" },
    );
    const firstRun = await agent.run({ message: "word ".repeat(1_200) });
    assert.equal((await firstRun.result).endedBy, "budget");
    assert.equal(provider.requests.length, 0);
  });
});

describe("a model with an unknown price", () => {
  const { prices: _, ...unpricedModel } = PRICED;

  it("rejects a USD budget before anything is stored, and accepts a token budget", async (t) => {
    const { agent } = createAgent(
      t,
      [],
      {},
      { models: [unpricedModel], usage: { inputTokens: 500, outputTokens: 10 } },
    );
    await assert.rejects(agent.run({ message: "x", budget: { usd: 1 } }), {
      code: "model_selection",
      message: /the price of scripted\/m is unknown, .*; set limits\.unknown_price/,
    });
    assert.deepEqual((await agent.sessions.list()).sessions, []);
    assert.equal((await (await agent.run({ message: "x", budget: { tokens: 5_000 } })).result).endedBy, "budget");
  });

  it("is charged at the agent's unknownPrice", async (t) => {
    const providerOptions = { models: [unpricedModel], usage: { inputTokens: 1000, outputTokens: 100 } };
    const unknownPrice = { input: 500, output: 1000 };
    const { agent } = createAgent(t, [], { unknownPrice, maxIterations: 100 }, providerOptions);
    const { usage, endedBy } = await (await agent.run({ message: "x", budget: { usd: 3 } })).result;
    assert.equal(endedBy, "budget");
    assert.ok(usage.cost <= 3 && usage.cost > 1.5, `${usage.cost} USD`);
  });

  it("is charged at the price that the provider's prices() returns for the prompt", async (t) => {
    const promptTokens: number[] = [];
    const { agent, provider } = createAgent(
      t,
      [],
      { maxIterations: 100 },
      { models: [unpricedModel], usage: { cost: 0.5 } },
    );
    (provider as ModelProvider).prices = (_model, tokens) => {
      promptTokens.push(tokens);
      return Promise.resolve({ input: 500, output: 1000 });
    };
    const { usage, endedBy } = await (await agent.run({ message: "x", budget: { usd: 3 } })).result;
    assert.equal(endedBy, "budget");
    assert.ok(usage.cost <= 3 && usage.cost >= 2, `${usage.cost} USD`);
    assert.ok((promptTokens.at(-1) ?? 0) > 100);
    const endlessAgent = createAgent(t, [ENDLESS_STEP], {}, { models: [unpricedModel] });
    (endlessAgent.provider as ModelProvider).prices = (provider as ModelProvider).prices!;
    const costUsd = (await (await endlessAgent.agent.run({ message: "x", budget: { usd: 1 } })).result).usage.cost;
    assert.ok(costUsd <= 1 && costUsd > 0.9, `${costUsd} USD`);
  });
});

describe("a time budget", () => {
  it("ends a run in the middle of an answer, and stores the partial answer as unfinished", async (t) => {
    const time = mockTime(t);
    const { agent } = createAgent(t, [{ chunks: [createText("Half an")], hang: true }]);
    const run = await agent.run({ message: "x", budget: { seconds: 5 } });
    for await (const { type } of run) if (type === "token") break;
    time.advance(5_001);
    const { endedBy, finishReason, output } = await run.result;
    assert.deepEqual([endedBy, finishReason, output], ["budget", "length", "Half an"]);
    assert.equal((await agent.runs.get(run.id))?.state, "finished");
    const messages = await agent.sessions.messages(run.sessionId);
    assert.deepEqual(
      messages.map(({ role, finished }) => [role, finished]),
      [
        ["user", true],
        ["assistant", false],
      ],
    );
  });

  it("ends a run during a tool call, aborts the tool, and leaves a result for every call", async (t) => {
    const time = mockTime(t);
    let wasAborted = false;
    let hasStarted = false;
    const slowTool = defineTool({
      name: "slow",
      description: "Takes for ever.",
      run: (_: unknown, { signal }) =>
        new Promise<string>((resolve) => {
          hasStarted = true;
          signal.addEventListener("abort", () => {
            wasAborted = true;
            resolve("too late");
          });
        }),
    });
    const steps = [callTools(["slow", {}], ["slow", {}]), say("and now")];
    const { agent, provider } = createAgent(t, steps, { tools: [slowTool] });
    const run = await agent.run({ message: "x", budget: { seconds: 5 } });
    await waitForConditionInTurns(() => hasStarted);
    time.advance(5_001);
    const { endedBy } = await run.result;
    assert.deepEqual([endedBy, wasAborted], ["budget", true]);
    const nextRun = await agent.run({ message: "y", sessionId: run.sessionId });
    assert.equal((await nextRun.result).output, "and now");
    const nextMessages = provider.requests[1]?.messages ?? [];
    assert.deepEqual(
      nextMessages.map(({ role }) => role),
      ["user", "assistant", "tool", "tool", "user"],
    );
  });

  it("is paused while a question to the user is open, and continues after the answer", async (t) => {
    const time = mockTime(t);
    const askTool = defineTool({
      name: "asks",
      description: "Asks.",
      kind: "think",
      run: async (_: unknown, { askUser: question }) => (await question({ title: "Well?" })) ?? "nobody",
    });
    const { agent, provider } = createAgent(t, [callTools(["asks", {}]), { hang: true }], { tools: [askTool] });
    const run = await agent.run({
      message: "x",
      budget: { seconds: 2 },
      ask: async () => {
        // Longer than the run's time limit.
        time.advance(10_000);
        await waitTurns();
        return { choice: "", text: "yes" };
      },
    });
    let hasEnded = false;
    const pendingResult = run.result.finally(() => (hasEnded = true));
    await waitForConditionInTurns(() => provider.requests.length === 2);
    time.advance(1_999);
    await waitTurns();
    assert.equal(hasEnded, false);
    time.advance(2);
    assert.equal((await pendingResult).endedBy, "budget");
    const toolMessage = (await agent.sessions.messages(run.sessionId)).find(({ role }) => role === "tool");
    assert.deepEqual(toolMessage?.parts, [{ type: "text", text: "yes" }]);
  });
});

describe("an invalid budget", () => {
  const invalidBudgets: [unknown, string][] = [
    [{ usd: 0 }, "budget.usd"],
    [{ usd: -1 }, "budget.usd"],
    [{ usd: Number.NaN }, "budget.usd"],
    [{ usd: Infinity }, "budget.usd"],
    [{ usd: 1e308 }, "budget.usd"],
    [{ usd: "1" }, "budget.usd"],
    [{ usd: null }, "budget.usd"],
    [{ tokens: 1.5 }, "budget.tokens"],
    [{ tokens: 1e308 }, "budget.tokens"],
    [{ seconds: 0 }, "budget.seconds"],
    [{ seconds: 1e308 }, "budget.seconds"],
    [{ usb: 1 }, "budget.usb"],
    [[], "budget"],
    [1, "budget"],
    [null, "budget"],
  ];
  for (const [budget, field] of invalidBudgets)
    it(`is rejected for a run and for an agent: ${JSON.stringify(budget)}`, async (t) => {
      const { agent } = createAgent(t, []);
      await assert.rejects(agent.run({ message: "x", budget: budget as Budget }), { code: "invalid_input", field });
      assert.throws(() => new Agent({ providers: [], budget: budget as Budget }), { field });
    });

  it("sessionBudget.seconds and an invalid unknownPrice are rejected for an agent", () => {
    const createOptionsAgent = (options: object) => () => new Agent({ providers: [], ...options });
    assert.throws(createOptionsAgent({ sessionBudget: { seconds: 1 } }), { field: "sessionBudget.seconds" });
    assert.throws(createOptionsAgent({ unknownPrice: { input: -1, output: 1 } }), { field: "unknownPrice.input" });
    assert.throws(createOptionsAgent({ unknownPrice: 5 }), { field: "unknownPrice" });
  });
});
