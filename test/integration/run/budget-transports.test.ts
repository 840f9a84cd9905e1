import assert from "node:assert/strict";
import { after, before, describe, it, type TestContext } from "node:test";
import { Agent, builtinTools, type RunRecord } from "gantry";
import { AiSdkProvider } from "gantry/adapters/language-models";
import { HttpPeer } from "../../helpers/acp-http.js";
import { spawnAcpServer } from "../../helpers/acp-process.js";
import {
  callStep,
  startFakeModelServer,
  type ScriptedAnswer,
  type FakeModelServer,
} from "../../helpers/fake-model-server.js";
import { parseSseEvents } from "../../helpers/raw-http.js";
import { startServer } from "../../helpers/server.js";

const BUDGET_USD = 0.01;
const WORDS = Array.from({ length: 50_000 }, (_, i) => `w${i % 10} `);
let globCallCount = 0;

/** Answers of models that would never end, by the behaviour of the model. */
const ENDLESS_ANSWERS: Readonly<Record<string, ScriptedAnswer>> = {
  "ignores its output limit": { say: [{ text: WORDS }, { stall: true }] },
  "uses its whole output limit": ({ body }) => {
    const { max_tokens: limit = WORDS.length } = body as { max_tokens?: number };
    const usage = { input: Math.ceil(JSON.stringify(body).length / 4), output: limit };
    return { say: [{ text: WORDS.slice(0, limit) }], finish: "length", usage };
  },
  "calls tools without end": () => callStep("glob", { pattern: `nothing-${(globCallCount += 1)}-*` }),
  "reasons and ignores its output limit": { say: [{ reasoning: WORDS }, { stall: true }] },
};

/** Asserts that a reported cost, in USD, is within the budget and above half of the budget. */
function assertWithinBudget({ cost }: { cost: number }): void {
  assert.ok(cost <= BUDGET_USD && cost > BUDGET_USD / 2, `${cost} USD`);
}

function createProviderConfig({ baseUrl }: FakeModelServer) {
  return { name: "lab", driver: "openai" as const, base_url: baseUrl, api_key: "x" };
}

/** The output limit is set, because otherwise a request would have no limit of its own. */
const MODELS = [{ id: "m1", context_window: 200_000, max_output: 64_000, cost: { input: 0.5, output: 2 } }];

function createConfig(model: FakeModelServer) {
  return {
    providers: [{ ...createProviderConfig(model), models: MODELS }],
    agent: { tools: ["glob"], max_iterations: 100_000 },
    limits: { budget: { usd: BUDGET_USD } },
  };
}

async function startModel(t: { after: TestContext["after"] }, fallback: ScriptedAnswer): Promise<FakeModelServer> {
  const model = await startFakeModelServer({ toolFreeAnswer: { say: [{ text: "A title" }] }, fallback });
  t.after(() => model.close());
  return model;
}

for (const [behavior, fallback] of Object.entries(ENDLESS_ANSWERS))
  describe(`a budget of 0.01 USD with a model that ${behavior}`, () => {
    let model: FakeModelServer;
    before(async () => {
      model = await startFakeModelServer({ toolFreeAnswer: { say: [{ text: "A title" }] }, fallback });
    });
    after(() => model.close());

    it("ends the run within the budget in the SDK", async (t) => {
      const { base_url: baseUrl, api_key: apiKey, ...providerOptions } = createProviderConfig(model);
      const prices = { input: 0.5, output: 2 };
      const models = [{ id: "m1", contextWindow: 200_000, maxOutput: 64_000, prices }];
      const provider = new AiSdkProvider({ ...providerOptions, baseUrl, apiKey, models });
      const tools = builtinTools().filter((tool) => tool.name === "glob");
      const agent = new Agent({ providers: [provider], tools, maxIterations: 100_000 });
      t.after(() => agent.close());
      const run = await agent.run({ message: "Go on for ever.", budget: { usd: BUDGET_USD } });
      const { endedBy, finishReason, usage } = await run.result;
      assert.deepEqual([endedBy, finishReason], ["budget", "length"]);
      assertWithinBudget(usage);
      const record = (await agent.runs.get(run.id)) as RunRecord;
      assert.deepEqual([record.state, record.endedBy, record.usage], ["finished", "budget", usage]);
    });

    it("ends the run within the budget over HTTP (JSON and SSE) and over ACP on the same port", async (t) => {
      const transports = ["koa-http-api", "acp-http-sse-ws"];
      const config = { ...createConfig(model), server: { port: 0, transports } };
      const server = await startServer(t, { config });
      const postRun = (stream: boolean) =>
        server.fetch("/api/run", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ message: "Go on for ever.", stream }),
        });
      const plainResponse = await postRun(false);
      const result = (await plainResponse.json()) as {
        finish_reason: string;
        ended_by: string;
        usage: { cost: number };
      };
      assert.deepEqual([plainResponse.status, result.finish_reason, result.ended_by], [200, "length", "budget"]);
      assertWithinBudget(result.usage);
      const streamResponse = await postRun(true);
      const events = parseSseEvents(await streamResponse.text());
      const doneEvent = events.at(-1)?.data as Record<string, unknown>;
      assert.deepEqual(
        [events.at(-1)?.event, doneEvent["finish_reason"], doneEvent["ended_by"]],
        ["done", "length", "budget"],
      );
      const recordResponse = await server.fetch(`/api/runs/${streamResponse.headers.get("x-run-id") ?? ""}`);
      const record = (await recordResponse.json()) as { state: string; ended_by: string; usage: { cost: number } };
      assert.deepEqual([record.state, record.ended_by], ["finished", "budget"]);
      assertWithinBudget(record.usage);
      const acpUrl = server.addresses.find(({ label }) => label === "acp")?.url ?? "";
      const peer = new HttpPeer(acpUrl);
      await peer.open();
      await peer.openStream();
      const session = await peer.newSession(server.projectDir);
      await peer.openStream(session);
      assert.deepEqual(await peer.prompt(session, "Go on for ever."), { stopReason: "end_turn" });
      const update = await peer.waitForMessage((message) => message.params?.update?.sessionUpdate === "usage_update");
      assertWithinBudget({
        cost: (update as { params: { update: { cost: { amount: number } } } }).params.update.cost.amount,
      });
      peer.assertNoValidationErrors();
      assert.match(server.stderr, /run ended at a limit/);
    });

    it("ends the run within the budget over ACP on standard input and output with the official profile", async (t) => {
      const { gantry, peer } = await spawnAcpServer(t, {
        config: createConfig(model),
        profile: "official",
        args: ["--acp-profile", "official"],
      });
      await peer.initialize();
      const session = await peer.newSession(gantry.projectDir);
      assert.deepEqual(await peer.prompt(session, "Go on for ever."), { stopReason: "max_tokens" });
      const updates = peer.getUpdates(session).filter(({ sessionUpdate }) => sessionUpdate === "usage_update");
      assertWithinBudget({ cost: (updates.at(-1) as { cost: { amount: number } }).cost.amount });
      peer.assertNoValidationErrors();
    });
  });

