import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { resolveSettings } from "../../../adapters/language-models/options.js";
import { findListedCost, findListedPrices, readReportedCost } from "../../../adapters/language-models/prices.js";
import { AiSdkProvider } from "gantry/adapters/language-models";
import { startFakeModelServer } from "../../helpers/fake-model-server.js";
import { ask, model, take } from "../../helpers/model-requests.js";

const usage = {
  inputTokens: 100_000,
  outputTokens: 5_000,
  cacheReadTokens: 60_000,
  cacheWriteTokens: 0,
  reasoningTokens: 2_000,
};
const settings = (preset: string) => resolveSettings({ preset, apiKey: "k" });
const near = (actual: number | undefined, expected: number): void =>
  assert.ok(actual !== undefined && Math.abs(actual - expected) < 1e-9, `${actual} is not ${expected}`);
const at = new Date("2026-11-01T12:00:00Z");

describe("the cost of an answer", () => {
  it("follows the published prices for input, cached input, cache writes, output and long prompts", async () => {
    // Published USD per million tokens: input without cached tokens, cached input, cache writes, output with reasoning.
    const M = 1e6;
    near(
      await findListedCost(usage, "gpt-5", settings("openai"), at),
      (40_000 * 1.25 + 60_000 * 0.125 + 5_000 * 10) / M,
    );
    near(
      await findListedCost({ ...usage, cacheWriteTokens: 10_000 }, "claude-sonnet-4-5", settings("anthropic"), at),
      (30_000 * 3 + 60_000 * 0.3 + 10_000 * 3.75 + 5_000 * 15) / M,
    );
    near(
      await findListedCost(usage, "gemini-2.5-pro", settings("google"), at),
      (40_000 * 1.25 + 60_000 * 0.125 + 5_000 * 10) / M,
    );
    // The price is higher above 200,000 prompt tokens.
    near(
      await findListedCost(
        { ...usage, inputTokens: 300_000, cacheReadTokens: 0 },
        "gemini-2.5-pro",
        settings("google"),
        at,
      ),
      (300_000 * 2.5 + 5_000 * 15) / M,
    );
  });

  it("is found for known spellings of a model id, and not for other versions", async () => {
    const cost = (id: string, preset: string) =>
      findListedCost({ ...usage, inputTokens: 1e6, outputTokens: 0, cacheReadTokens: 0 }, id, settings(preset), at);
    near(await cost("llama3.3-70b", "cerebras"), 0.85);
    near(await cost("gemini-3-flash", "google"), 0.5);
    assert.ok((await cost("gemini-3.6-flash", "google"))! > 0);
    for (const [id, preset] of [
      ["llama33-70b", "cerebras"],
      ["gemini-3.9-flash", "google"],
      ["gemini-pro-latest", "google"],
      ["mistral-small-2506", "mistral"],
      ["kimi-k3.1-pro", "moonshot"],
      ["zai-glm-4.6", "cerebras"],
    ] as const)
      assert.equal(await cost(id, preset), undefined, id);
  });

  it("is unknown for a model listed without a price; DeepSeek's aliases cost what their model costs", async () => {
    assert.equal(await findListedCost(usage, "qwen-3-coder-480b", settings("cerebras"), at), undefined);
    assert.equal(await findListedPrices("qwen-3-coder-480b", 1_000, settings("cerebras")), undefined);
    for (const time of ["2026-11-01T12:00:00Z", "2026-11-01T20:00:00Z"]) {
      const flash = await findListedCost(usage, "deepseek-v4-flash", settings("deepseek"), new Date(time));
      assert.ok(flash !== undefined && flash > 0);
      for (const id of ["deepseek-chat", "deepseek-reasoner"])
        near(await findListedCost(usage, id, settings("deepseek"), new Date(time)), flash);
    }
  });

  it("is unknown for unknown models and for providers without listed prices", async () => {
    assert.equal(await findListedCost(usage, "no-such-model-9", settings("openai"), at), undefined);
    assert.equal(await findListedCost(usage, "gpt-5", settings("ollama"), at), undefined);
    assert.equal(await findListedCost(usage, "anything", settings("nvidia"), at), undefined);
  });

  it("is read from the provider's own field and unit, and is undefined without such a field", () => {
    const raw = { cost: 0.5, cost_in_usd_ticks: 12_500_000_000 };
    assert.equal(readReportedCost({ usage, raw }, settings("openrouter")), 0.5);
    assert.equal(readReportedCost({ usage, raw: { cost: { total_cost: 0.25 } } }, settings("perplexity")), 0.25);
    assert.equal(readReportedCost({ usage, raw }, settings("xai")), 1.25);
    assert.equal(readReportedCost({ usage, raw }, settings("groq")), undefined);
  });

  it("is set by the provider only if the model has no configured prices", async () => {
    const server = await startFakeModelServer({
      fallback: { say: [{ text: "x" }], usage: { input: 1000, output: 100 } },
    });
    const provider = new AiSdkProvider({ preset: "groq", baseUrl: server.baseUrl, apiKey: "k" });
    try {
      const priced = await take(
        provider,
        ask({ model: model({ id: "openai/gpt-oss-120b", prices: { input: 1, output: 1 } }) }),
      );
      assert.equal(priced.finish.usage.cost, undefined);
      const listed = await take(provider, ask({ model: model({ id: "openai/gpt-oss-120b" }) }));
      near(listed.finish.usage.cost, (1000 * 0.15 + 100 * 0.6) / 1e6);
    } finally {
      await provider.close();
      await server.close();
    }
  });

  it("listedPrices returns the prices for the length of the prompt, and undefined for unknown models", async () => {
    const short = await findListedPrices("gemini-2.5-pro", 1_000, settings("google"));
    near(short?.input, 1.25);
    near(short?.output, 10);
    near((await findListedPrices("gemini-2.5-pro", 300_000, settings("google")))?.input, 2.5);
    near((await findListedPrices("claude-sonnet-4-5", 1_000, settings("anthropic")))?.cacheWrite, 3.75);
    assert.equal(await findListedPrices("nobody-knows-it", 1_000, settings("openai")), undefined);
    assert.equal(await findListedPrices("anything", 0, settings("ollama")), undefined);
  });
});
