import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, ProviderError, type AgentEvent, type AgentOptions, type Message, type Run, type Tool } from "gantry";
import type { CompactionStrategy, ModelMessage, ModelProvider, SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider } from "gantry/testing";
import { findNewest } from "../../../src/testing/session-driver/rule.js";
import { QUICK_STORES, STORES, memoryStore } from "../../helpers/stores.js";
import { brokenRules, WindowProvider, type WindowProviderOptions } from "../../helpers/window-provider.js";

const GOAL = "GOAL: build the bridge";

let fillCount = 0;

/** Returns the requested number of bytes, each time with different content, so that the loop detection does not act. */
const fill: Tool<{ bytes: number }> = {
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
 * Uses the sliding window unless a test sets another strategy: these providers count every call as a call of the
 * conversation.
 */
function make(
  t: TestContext,
  provider: ModelProvider,
  driver: SessionDriver,
  { compaction, ...otherOptions }: Partial<AgentOptions> = {},
): Agent {
  const sliding = { strategy: "sliding-window", ...compaction };
  const agent = new Agent({ providers: [provider], driver, tools: [fill], compaction: sliding, ...otherOptions });
  t.after(() => agent.close());
  return agent;
}

async function memory(t: TestContext): Promise<SessionDriver> {
  return (await memoryStore[1](t))();
}

async function eventsOf(run: Run): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  for await (const event of run) events.push(event);
  await run.result;
  return events;
}

async function ask(agent: Agent, message: string, sessionId?: string): Promise<Run> {
  const run = await agent.run({ message, ...(sessionId === undefined ? {} : { sessionId }) });
  await run.result;
  return run;
}

const text = (message: ModelMessage | undefined): string =>
  (message?.parts ?? []).map((part) => ("text" in part ? part.text : "")).join("");

/** The current prompt decides the answer: `turn <n>` calls a tool once, and then the model answers. */
function turns(window: number): WindowProviderOptions["answer"] {
  return ({ messages }) => {
    const last = messages.at(-1);
    const turn = Number(/turn (\d+)/.exec(text(messages.findLast((message) => message.role === "user")))?.[1] ?? 0);
    if (last?.role === "tool") return `answer ${turn} ${"blah ".repeat(30)}`;
    return [["fill", { bytes: turn % 100 === 50 ? window * 4 : 300 }]];
  };
}

/** The soak test uses more windows and longer conversations. */
const IS_SOAK = process.env.STORES === "all";
const WINDOWS = IS_SOAK ? [4_000, 8_000, 128_000] : [4_000, 128_000];
const TURNS = IS_SOAK ? 300 : 100;
/** Each turn has four messages: prompt, call, result, answer. */
const MESSAGES = TURNS * 4;

