import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { ReasoningEffort } from "gantry";
import type { Model, ModelRequest } from "gantry/plugin";
import { AiSdkProvider, type AiSdkProviderOptions } from "gantry/adapters/language-models";
import { effortsOf, getClaudeThinking } from "../../../adapters/language-models/efforts.js";
import { resolveSettings } from "../../../adapters/language-models/options.js";
import { wire as anthropic } from "../../../adapters/language-models/wires/anthropic.js";
import { errorStep, startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { createRequest, createModel, readAnswer } from "../../helpers/model-requests.js";

const ALL_EFFORTS = ["minimal", "low", "medium", "high", "xhigh", "max"] as const;
/** Returns the efforts of a model, or `?` if they are unknown. */
const formatEfforts = (id: string, preset = "openai"): string =>
  (effortsOf({ id }, resolveSettings({ preset, apiKey: "k" })) ?? ["?"]).join(" ");

describe("effort levels of a model", () => {
  it("follow the model family, even if the preset is openai and the vendor another one", () => {
    const expectedEffortsById: Record<string, string> = {
      "gpt-5": "minimal low medium high",
      "gpt-5-mini-2025-08-07": "minimal low medium high",
      "gpt-5-pro": "high",
      "gpt-5-codex": "low medium high",
      "gpt-5.1": "low medium high",
      "gpt-5.1-codex-max": "low medium high xhigh",
      "gpt-5.2": "low medium high xhigh",
      "gpt-5.2-pro-2025-12-11": "medium high xhigh",
      "gpt-5.5-2026-04-23": "low medium high xhigh",
      "gpt-5.6-sol": "low medium high xhigh max",
      "gpt-6": "low medium high xhigh max",
      "o4-mini": "low medium high",
      "openai/gpt-oss-120b": "low medium high",
      "claude-3-7-sonnet-20250219": "minimal low medium high max",
      "claude-sonnet-4-20250514": "minimal low medium high max",
      "claude-opus-4-5-20251101": "minimal low medium high max",
      "claude-haiku-4-5": "minimal low medium high max",
      "claude-sonnet-4-6": "low medium high max",
      "claude-opus-4-6": "low medium high max",
      "claude-opus-4-7": "low medium high xhigh max",
      "anthropic/claude-opus-4.8": "low medium high xhigh max",
      "claude-sonnet-5": "low medium high xhigh max",
      "claude-opus-5-5": "low medium high xhigh max",
      "claude-fable-5-1": "low medium high xhigh max",
      "claude-mythos-preview": "low medium high max",
      "gemini-2.5-pro": "minimal low medium high",
      "gemini-3-pro-preview": "low high",
      "gemini-3.1-pro-preview": "low medium high",
      "gemini-3-flash-preview": "minimal low medium high",
      "gemini-3.6-flash": "minimal low medium high",
      "gemini-3.8-flash": "low medium high",
      "gemini-3.5-flash-lite": "minimal low medium high",
      "grok-4.5": "low medium high",
      "grok-4-fast": "",
      "no-such-model": "?",
    };
    for (const [id, effortList] of Object.entries(expectedEffortsById)) assert.equal(formatEfforts(id), effortList, id);
  });

  it("follow the provider for DeepSeek, Moonshot, Zhipu, Mistral and OpenRouter", () => {
    assert.equal(formatEfforts("deepseek-v4-pro", "deepseek"), "minimal low high max");
    assert.equal(formatEfforts("deepseek-chat", "deepseek"), "minimal high");
    assert.equal(formatEfforts("kimi-k3", "moonshot"), "low high max");
    assert.equal(formatEfforts("kimi-k2.6", "moonshot"), "minimal high");
    assert.equal(formatEfforts("kimi-k2.7-code", "moonshot"), "");
    assert.equal(formatEfforts("glm-5.2", "zhipu"), "minimal high");
    assert.equal(formatEfforts("magistral-medium-latest", "mistral"), "");
    assert.equal(formatEfforts("qwen/qwen3-max-thinking", "openrouter"), "minimal low medium high xhigh");
  });

  it("getClaudeThinking returns undefined for Claude models without reasoning and for other models", () => {
    for (const id of ["claude-3-5-sonnet-20241022", "claude-3-opus-latest", "claude-2.1", "gpt-5", "not-claude"])
      assert.equal(getClaudeThinking(id), undefined, id);
  });
});

describe("reasoning parameters of a request", () => {
  let server: FakeModelServer;
  before(
    async () => void (server = await startFakeModelServer({ dialect: { body: ["thinking", "reasoning", "usage"] } })),
  );
  after(() => server.close());

  /** Sends a request and returns its body. */
  async function sendRequest(options: AiSdkProviderOptions, id: string, changes: Partial<ModelRequest & Model> = {}) {
    const { reasoning, efforts: modelEfforts, maxOutput, ...requestFields } = changes;
    const modelFields = {
      ...(reasoning === undefined ? {} : { reasoning }),
      ...(modelEfforts && { efforts: modelEfforts }),
      ...(maxOutput && { maxOutput }),
    };
    const provider = new AiSdkProvider({ apiKey: "k", ...options, baseUrl: server.baseUrl });
    server.enqueue({ say: [{ text: "OK." }] });
    try {
      await readAnswer(provider, createRequest({ model: createModel({ id, ...modelFields }), ...requestFields }));
    } finally {
      await provider.close();
    }
    // eslint-disable-next-line @typescript-eslint/no-explicit-any -- JSON of a request, compared field by field.
    return server.requests.at(-1)!.body as any;
  }
  const sendToClaude = (id: string, changes: Partial<ModelRequest & Model> = {}) =>
    sendRequest({ preset: "anthropic" }, id, changes).then(({ thinking, output_config }) => ({
      thinking,
      output_config,
    }));

  it("Claude reasons by default: adaptively on newer models, with 12,000 tokens on older ones", async () => {
    const adaptiveReasoning = { thinking: { type: "adaptive", display: "summarized" }, output_config: undefined };
    for (const id of ["claude-sonnet-4-6", "claude-opus-4-7", "claude-opus-5"])
      assert.deepEqual(await sendToClaude(id), adaptiveReasoning, id);
    for (const id of ["claude-sonnet-4-5", "claude-3-7-sonnet-20250219"])
      assert.deepEqual((await sendToClaude(id)).thinking, { type: "enabled", budget_tokens: 12_000 }, id);
    assert.equal((await sendToClaude("claude-3-5-sonnet-20241022")).thinking, undefined);
  });

  it("Claude gets no reasoning or the lowest effort for needsReasoning false, reasoning false or 1,500 output tokens", async () => {
    const noReasoning = { thinking: undefined, output_config: undefined };
    for (const id of ["claude-sonnet-4-5", "claude-opus-4-8"]) {
      assert.deepEqual(await sendToClaude(id, { needsReasoning: false, effort: "minimal" }), noReasoning, id);
      assert.deepEqual(await sendToClaude(id, { reasoning: false, effort: "high" }), noReasoning, id);
      assert.deepEqual(await sendToClaude(id, { maxOutput: 1500 }), noReasoning, id);
    }
    const disabledReasoning = { thinking: { type: "disabled" }, output_config: undefined };
    assert.deepEqual(
      await sendToClaude("claude-sonnet-5", { needsReasoning: false, effort: "low" }),
      disabledReasoning,
    );
    // This model cannot switch reasoning off.
    const lowestReasoning = { thinking: undefined, output_config: { effort: "low" } };
    assert.deepEqual(await sendToClaude("claude-opus-5-5", { needsReasoning: false, effort: "low" }), lowestReasoning);
  });

  it("an effort for Claude becomes the nearest level, or a token budget on models without levels", async () => {
    const cases: [string, ReasoningEffort, unknown][] = [
      ["claude-opus-4-7", "xhigh", { effort: "xhigh" }],
      ["claude-opus-4-6", "xhigh", { effort: "high" }],
      ["claude-opus-4-6", "max", { effort: "max" }],
      ["claude-opus-5", "minimal", { effort: "low" }],
    ];
    for (const [id, effort, outputConfig] of cases)
      assert.deepEqual((await sendToClaude(id, { effort })).output_config, outputConfig);
    const budgetTokensByEffort = { minimal: 1024, low: 4096, medium: 12_000, high: 24_000, max: 32_000 };
    for (const [effort, budgetTokens] of Object.entries(budgetTokensByEffort))
      assert.equal(
        (await sendToClaude("claude-sonnet-4-5", { effort: effort as ReasoningEffort })).thinking.budget_tokens,
        budgetTokens,
      );
  });

  it("Claude Sonnet 4.5 gets no thinking budget after a tool call without stored reasoning, until the next turn", async () => {
    const call = { type: "tool_call" as const, id: "c1", name: "read", arguments: "{}" };
    const messages = [
      {
        role: "user" as const,
        parts: [{ type: "text" as const, text: "Read." }],
        toolCallId: "",
        name: "",
        failed: false,
      },
      { role: "assistant" as const, parts: [call], toolCallId: "", name: "", failed: false },
      {
        role: "tool" as const,
        parts: [{ type: "text" as const, text: "x" }],
        toolCallId: "c1",
        name: "read",
        failed: false,
      },
    ];
    assert.equal((await sendToClaude("claude-sonnet-4-5", { messages, effort: "high" })).thinking, undefined);
    assert.equal((await sendToClaude("claude-sonnet-4-6", { messages })).thinking.type, "adaptive");
    const nextTurnMessages = [
      ...messages,
      { ...messages[1]!, parts: [{ type: "text" as const, text: "Done." }] },
      messages[0]!,
    ];
    assert.equal(
      (await sendToClaude("claude-sonnet-4-5", { messages: nextTurnMessages })).thinking.type,
      "enabled",
      "the next turn has reasoning",
    );
  });

  it("drop_block is sent for Claude 5.5 and Fable models at api.anthropic.com only", async () => {
    const createThinkingOptions = async (id: string, baseUrl: string, needsReasoning = true) => {
      const wireRequest = {
        request: createRequest({ model: createModel({ id }), needsReasoning }),
        settings: resolveSettings({ preset: "anthropic", baseUrl, apiKey: "k" }),
        rejectedParameters: new Set<never>(),
        maxTokens: undefined,
      };
      return (await anthropic.options(wireRequest, { prompt: [] })).providerOptions?.anthropic?.thinking;
    };
    const blockBinding = { prefixMismatchBehavior: "drop_block" };
    const anthropicUrl = "https://api.anthropic.com/v1";
    for (const id of ["claude-opus-5-5", "claude-fable-5-1", "claude-haiku-5-5"]) {
      assert.deepEqual(
        await createThinkingOptions(id, anthropicUrl),
        { type: "adaptive", display: "summarized", blockBinding },
        id,
      );
      assert.deepEqual(await createThinkingOptions(id, anthropicUrl, false), { blockBinding }, id);
      assert.deepEqual(
        await createThinkingOptions(id, "https://llm.example/v1"),
        { type: "adaptive", display: "summarized" },
        id,
      );
    }
    assert.deepEqual(await createThinkingOptions("claude-opus-5", anthropicUrl), {
      type: "adaptive",
      display: "summarized",
    });
  });

  it("gpt-5.2 and gpt-5.4-mini get effort medium by default on openai-responses; other GPT models get none", async () => {
    const getSentReasoning = async (id: string, requestFields: Partial<ModelRequest> = {}) =>
      (await sendRequest({ preset: "openai", driver: "openai-responses" }, id, requestFields)).reasoning;
    assert.deepEqual(await getSentReasoning("gpt-5.2"), { effort: "medium", summary: "auto" });
    assert.deepEqual(await getSentReasoning("gpt-5.4-mini"), { effort: "medium", summary: "auto" });
    for (const id of ["gpt-5", "gpt-5.1-codex", "gpt-5.5", "gpt-6-sol"])
      assert.deepEqual(await getSentReasoning(id), { summary: "auto" }, id);
    assert.deepEqual(await getSentReasoning("gpt-5.2", { needsReasoning: false }), { summary: "auto" });
    assert.deepEqual(await getSentReasoning("gpt-5.2", { effort: "max" }), { effort: "xhigh", summary: "auto" });
    assert.deepEqual(await getSentReasoning("gpt-5.6-sol", { effort: "max" }), { effort: "max", summary: "auto" });
    assert.equal((await sendRequest({ preset: "openai", driver: "openai" }, "gpt-5.2")).reasoning_effort, undefined);
  });

  it("Gemini gets its default reasoning, flash-lite a dynamic budget, and an effort as level or token budget", async () => {
    const getSentThinkingConfig = async (id: string, requestFields: Partial<ModelRequest> = {}) =>
      (await sendRequest({ preset: "google" }, id, requestFields)).generationConfig?.thinkingConfig;
    assert.deepEqual(await getSentThinkingConfig("gemini-3.1-pro-preview"), { includeThoughts: true });
    assert.deepEqual(await getSentThinkingConfig("gemini-2.5-flash"), { includeThoughts: true });
    assert.deepEqual(await getSentThinkingConfig("gemini-2.5-flash-lite"), {
      includeThoughts: true,
      thinkingBudget: -1,
    });
    assert.deepEqual(await getSentThinkingConfig("gemini-2.5-flash-lite", { needsReasoning: false }), {
      includeThoughts: true,
    });
    assert.deepEqual(await getSentThinkingConfig("gemini-3-pro-preview", { effort: "medium" }), {
      includeThoughts: true,
      thinkingLevel: "high",
    });
    assert.deepEqual(await getSentThinkingConfig("gemini-3.8-flash", { effort: "max" }), {
      includeThoughts: true,
      thinkingLevel: "high",
    });
    assert.deepEqual(await getSentThinkingConfig("gemini-2.5-pro", { effort: "xhigh" }), {
      includeThoughts: true,
      thinkingBudget: 24_576,
    });
  });

  it("OpenRouter requests enable reasoning for models that need it, unless the call needs none", async () => {
    const getSentReasoning = async (id: string, requestFields: Partial<ModelRequest> = {}) =>
      (await sendRequest({ preset: "openrouter" }, id, requestFields)).reasoning;
    assert.deepEqual(await getSentReasoning("anthropic/claude-opus-4.8"), { enabled: true });
    assert.deepEqual(await getSentReasoning("openai/gpt-5.2"), { enabled: true });
    assert.equal(await getSentReasoning("anthropic/claude-opus-4.8", { needsReasoning: false }), undefined);
    assert.equal(await getSentReasoning("anthropic/claude-3.5-sonnet"), undefined);
    assert.equal(await getSentReasoning("deepseek/deepseek-v4-pro"), undefined);
    assert.deepEqual(await getSentReasoning("anthropic/claude-opus-4.8", { effort: "max" }), { effort: "max" });
  });

  it("DeepSeek, Kimi and GLM get thinking enabled or disabled, with an effort if the model has levels", async () => {
    const getSentThinking = async (preset: string, id: string, effort: ReasoningEffort) => {
      const { thinking, reasoning_effort } = await sendRequest({ preset }, id, { effort });
      return [thinking?.type, reasoning_effort];
    };
    assert.deepEqual(await getSentThinking("deepseek", "deepseek-v4-pro", "max"), ["enabled", "max"]);
    assert.deepEqual(await getSentThinking("deepseek", "deepseek-v4-pro", "medium"), ["enabled", "high"]);
    assert.deepEqual(await getSentThinking("deepseek", "deepseek-v4-flash", "minimal"), ["disabled", undefined]);
    assert.deepEqual(await getSentThinking("deepseek", "deepseek-v4-pro", ""), [undefined, undefined]);
    assert.deepEqual(await getSentThinking("moonshot", "kimi-k3", "medium"), [undefined, "high"]);
    assert.deepEqual(await getSentThinking("moonshot", "kimi-k2.6", "max"), ["enabled", undefined]);
    assert.deepEqual(await getSentThinking("moonshot", "kimi-k2.7-code", "high"), [undefined, undefined]);
    assert.deepEqual(await getSentThinking("zhipu", "glm-5.2", "minimal"), ["disabled", undefined]);
    assert.deepEqual(await getSentThinking("mistral", "magistral-medium-latest", "high"), [undefined, undefined]);
  });

  it("an effort is mapped to the nearest of the model's efforts, by default to low, medium or high", async () => {
    const body = await sendRequest({ name: "lab", driver: "openai" }, "m1", {
      effort: "max",
      efforts: ["low", "xhigh"],
    });
    assert.equal(body.reasoning_effort, "xhigh");
    for (const effort of ALL_EFFORTS) {
      const { reasoning_effort: sentEffort } = await sendRequest({ name: "lab", driver: "openai" }, "m1", { effort });
      assert.equal(sentEffort, { minimal: "low", low: "low", medium: "medium" }[effort as string] ?? "high");
    }
  });

  it("a request is repeated without default reasoning after the model rejects it", async () => {
    const provider = new AiSdkProvider({ preset: "anthropic", apiKey: "k", baseUrl: server.baseUrl });
    server.enqueue(errorStep(400, "thinking: adaptive is not supported on this model"));
    server.enqueue({ say: [{ text: "OK." }] });
    const { text } = await readAnswer(provider, createRequest({ model: createModel({ id: "claude-sonnet-4-6" }) }));
    await provider.close();
    assert.equal(text, "OK.");
    assert.equal(server.requests.at(-1)!.body.thinking, undefined);
  });
});