it("limits.session_budget holds over runs in several server processes", async (t) => {
  const model = await startModel(t, () => callStep("glob", { pattern: `nothing-${(globCallCount += 1)}-*` }));
  const limits = { budget: { usd: BUDGET_USD / 4 }, session_budget: { usd: BUDGET_USD } };
  const config = { ...createConfig(model), limits, server: { port: 0 } };
  let home: string | undefined;
  let sessionId: string | undefined;
  const costs: number[] = [];
  for (let i = 0; i < 3; i += 1) {
    const server = await startServer(t, { config, ...(home === undefined ? {} : { home }) });
    home = server.home;
    for (let j = 0; j < 3; j += 1) {
      const runResponse = await server.fetch("/api/run", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ message: "Go on.", session_id: sessionId }),
      });
      sessionId = runResponse.headers.get("x-session-id") ?? "";
      const { usage, ended_by: endReason } = (await runResponse.json()) as {
        usage: { cost: number };
        ended_by: string;
      };
      assert.equal(endReason, "budget");
      costs.push(usage.cost);
    }
    const sessionResponse = await server.fetch(`/api/sessions/${sessionId ?? ""}`);
    const { usage } = (await sessionResponse.json()) as { usage: { cost: number } };
    assert.ok(usage.cost <= BUDGET_USD, `${usage.cost} USD`);
    await server.stop();
  }
  assert.ok(costs.every((cost) => cost <= BUDGET_USD / 4));
  assert.equal(costs.at(-1), 0);
});

describe("a local provider", () => {
  async function measureUsage(
    t: TestContext,
    preset: string | undefined,
    answer: ScriptedAnswer,
    setsUnknownPrice?: boolean,
  ) {
    const model = await startFakeModelServer({ fallback: answer });
    t.after(() => model.close());
    const provider = new AiSdkProvider({
      ...(preset === undefined ? { name: "lab" } : { preset }),
      baseUrl: model.baseUrl,
      models: [{ id: "m1" }],
    });
    const limits = { budget: { usd: 100 }, ...(setsUnknownPrice && { unknownPrice: { input: 1_000, output: 1_000 } }) };
    const agent = new Agent({ providers: [provider], ...limits });
    t.after(() => agent.close());
    return (await (await agent.run({ message: "hi" })).result).usage;
  }
  const answer: ScriptedAnswer = { say: [{ text: "done" }], usage: { input: 1_000, output: 1_000 } };

  it("costs unknown_price if unknown_price is set, with any preset", async (t) => {
    for (const preset of [undefined, "litellm", "ollama"])
      // 2,000 tokens at 1,000 USD per million tokens.
      assert.equal((await measureUsage(t, preset, answer, true)).cost, 2);
  });

  it("is free only with the preset ollama if unknown_price is not set; otherwise the run is rejected", async (t) => {
    assert.equal((await measureUsage(t, "ollama", answer)).cost, 0);
    for (const preset of [undefined, "litellm"])
      await assert.rejects(
        measureUsage(t, preset, answer),
        /the price of .* is unknown, .*; set limits\.unknown_price/,
      );
  });

  it("has a reported count of 1e308 tokens replaced by a total below 1e6", async (t) => {
    const usage = await measureUsage(t, "ollama", { say: [{ text: "done" }], usage: { input: 1e308, output: 1e308 } });
    assert.ok(usage.totalTokens > 0 && usage.totalTokens < 1e6, JSON.stringify(usage));
  });
});