describe(`a conversation of ${TURNS} turns`, () => {
  for (const [name, makeStore] of QUICK_STORES) {
    for (const window of WINDOWS) {
      it(`stays within ${window} tokens, is stored whole and continues in a second agent (${name})`, async (t) => {
        const store = await makeStore(t);
        const provider = new WindowProvider({
          window,
          answer: ({ messages, ...otherFields }, call) => {
            if (!messages.some((message) => message.role === "user" && text(message).includes(GOAL))) {
              provider.violations.push("the goal is gone");
            }
            return turns(window)({ messages, ...otherFields }, call);
          },
        });
        const agent = make(t, provider, store());
        const compacted: string[] = [];
        agent.on("session.compacted", ({ rootId, from, to }) => compacted.push(rootId, from, to));
        const { sessionId } = await ask(agent, `${GOAL}. turn 1`);
        const filler = window > 100_000 ? "more ".repeat(90_000 / TURNS) : "";
        for (let turn = 2; turn <= TURNS; turn++) await ask(agent, `turn ${turn} ${filler}`, sessionId);

        assert.deepEqual(provider.violations, []);
        assert.equal(provider.refused, 0);
        assert.ok(provider.largest > window * 0.3, `the window is used: ${provider.largest}`);
        assert.ok(compacted.length > 0);
        assert.ok(compacted.filter((_, i) => i % 3 === 0).every((rootId) => rootId === sessionId));

        const all = await agent.sessions.messages(sessionId);
        assert.deepEqual(
          all.map((message) => message.seq),
          Array.from({ length: MESSAGES }, (_, i) => i + 1),
        );
        assert.equal(new Set(all.map((message) => message.id)).size, MESSAGES);
        assert.deepEqual(brokenRules(all), []);
        for (let turn = 1; turn <= TURNS; turn++) {
          assert.match(text(all[turn * 4 - 4]), new RegExp(`turn ${turn}( |$)`));
          assert.match(text(all[turn * 4 - 1]), new RegExp(`^answer ${turn} `));
        }
        assert.ok(text(all[50 * 4 - 2]).length >= window * 4, "stored outputs are whole");
        // Every session of the chain returns the whole conversation.
        assert.equal((await agent.sessions.messages(compacted.at(-1)!)).length, MESSAGES);
        const page = await agent.sessions.messages(sessionId, { after: MESSAGES / 2, limit: 3 });
        assert.deepEqual(
          page.map((message) => message.seq),
          [1, 2, 3].map((n) => MESSAGES / 2 + n),
        );

        const { sessions, total } = await agent.sessions.list({ limit: 10 });
        assert.equal(total, 1);
        assert.equal(sessions[0]?.id, sessionId);
        assert.equal(sessions[0].title, "A title");
        assert.equal(sessions[0].usage.completionTokens, TURNS * 2 * 20);
        assert.ok(sessions[0].updatedAt >= all.at(-1)!.createdAt);

        // A second agent continues the session with its own driver, as in another process.
        const secondAgent = make(t, provider, store());
        await ask(secondAgent, `turn ${TURNS + 1}`, compacted[1]);
        assert.deepEqual(provider.violations, []);
        assert.equal(provider.refused, 0);
        assert.equal((await secondAgent.sessions.messages(sessionId)).length, MESSAGES + 4);
        const view = await secondAgent.sessions.messages(sessionId, { view: "model" });
        assert.match(text(view[0]), new RegExp(GOAL));
        assert.match(text(view.at(-1)), new RegExp(`^answer ${TURNS + 1}`));

        await secondAgent.sessions.delete(compacted.at(-1)!);
        assert.equal((await secondAgent.sessions.list({ limit: 10 })).total, 0);
        assert.equal(await secondAgent.sessions.get(sessionId), undefined);
      });
    }
  }
});

