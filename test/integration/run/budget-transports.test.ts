import assert from "node:assert/strict";
import { after, before, describe, it, type TestContext } from "node:test";
import { Agent, builtinTools, type RunRecord } from "gantry";
import { AiSdkProvider } from "gantry/adapters/language-models";
import { HttpPeer } from "../../helpers/acp-http.js";
import { spawnAcp } from "../../helpers/acp-process.js";
import { call, startFakeModelServer, type Answer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { sseEvents } from "../../helpers/http.js";
import { startServer } from "../../helpers/server.js";

const USD = 0.01;
const words = Array.from({ length: 50_000 }, (_, i) => `w${i % 10} `);
let calls = 0;

/** Models that would never end, each in a different way. */
const ENDLESS_ANSWERS: Readonly<Record<string, Answer>> = {
  "ignores its output limit": { say: [{ text: words }, { stall: true }] },
  "uses its whole output limit": ({ body }) => {
    const { max_tokens: limit = words.length } = body as { max_tokens?: number };
    const usage = { input: Math.ceil(JSON.stringify(body).length / 4), output: limit };
    return { say: [{ text: words.slice(0, limit) }], finish: "length", usage };
  },
  "calls tools without end": () => call("glob", { pattern: `nothing-${(calls += 1)}-*` }),
  "reasons and ignores its output limit": { say: [{ reasoning: words }, { stall: true }] },
};

/** Report of a transport at the end of a run. */
interface RunReport {
  ended: unknown;
  /** Cost of the session in USD, as the transport reports it. */
  cost: number;
}

/** Asserts the reported cost of a run with this budget. */
function assertWithinBudget({ cost }: Pick<RunReport, "cost">): void {
  assert.ok(cost <= USD && cost > USD / 2, `${cost} USD`);
}

function providerOf({ baseUrl }: FakeModelServer) {
  return { name: "lab", driver: "openai" as const, base_url: baseUrl, api_key: "x" };
}

/** The output limit is set, because otherwise a request would have no limit of its own. */
const MODELS = [{ id: "m1", context_window: 200_000, max_output: 64_000, cost: { input: 0.5, output: 2 } }];

function configOf(model: FakeModelServer) {
  return {
    providers: [{ ...providerOf(model), models: MODELS }],
    agent: { tools: ["glob"], max_iterations: 100_000 },
    limits: { budget: { usd: USD } },
  };
}

async function modelServer(t: { after: TestContext["after"] }, fallback: Answer): Promise<FakeModelServer> {
  const model = await startFakeModelServer({ aside: { say: [{ text: "A title" }] }, fallback });
  t.after(() => model.close());
  return model;
}

for (const [name, fallback] of Object.entries(ENDLESS_ANSWERS))
  describe(`a budget of 0.01 USD with a model that ${name}`, () => {
    let model: FakeModelServer;
    before(async () => {
      model = await startFakeModelServer({ aside: { say: [{ text: "A title" }] }, fallback });
    });
    after(() => model.close());

    it("ends the run within the budget in the SDK", async (t) => {
      const { base_url: baseUrl, api_key: apiKey, ...providerOptions } = providerOf(model);
      const prices = { input: 0.5, output: 2 };
      const models = [{ id: "m1", contextWindow: 200_000, maxOutput: 64_000, prices }];
      const provider = new AiSdkProvider({ ...providerOptions, baseUrl, apiKey, models });
      const tools = builtinTools().filter((tool) => tool.name === "glob");
      const agent = new Agent({ providers: [provider], tools, maxIterations: 100_000 });
      t.after(() => agent.close());
      const run = await agent.run({ message: "Go on for ever.", budget: { usd: USD } });
      const { endedBy, finishReason, usage } = await run.result;
      assert.deepEqual([endedBy, finishReason], ["budget", "length"]);
      assertWithinBudget(usage);
      const record = (await agent.runs.get(run.id)) as RunRecord;
      assert.deepEqual([record.state, record.endedBy, record.usage], ["finished", "budget", usage]);
    });

    it("ends the run within the budget over HTTP (JSON and SSE) and over ACP on the same port", async (t) => {
      const transports = ["koa-http-api", "acp-http-sse-ws"];
      const config = { ...configOf(model), server: { port: 0, transports } };
      const server = await startServer(t, { config });
      const post = (stream: boolean) =>
        server.fetch("/api/run", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ message: "Go on for ever.", stream }),
        });
      const plainResponse = await post(false);
      const result = (await plainResponse.json()) as {
        finish_reason: string;
        ended_by: string;
        usage: { cost: number };
      };
      assert.deepEqual([plainResponse.status, result.finish_reason, result.ended_by], [200, "length", "budget"]);
      assertWithinBudget(result.usage);
      const streamed = await post(true);
      const events = sseEvents(await streamed.text());
      const done = events.at(-1)?.data as Record<string, unknown>;
      assert.deepEqual([events.at(-1)?.event, done["finish_reason"], done["ended_by"]], ["done", "length", "budget"]);
      const stored = await server.fetch(`/api/runs/${streamed.headers.get("x-run-id") ?? ""}`);
      const record = (await stored.json()) as { state: string; ended_by: string; usage: { cost: number } };
      assert.deepEqual([record.state, record.ended_by], ["finished", "budget"]);
      assertWithinBudget(record.usage);
      const acp = server.addresses.find(({ label }) => label === "acp")?.url ?? "";
      const peer = new HttpPeer(acp);
      await peer.open();
      await peer.stream();
      const session = await peer.newSession(server.projectDir);
      await peer.stream(session);
      assert.deepEqual(await peer.prompt(session, "Go on for ever."), { stopReason: "end_turn" });
      const update = await peer.seen((message) => message.params?.update?.sessionUpdate === "usage_update");
      assertWithinBudget({
        cost: (update as { params: { update: { cost: { amount: number } } } }).params.update.cost.amount,
      });
      peer.assertClean();
      assert.match(server.stderr, /run ended at a limit/);
    });

    it("ends the run within the budget over ACP on standard input and output with the official profile", async (t) => {
      const { gantry, peer } = await spawnAcp(t, {
        config: configOf(model),
        profile: "official",
        args: ["--acp-profile", "official"],
      });
      await peer.initialize();
      const session = await peer.newSession(gantry.projectDir);
      assert.deepEqual(await peer.prompt(session, "Go on for ever."), { stopReason: "max_tokens" });
      const updates = peer.updates(session).filter(({ sessionUpdate }) => sessionUpdate === "usage_update");
      assertWithinBudget({ cost: (updates.at(-1) as { cost: { amount: number } }).cost.amount });
      peer.assertClean();
    });
  });

