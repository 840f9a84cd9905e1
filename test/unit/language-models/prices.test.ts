import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { resolveSettings } from "../../../adapters/language-models/options.js";
import { findListedCost, findListedPrices, readReportedCost } from "../../../adapters/language-models/prices.js";
import { AiSdkProvider } from "gantry/adapters/language-models";
import { startFakeModelServer } from "../../helpers/fake-model-server.js";
import { createRequest, createModel, readAnswer } from "../../helpers/model-requests.js";

const usage = {
  inputTokens: 100_000,
  outputTokens: 5_000,
  cacheReadTokens: 60_000,
  cacheWriteTokens: 0,
  reasoningTokens: 2_000,
};
const getSettings = (preset: string) => resolveSettings({ preset, apiKey: "k" });
const assertClose = (actual: number | undefined, expected: number): void =>
  assert.ok(actual !== undefined && Math.abs(actual - expected) < 1e-9, `${actual} is not ${expected}`);
const answerDate = new Date("2026-11-01T12:00:00Z");

describe("the cost of an answer", () => {
  it("follows the published prices for input, cached input, cache writes, output and long prompts", async () => {
    // Published USD per million tokens: input without cached tokens, cached input, cache writes, output with reasoning.
    const MILLION = 1e6;
    assertClose(
      await findListedCost(usage, "gpt-5", getSettings("openai"), answerDate),
      (40_000 * 1.25 + 60_000 * 0.125 + 5_000 * 10) / MILLION,
    );
    assertClose(
      await findListedCost(
        { ...usage, cacheWriteTokens: 10_000 },
        "claude-sonnet-4-5",
        getSettings("anthropic"),
        answerDate,
      ),
      (30_000 * 3 + 60_000 * 0.3 + 10_000 * 3.75 + 5_000 * 15) / MILLION,
    );
    assertClose(
      await findListedCost(usage, "gemini-2.5-pro", getSettings("google"), answerDate),
      (40_000 * 1.25 + 60_000 * 0.125 + 5_000 * 10) / MILLION,
    );
    // The price is higher above 200,000 prompt tokens.
    assertClose(
      await findListedCost(
        { ...usage, inputTokens: 300_000, cacheReadTokens: 0 },
        "gemini-2.5-pro",
        getSettings("google"),
        answerDate,
      ),
      (300_000 * 2.5 + 5_000 * 15) / MILLION,
    );
  });

  it("is found for known spellings of a model id, and not for other versions", async () => {
    const findCost = (id: string, preset: string) =>
      findListedCost(
        { ...usage, inputTokens: 1e6, outputTokens: 0, cacheReadTokens: 0 },
        id,
        getSettings(preset),
        answerDate,
      );
    assertClose(await findCost("llama3.3-70b", "cerebras"), 0.85);
    assertClose(await findCost("gemini-3-flash", "google"), 0.5);
    assert.ok((await findCost("gemini-3.6-flash", "google"))! > 0);
    for (const [id, preset] of [
      ["llama33-70b", "cerebras"],
      ["gemini-3.9-flash", "google"],
      ["gemini-pro-latest", "google"],
      ["mistral-small-2506", "mistral"],
      ["kimi-k3.1-pro", "moonshot"],
      ["zai-glm-4.6", "cerebras"],
    ] as const)
      assert.equal(await findCost(id, preset), undefined, id);
  });

  it("is unknown for a model listed without a price; DeepSeek's aliases cost what their model costs", async () => {
    assert.equal(await findListedCost(usage, "qwen-3-coder-480b", getSettings("cerebras"), answerDate), undefined);
    assert.equal(await findListedPrices("qwen-3-coder-480b", 1_000, getSettings("cerebras")), undefined);
    for (const time of ["2026-11-01T12:00:00Z", "2026-11-01T20:00:00Z"]) {
      const flashCost = await findListedCost(usage, "deepseek-v4-flash", getSettings("deepseek"), new Date(time));
      assert.ok(flashCost !== undefined && flashCost > 0);
      for (const id of ["deepseek-chat", "deepseek-reasoner"])
        assertClose(await findListedCost(usage, id, getSettings("deepseek"), new Date(time)), flashCost);
    }
  });

  it("is unknown for unknown models and for providers without listed prices", async () => {
    assert.equal(await findListedCost(usage, "no-such-model-9", getSettings("openai"), answerDate), undefined);
    assert.equal(await findListedCost(usage, "gpt-5", getSettings("ollama"), answerDate), undefined);
    assert.equal(await findListedCost(usage, "anything", getSettings("nvidia"), answerDate), undefined);
  });

  it("is read from the provider's own field and unit, and is undefined without such a field", () => {
    const raw = { cost: 0.5, cost_in_usd_ticks: 12_500_000_000 };
    assert.equal(readReportedCost({ usage, raw }, getSettings("openrouter")), 0.5);
    assert.equal(readReportedCost({ usage, raw: { cost: { total_cost: 0.25 } } }, getSettings("perplexity")), 0.25);
    assert.equal(readReportedCost({ usage, raw }, getSettings("xai")), 1.25);
    assert.equal(readReportedCost({ usage, raw }, getSettings("groq")), undefined);
  });

  it("is read from recorded answers of gateways", async () => {
    // Recorded in providertests/testdata of charmbracelet/fantasy at f6d4d1e3: TestVercelCommon/gpt-5/tool_streaming and
    // TestOpenAICompatibleCommon/avian-kimi/simple_streaming.
    const recordedUsages = {
      vercel: {
        ...{ prompt_tokens: 63, completion_tokens: 116, total_tokens: 179, cost: 0.00187875, is_byok: false },
        prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0, video_tokens: 0 },
        cost_details: {
          upstream_inference_cost: null,
          upstream_inference_prompt_cost: 0,
          upstream_inference_completions_cost: 0,
        },
        completion_tokens_details: { reasoning_tokens: 64, image_tokens: 0 },
        ...{ cache_creation_input_tokens: 0, market_cost: 0.00187875 },
      },
      avian: {
        ...{ prompt_tokens: 21, completion_tokens: 242, total_tokens: 263, cost: 0.00054005 },
        prompt_tokens_details: { cached_tokens: 8, cache_write_tokens: 0, audio_tokens: 0, video_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 238, image_tokens: 0, audio_tokens: 0 },
      },
    };
    const server = await startFakeModelServer();
    try {
      for (const [preset, recordedUsage] of Object.entries(recordedUsages)) {
        const event = {
          choices: [{ index: 0, delta: { content: "Hi" }, finish_reason: "stop" }],
          usage: recordedUsage,
        };
        server.enqueue({
          ...{ status: 200, headers: { "content-type": "text/event-stream" } },
          body: `data: ${JSON.stringify(event)}\n\ndata: [DONE]\n\n`,
        });
        const provider = new AiSdkProvider({ preset, baseUrl: server.baseUrl, apiKey: "k" });
        const { finish } = await readAnswer(provider, createRequest({ model: createModel({ id: "openai/gpt-5" }) }));
        await provider.close();
        assert.deepEqual([finish.usage.cost, finish.usage.costReported], [recordedUsage.cost, true], preset);
      }
    } finally {
      await server.close();
    }
  });

  it("is set by the provider only if the model has no configured prices", async () => {
    const server = await startFakeModelServer({
      fallback: { say: [{ text: "x" }], usage: { input: 1000, output: 100 } },
    });
    const provider = new AiSdkProvider({ preset: "groq", baseUrl: server.baseUrl, apiKey: "k" });
    try {
      const configuredPriceAnswer = await readAnswer(
        provider,
        createRequest({ model: createModel({ id: "openai/gpt-oss-120b", prices: { input: 1, output: 1 } }) }),
      );
      assert.equal(configuredPriceAnswer.finish.usage.cost, undefined);
      const listedPriceAnswer = await readAnswer(
        provider,
        createRequest({ model: createModel({ id: "openai/gpt-oss-120b" }) }),
      );
      assertClose(listedPriceAnswer.finish.usage.cost, (1000 * 0.15 + 100 * 0.6) / 1e6);
    } finally {
      await provider.close();
      await server.close();
    }
  });

  it("findListedPrices returns the prices for the length of the prompt, and undefined for unknown models", async () => {
    const shortPromptPrices = await findListedPrices("gemini-2.5-pro", 1_000, getSettings("google"));
    assertClose(shortPromptPrices?.input, 1.25);
    assertClose(shortPromptPrices?.output, 10);
    assertClose((await findListedPrices("gemini-2.5-pro", 300_000, getSettings("google")))?.input, 2.5);
    assertClose((await findListedPrices("claude-sonnet-4-5", 1_000, getSettings("anthropic")))?.cacheWrite, 3.75);
    assert.equal(await findListedPrices("nobody-knows-it", 1_000, getSettings("openai")), undefined);
    assert.equal(await findListedPrices("anything", 0, getSettings("ollama")), undefined);
  });
});