describe("compaction", () => {
  it("runs several times in one turn, reports each time, and is the only change to the request prefix", async (t) => {
    let before: string[] = [];
    let breaks = 0;
    const provider = new WindowProvider({
      window: 4_000,
      answer: ({ system, tools, messages }, call) => {
        const prefix = [system, JSON.stringify(tools), ...messages.map((message) => JSON.stringify(message))];
        if (before.some((piece, i) => piece !== prefix[i])) breaks += 1;
        before = prefix;
        return call <= 60 ? [["fill", { bytes: call === 30 ? 50_000 : 500 }]] : "done";
      },
    });
    const agent = make(t, provider, await memory(t));
    let compacted = 0;
    agent.on("session.compacted", () => (compacted += 1));
    const run = await agent.run({ message: GOAL });
    const events = await eventsOf(run);
    const compactions = events.filter((event) => event.type === "compaction");
    // Each compaction leaves room for several calls.
    assert.ok(compactions.length >= 3 && compactions.length <= 15, `${compactions.length} compactions`);
    assert.equal(breaks, compactions.length);
    for (const { strategy, messages, tokens } of compactions) {
      assert.equal(strategy, "sliding-window");
      assert.ok(messages > 1 && messages < 60);
      assert.ok(tokens > 3_200 && tokens < 4_500, `${tokens} tokens before`);
    }
    assert.deepEqual(provider.violations, []);
    assert.equal(provider.refused, 0);
    assert.equal((await run.result).iterations, 61);
    assert.equal((await agent.sessions.messages(run.sessionId)).length, 1 + 60 * 2 + 1);
    // Later runs change the prefix only with a compaction.
    await ask(agent, "again", run.sessionId);
    await ask(agent, "and again", run.sessionId);
    assert.equal(breaks, compacted);
  });

  it("cuts each of several tool outputs of one answer that together exceed the window", async (t) => {
    const provider = new WindowProvider({
      window: 4_000,
      answer: (_request, call) =>
        call === 1 ? Array.from({ length: 8 }, () => ["fill", { bytes: 50_000 }] as const) : "done",
    });
    const agent = make(t, provider, await memory(t));
    const run = await ask(agent, GOAL);
    assert.equal(provider.refused, 0);
    assert.deepEqual(provider.violations, []);
    const results = provider.last?.messages.filter((message) => message.role === "tool") ?? [];
    assert.equal(results.length, 8);
    for (const result of results) assert.match(text(result), /^begin [\s\S]*bytes cut from the middle[\s\S]* end$/);
    assert.ok((await agent.sessions.messages(run.sessionId)).every((message) => !text(message).includes("cut from")));
  });

  it("cuts the middle of a prompt that exceeds the window, and stores the prompt whole", async (t) => {
    const provider = new WindowProvider({ window: 4_000, answer: () => "ok" });
    const agent = make(t, provider, await memory(t));
    const prompt = `${GOAL} ${"x".repeat(40_000)} and nothing else`;
    const run = await ask(agent, prompt);
    assert.equal(provider.refused, 0);
    assert.match(text(provider.last?.messages[0]), /^GOAL[\s\S]*cut from the middle[\s\S]*and nothing else$/);
    assert.equal(text((await agent.sessions.messages(run.sessionId))[0]), prompt);
  });

  it("shortens the first prompt to 2,000 characters, and keeps the current prompt and the message ids", async (t) => {
    const provider = new WindowProvider({
      window: 8_000,
      answer: (_request, call) => (call % 2 ? [["fill", { bytes: 900 }]] : "ok"),
    });
    const agent = make(t, provider, await memory(t), { compaction: { keepMessages: 4 } });
    const { sessionId } = await ask(agent, `${GOAL} ${"y".repeat(5_000)}`);
    for (let turn = 0; turn < 20; turn++) await ask(agent, `prompt ${turn} ${"z".repeat(600)}`, sessionId);
    const view = await agent.sessions.messages(sessionId, { view: "model" });
    const [first] = view;
    assert.ok(text(first).startsWith(GOAL));
    assert.equal(first?.parts[0]?.type === "text" && first.parts[0].text.length, 2_000);
    assert.match(text(first), /left out to save room/);
    assert.ok(view.some((message) => text(message).startsWith("prompt 19 ")));
    // Copies keep their ids, so that a client can fork or revert at a message that it sees.
    const all = await agent.sessions.messages(sessionId);
    for (const message of view) assert.equal(all.find((candidate) => candidate.id === message.id)?.seq, message.seq);
  });

  it("omits answers when texts fill the window, and keeps the first and the current prompt", async (t) => {
    const provider = new WindowProvider({
      window: 4_000,
      answer: ({ messages }) => {
        if (!text(messages[0]).startsWith(GOAL)) provider.violations.push("goal lost");
        return `said ${"w".repeat(900)}`;
      },
    });
    const agent = make(t, provider, await memory(t), { compaction: { keepMessages: 1_000 } });
    const { sessionId } = await ask(agent, GOAL);
    for (let turn = 2; turn <= 30; turn++) {
      await ask(agent, `turn ${turn}`, sessionId);
      assert.equal(text(provider.last?.messages.at(-1)), `turn ${turn}`);
    }
    assert.deepEqual(provider.violations, []);
    assert.equal(provider.refused, 0);
    assert.match(text(provider.last?.messages[0]), /left out to save room/);
  });

  it("keeps the current prompt in each request of a long turn", async (t) => {
    const provider = new WindowProvider({
      window: 4_000,
      answer: ({ messages }, call) => {
        if (call === 1) return "hello";
        if (!messages.some((message) => text(message).includes("TASK: paint it")))
          provider.violations.push("task lost");
        return call < 60 ? [["fill", { bytes: 400 }]] : "done";
      },
    });
    const agent = make(t, provider, await memory(t), { compaction: { keepMessages: 4 } });
    const { sessionId } = await ask(agent, GOAL);
    await ask(agent, "TASK: paint it", sessionId);
    assert.deepEqual(provider.violations, []);
  });

  it("retries with a smaller conversation when the provider reports that the prompt is too long", async (t) => {
    const provider = new WindowProvider({
      window: 3_000,
      says: 128_000,
      answer: (_request, call) => (call < 40 ? [["fill", { bytes: 700 }]] : "done"),
    });
    const agent = make(t, provider, await memory(t));
    const run = await agent.run({ message: GOAL });
    const events = await eventsOf(run);
    assert.ok(provider.refused > 0 && provider.refused < 8, `${provider.refused} refused`);
    assert.deepEqual(provider.violations, []);
    assert.ok(events.some((event) => event.type === "compaction"));
    assert.equal((await run.result).output, "done");
  });

  it("fails with the provider's context_length error after at most 7 requests", async (t) => {
    const fault = new ProviderError("scripted", "context_length", "always too long", { status: 400 });
    const provider = new ScriptedProvider([], { fallback: fault });
    const agent = make(t, provider, await memory(t));
    const run = await agent.run({ message: GOAL });
    await assert.rejects(run.result, { code: "provider", kind: "context_length", message: /always too long/ });
    assert.ok(provider.requests.length <= 7, `${provider.requests.length} requests`);
  });

  it("ignores a reported token count that is far too low", async (t) => {
    const provider = new WindowProvider({
      window: 4_000,
      report: () => 10,
      answer: (_request, call) => (call < 60 ? [["fill", { bytes: 500 }]] : "done"),
    });
    await ask(make(t, provider, await memory(t)), GOAL);
    assert.equal(provider.refused, 0);
  });

  it("uses the reported token count if it is higher than the estimate", async (t) => {
    const provider = new WindowProvider({
      window: 8_000,
      bytesPerToken: 2,
      answer: (_request, call) => (call < 60 ? [["fill", { bytes: 500 }]] : "done"),
    });
    await ask(make(t, provider, await memory(t)), GOAL);
    assert.equal(provider.refused, 0);
    assert.ok(provider.largest <= 8_000 * 0.85);
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
    await ask(make(t, provider, await memory(t), { compaction: { threshold: 1 } }), GOAL);
    assert.equal(provider.refused, 0);
  });

  it("assumes 128,000 tokens for an unknown window with one warning, and prefers the configured window", async (t) => {
    const warnings: string[] = [];
    const logger = {
      debug: () => undefined,
      info: () => undefined,
      error: () => undefined,
      warn: (message: string) => void warnings.push(message),
    };
    const unknown = new WindowProvider({ window: 1_000_000, says: null, answer: () => "ok" });
    const agent = make(t, unknown, await memory(t), { logger });
    const { sessionId } = await ask(agent, `${GOAL} ${"v".repeat(360_000)}`);
    await ask(agent, "more", sessionId);
    assert.ok(unknown.largest < 128_000 * 0.8);
    assert.equal(warnings.filter((warning) => warning.includes("context window of the model is unknown")).length, 1);

    const configuredProvider = new WindowProvider({ window: 1_000_000, answer: () => "ok" });
    await ask(
      make(t, configuredProvider, await memory(t), { compaction: { contextWindow: 5_000 } }),
      "w".repeat(90_000),
    );
    assert.ok(configuredProvider.largest <= 4_000);
  });

  it("shortens the system prompt and tool schemas for a small window, but no tool descriptions for a large one", async (t) => {
    const folder = process.cwd();
    const tools: Tool[] = Array.from({ length: 12 }, (_, i) => ({
      ...fill,
      name: `tool${i}`,
      description: `Does thing ${i}. ${"And it has a long story. ".repeat(10)}`,
      inputSchema: { type: "object", properties: { description: { type: "string", description: "q".repeat(300) } } },
    }));
    const provider = new WindowProvider({ window: 4_000, answer: () => "ok" });
    await ask(
      make(t, provider, await memory(t), { tools, systemPrompt: "rule ".repeat(5_000), projectDir: folder }),
      GOAL,
    );
    assert.equal(provider.refused, 0);
    assert.deepEqual(provider.last?.tools[0]?.inputSchema, {
      type: "object",
      properties: { description: { type: "string" } },
    });
    assert.match(provider.last.system, /^You are a coding agent/);
    const large = new WindowProvider({ window: 128_000, answer: () => "ok" });
    await ask(make(t, large, await memory(t), { tools }), GOAL);
    assert.equal(large.last?.tools[0]?.description, tools[0]?.description);
  });

  it("can be disabled: an oversized prompt then fails with context_length", async (t) => {
    const provider = new WindowProvider({ window: 2_000, answer: () => "ok" });
    const agent = make(t, provider, await memory(t), { compaction: { enabled: false } });
    const run = await agent.run({ message: "u".repeat(20_000) });
    await assert.rejects(run.result, { kind: "context_length" });
    assert.equal(provider.refused, 1);
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
    const agent = make(t, provider, await memory(t));
    const { sessionId } = await ask(agent, GOAL);
    assert.deepEqual(brokenRules(await agent.sessions.messages(sessionId)), []);
    for (const { messages } of provider.requests) assert.deepEqual(brokenRules(messages), []);
  });

  it("leaves a session that resumes after a crash before the first message of the follow-up", async (t) => {
    for (const [, makeStore] of STORES) {
      const store = await makeStore(t);
      const provider = new WindowProvider({ window: 4_000, answer: turns(4_000) });
      const first = make(t, provider, store());
      const { sessionId } = await ask(first, `${GOAL}. turn 1`);
      let followUp = "";
      first.on("session.compacted", ({ to }) => (followUp = to));
      for (let turn = 2; followUp === ""; turn++) await ask(first, `turn ${turn}`, sessionId);
      await first.close();
      // The state after a crash that follows the creation: the messages of the follow-up are lost.
      const driver = store();
      await driver.open();
      const newest = await findNewest(driver, sessionId);
      assert.equal(newest?.id, followUp);
      const view = (await driver.dump(followUp))?.sessions.find(({ session }) => session.id === followUp)?.view ?? [];
      const before = await driver.messages(sessionId, { scope: "chain", before: newest.lastSeq });
      const { chain: _, ...fields } = newest;
      const emptyFollowUp = { ...fields, id: "dead", lastSeq: newest.lastSeq, chain: { root: sessionId, index: 7 } };
      await driver.create({ session: emptyFollowUp, view });
      await driver.close();

      const second = make(t, provider, store());
      const { sessionId: resumedId } = await ask(second, "turn 77", sessionId);
      assert.equal(resumedId, sessionId);
      const resumedView = await second.sessions.messages(sessionId, { view: "model" });
      assert.deepEqual(brokenRules(resumedView), []);
      assert.match(text(resumedView.at(-1)), /^answer 77/);
      assert.equal((await second.sessions.messages(sessionId)).length, before.length + 1 + 4);
      assert.deepEqual(provider.violations, []);
    }
  });
});