it("limits.session_budget holds over runs in several server processes", async (t) => {
  const model = await modelServer(t, () => call("glob", { pattern: `nothing-${(calls += 1)}-*` }));
  const limits = { budget: { usd: USD / 4 }, session_budget: { usd: USD } };
  const config = { ...configOf(model), limits, server: { port: 0 } };
  let home: string | undefined;
  let session: string | undefined;
  const costs: number[] = [];
  for (let i = 0; i < 3; i += 1) {
    const server = await startServer(t, { config, ...(home === undefined ? {} : { home }) });
    home = server.home;
    for (let j = 0; j < 3; j += 1) {
      const answer = await server.fetch("/api/run", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ message: "Go on.", session_id: session }),
      });
      session = answer.headers.get("x-session-id") ?? "";
      const { usage, ended_by: ended } = (await answer.json()) as { usage: { cost: number }; ended_by: string };
      assert.equal(ended, "budget");
      costs.push(usage.cost);
    }
    const stored = await server.fetch(`/api/sessions/${session ?? ""}`);
    const { usage } = (await stored.json()) as { usage: { cost: number } };
    assert.ok(usage.cost <= USD, `${usage.cost} USD`);
    await server.stop();
  }
  assert.ok(costs.every((cost) => cost <= USD / 4));
  assert.equal(costs.at(-1), 0);
});

describe("a local provider", () => {
  async function costOf(t: TestContext, preset: string | undefined, answer: Answer, unknownPrice?: boolean) {
    const model = await startFakeModelServer({ fallback: answer });
    t.after(() => model.close());
    const provider = new AiSdkProvider({
      ...(preset === undefined ? { name: "lab" } : { preset }),
      baseUrl: model.baseUrl,
      models: [{ id: "m1" }],
    });
    const limits = { budget: { usd: 100 }, ...(unknownPrice && { unknownPrice: { input: 1_000, output: 1_000 } }) };
    const agent = new Agent({ providers: [provider], ...limits });
    t.after(() => agent.close());
    return (await (await agent.run({ message: "hi" })).result).usage;
  }
  const answer: Answer = { say: [{ text: "done" }], usage: { input: 1_000, output: 1_000 } };

  it("costs unknown_price if it is set, with any preset", async (t) => {
    for (const preset of [undefined, "litellm", "ollama"])
      assert.equal((await costOf(t, preset, answer, true)).cost, 2);
  });

  it("is free only with the preset ollama if unknown_price is not set; otherwise the run is rejected", async (t) => {
    assert.equal((await costOf(t, "ollama", answer)).cost, 0);
    for (const preset of [undefined, "litellm"])
      await assert.rejects(costOf(t, preset, answer), /the price of .* is unknown, .*; set limits\.unknown_price/);
  });

  it("has a reported count of 1e308 tokens replaced by a total below 1e6", async (t) => {
    const usage = await costOf(t, "ollama", { say: [{ text: "done" }], usage: { input: 1e308, output: 1e308 } });
    assert.ok(usage.totalTokens > 0 && usage.totalTokens < 1e6, JSON.stringify(usage));
  });
});