describe("compaction strategies", () => {
  const summaryProvider = (summary: (transcript: string) => string | Error): ScriptedProvider => {
    let calls = 0;
    return new ScriptedProvider([], {
      models: [{ id: "m", name: "m", ownedBy: "", contextWindow: 4_000, prices: { input: 1, output: 1 } }],
      fallback: (request) => {
        if (request.tools.length === 0) return summary(text(request.messages[0]));
        calls += 1;
        return calls < 40 ? callTools(["fill", { bytes: 500, step: calls }]) : "done";
      },
    });
  };

  it("summary: the model summarizes the removed messages and the previous summary", async (t) => {
    const transcripts: string[] = [];
    const provider = summaryProvider((transcript) => {
      transcripts.push(transcript);
      return `SUMMARY ${transcripts.length}`;
    });
    const agent = make(t, provider, await memory(t), { compaction: { strategy: "summary" } });
    const run = await agent.run({ message: GOAL });
    const events = await eventsOf(run);
    const compactions = events.filter((event) => event.type === "compaction");
    assert.ok(transcripts.length >= 2);
    assert.equal(transcripts.length, compactions.length);
    assert.ok(compactions.every((event) => event.strategy === "summary"));
    for (const transcript of transcripts) assert.match(transcript, /\[calls fill \{"bytes":500/);
    assert.match(transcripts[1] ?? "", /SUMMARY 1/);
    const last = provider.requests.filter((request) => request.tools.length > 0).at(-1)?.messages ?? [];
    const summaries = last.filter((message) => message.role === "user" && text(message).includes("SUMMARY"));
    assert.deepEqual(
      summaries.map((message) => /SUMMARY \d+/.exec(text(message))?.[0]),
      [`SUMMARY ${transcripts.length}`],
    );
    assert.ok(text(last[0]).startsWith(GOAL));
    assert.deepEqual(brokenRules(last), []);
    // A compaction is not a turn, but its tokens are counted.
    const { usage, iterations } = await run.result;
    assert.equal(iterations, 40);
    assert.equal(usage.completionTokens, (40 + transcripts.length) * 5);
    assert.deepEqual((await agent.sessions.get(run.sessionId))?.usage, usage);
    const all = await agent.sessions.messages(run.sessionId);
    assert.ok(!all.some((message) => text(message).includes("SUMMARY")), "a summary was not said");
    assert.deepEqual(
      all.map((message) => message.seq),
      all.map((_, i) => i + 1),
    );
    const seqs = (await agent.sessions.messages(run.sessionId, { view: "model" })).map((message) => message.seq);
    assert.deepEqual(
      seqs,
      [...new Set(seqs)].sort((a, b) => a - b),
    );
  });

  for (const [outcome, reply] of [
    ["fails", () => new ProviderError("scripted", "server", "no", { status: 500 })],
    ["returns only white space", () => " "],
  ] as const) {
    it(`summary: the sliding window replaces it when the summary request ${outcome}`, async (t) => {
      const provider = summaryProvider(reply);
      const agent = make(t, provider, await memory(t), { compaction: { strategy: "summary" } });
      const run = await agent.run({ message: GOAL });
      const compactions = (await eventsOf(run)).filter((event) => event.type === "compaction");
      assert.ok(compactions.length > 0);
      assert.ok(compactions.every((event) => event.strategy === "sliding-window"));
      assert.equal((await run.result).output, "done");
    });
  }

  it("summary: a cancel ends a pending summary request", async (t) => {
    const cancel = new AbortController();
    let calls = 0;
    const provider = new ScriptedProvider([], {
      models: [{ id: "m", name: "m", ownedBy: "", contextWindow: 4_000 }],
      fallback: (request) => {
        if (request.tools.length > 0) return callTools(["fill", { bytes: 500, step: ++calls }]);
        cancel.abort();
        return { hang: true };
      },
    });
    const agent = make(t, provider, await memory(t), { compaction: { strategy: "summary" } });
    const run = await agent.run({ message: GOAL, signal: cancel.signal });
    await assert.rejects(run.result, { code: "run_cancelled" });
  });

  it("custom: the result of the strategy becomes the view, repaired and within the window", async (t) => {
    const messageCounts: number[] = [];
    const customStrategy: CompactionStrategy = {
      name: "mine",
      compact({ messages, budget, keepMessages, estimate }) {
        messageCounts.push(messages.length);
        assert.deepEqual(brokenRules(messages), []);
        assert.ok(budget > 0 && estimate(messages) > 0);
        assert.equal(keepMessages, 6);
        const [first, ...laterMessages] = messages as [Message, ...Message[]];
        const note = { ...first, id: "", parts: [{ type: "text" as const, text: "NOTE" }] };
        // Far too large, and the first result has no call.
        const cut = laterMessages.findIndex((message) => message.role === "tool");
        return Promise.resolve([first, note, ...laterMessages.slice(cut)]);
      },
    };
    const provider = new WindowProvider({
      window: 4_000,
      answer: (_request, call) => (call < 40 ? [["fill", { bytes: 500 }]] : "done"),
    });
    const agent = make(t, provider, await memory(t), { compaction: { strategy: customStrategy, keepMessages: 6 } });
    const run = await agent.run({ message: GOAL });
    const events = await eventsOf(run);
    assert.ok(messageCounts.length > 0);
    assert.ok(events.some((event) => event.type === "compaction" && event.strategy === "mine"));
    assert.deepEqual(provider.violations, []);
    assert.equal(provider.refused, 0);
    assert.ok(provider.last?.messages.some((message) => text(message) === "NOTE"));
    const view = await agent.sessions.messages(run.sessionId, { view: "model" });
    assert.deepEqual(brokenRules(view), []);
    assert.equal(new Set(view.map((message) => message.id)).size, view.length);
  });

  it("custom: the sliding window replaces a strategy that rejects or returns no message", async (t) => {
    for (const compact of [() => Promise.reject(new Error("no")), () => Promise.resolve([])]) {
      const provider = new WindowProvider({
        window: 4_000,
        answer: (_request, call) => (call < 30 ? [["fill", { bytes: 500 }]] : "done"),
      });
      const agent = make(t, provider, await memory(t), { compaction: { strategy: { name: "bad", compact } } });
      const compactions = (await eventsOf(await agent.run({ message: GOAL }))).filter(
        ({ type }) => type === "compaction",
      );
      assert.ok(compactions.length > 0);
      assert.ok(compactions.every((event) => event.type === "compaction" && event.strategy === "sliding-window"));
    }
  });

  it("custom: a strategy that never settles blocks neither a cancel nor a close", async (t) => {
    const cancel = new AbortController();
    let callCount = 0;
    const stuckStrategy = {
      name: "stuck",
      compact: () => {
        callCount += 1;
        // The client cancels the first call, and the close cancels the second.
        if (callCount === 1) cancel.abort();
        else void agent.close();
        return new Promise<never>(() => undefined);
      },
    };
    const provider = new WindowProvider({
      window: 4_000,
      answer: (_request, call) => (call < 60 ? [["fill", { bytes: 500 + call }]] : "done"),
    });
    const agent = make(t, provider, await memory(t), { compaction: { strategy: stuckStrategy } });
    const first = await agent.run({ message: GOAL, signal: cancel.signal });
    await assert.rejects(first.result, { name: "RunCancelledError" });
    const second = await agent.run({ message: GOAL });
    await assert.rejects(second.result, { name: "ShuttingDownError" });
    await agent.close();
    assert.equal(callCount, 2);
  });
});
