import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { hasCode } from "gantry";
import type { Model, ModelRequest } from "gantry/plugin";
import { AiSdkProvider, type AiSdkProviderOptions, type WireName } from "gantry/adapters/language-models";
import type { ModelCallOptions } from "../../../adapters/language-models/language-model.js";
import { resolveSettings } from "../../../adapters/language-models/options.js";
import { wire as anthropicWire } from "../../../adapters/language-models/wires/anthropic.js";
import { errorStep, startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { baseUrlOf, WIRE_MODELS } from "../../helpers/model-situations.js";
import {
  createRequest,
  assistantMessage,
  createModel,
  PDF,
  PNG,
  readTool,
  toolResultMessage,
  readAnswer,
  toolCallPart,
  userMessage,
  writeTool,
} from "../../helpers/model-requests.js";

/** Builds a request for a host that no test may contact. */
async function buildAnthropicRequest(baseUrl: string, id: string, fields: Partial<ModelRequest>) {
  const settings = resolveSettings({ name: "lab", driver: "anthropic", baseUrl, apiKey: "k" });
  const request = createRequest({ model: createModel({ id }), ...fields });
  const wireRequest = { request, settings, rejectedParameters: new Set<never>(), maxTokens: 64_000 };
  const baseOptions: ModelCallOptions = {
    prompt: [{ role: "user", content: [{ type: "text", text: "x" }] }],
    ...(request.tools.length > 0 && { tools: [{ type: "function", name: "read", inputSchema: { type: "object" } }] }),
  };
  const build = await anthropicWire.createRequestBuilder(settings);
  return await build(wireRequest, { ...baseOptions, ...(await anthropicWire.options(wireRequest, baseOptions)) });
}

describe("wire-specific requests and errors", () => {
  let server: FakeModelServer;
  const openProviders: AiSdkProvider[] = [];
  const createProvider = (wire: WireName, options: Partial<AiSdkProviderOptions> = {}): AiSdkProvider => {
    const provider = new AiSdkProvider({
      name: "lab",
      driver: wire,
      baseUrl: baseUrlOf(wire, server),
      apiKey: "k",
      ...options,
    });
    openProviders.push(provider);
    return provider;
  };
  const sendRequest = async (
    wire: WireName,
    request: Partial<ModelRequest>,
    options?: Partial<AiSdkProviderOptions>,
    // Request bodies have four different shapes.
    // eslint-disable-next-line @typescript-eslint/no-explicit-any
  ): Promise<any> => {
    await readAnswer(createProvider(wire, options), createRequest({ model: WIRE_MODELS[wire], ...request }));
    return server.requests.at(-1)!.body;
  };

  before(async () => {
    server = await startFakeModelServer();
  });
  afterEach(async () => {
    assert.deepEqual(server.violations, []);
    await Promise.all(openProviders.splice(0).map((provider) => provider.close()));
  });
  after(() => server.close());

  it("openai-responses: sends store false, encrypted reasoning, the cache key and non-strict tools", async () => {
    const body = await sendRequest("openai-responses", { tools: [readTool], effort: "high" });
    assert.equal(body.store, false);
    assert.deepEqual(body.include, ["reasoning.encrypted_content"]);
    assert.equal(body.prompt_cache_key, "session-1");
    assert.deepEqual(body.reasoning, { effort: "high", summary: "auto" });
    assert.equal(body.tools[0].strict, false);
    const bodyWithoutReasoning = await sendRequest("openai-responses", {
      model: createModel({ id: "gpt-4.1" }),
      effort: "high",
      temperature: 0.3,
    });
    assert.deepEqual([bodyWithoutReasoning.reasoning, bodyWithoutReasoning.temperature], [undefined, 0.3]);
  });

  it("openai-responses: sends effort minimal only to models that have it, and no summary after a rejection", async () => {
    assert.equal((await sendRequest("openai-responses", { effort: "minimal" })).reasoning.effort, "minimal");
    assert.equal(
      (
        await sendRequest("openai-responses", {
          effort: "minimal",
          model: createModel({ id: "gpt-5.2", reasoning: true }),
        })
      ).reasoning.effort,
      "low",
    );
    server.enqueue(errorStep(400, "Your organization must be verified to generate reasoning summaries."));
    const body = await sendRequest("openai-responses", { effort: "low" });
    assert.deepEqual(body.reasoning, { effort: "low" });
  });

  it("anthropic: sets cache_control on the system prompt, the last tool and the last two user turns only", async () => {
    const messages = [
      userMessage("One"),
      assistantMessage(toolCallPart("c1", "read", { path: "a" })),
      toolResultMessage("c1", "read", "A"),
      assistantMessage("Done."),
      userMessage("Two"),
      assistantMessage(toolCallPart("c2", "read", { path: "b" }), toolCallPart("c3", "read", { path: "c" })),
      toolResultMessage("c2", "read", "B"),
      toolResultMessage("c3", "read", "C", true),
    ];
    const body = await sendRequest("anthropic", { tools: [readTool, writeTool], messages });
    const cacheControl = { type: "ephemeral" };
    assert.deepEqual(body.system.at(-1).cache_control, cacheControl);
    assert.deepEqual(
      body.tools.map((tool: { cache_control?: unknown }) => tool.cache_control),
      [undefined, cacheControl],
    );
    const markedBlocks = body.messages.flatMap(
      (message: { content: { cache_control?: unknown }[] }, messageIndex: number) =>
        message.content.flatMap((block, blockIndex) =>
          block.cache_control === undefined ? [] : [`${messageIndex}.${blockIndex}`],
        ),
    );
    assert.deepEqual(markedBlocks, ["4.0", "6.1"]);
    assert.deepEqual(
      body.messages[6].content.map((block: { is_error?: boolean }) => block.is_error ?? false),
      [false, true],
    );
  });

  it("anthropic: uses a thinking budget or adaptive thinking by model, within the output limit", async () => {
    const effort = "medium";
    const budgetBody = await sendRequest("anthropic", { effort, temperature: 0.3 });
    assert.deepEqual(
      [budgetBody.thinking, budgetBody.max_tokens, budgetBody.temperature],
      [{ type: "enabled", budget_tokens: 12_000 }, 64_000, undefined],
    );
    const adaptiveBody = await sendRequest("anthropic", { effort, model: createModel({ id: "claude-sonnet-4-6" }) });
    assert.deepEqual(
      [adaptiveBody.thinking.type, adaptiveBody.output_config, adaptiveBody.max_tokens],
      ["adaptive", { effort: "medium" }, 128_000],
    );
    const limitedBody = await sendRequest("anthropic", {
      effort: "high",
      model: createModel({ id: "claude-sonnet-4-5", maxOutput: 4000 }),
    });
    assert.deepEqual([limitedBody.thinking.budget_tokens, limitedBody.max_tokens], [2000, 4000]);
    const defaultBody = await sendRequest("anthropic", {});
    assert.deepEqual([defaultBody.thinking.budget_tokens, defaultBody.max_tokens], [12_000, 64_000]);
    const disabledBody = await sendRequest("anthropic", { needsReasoning: false });
    assert.deepEqual([disabledBody.thinking, disabledBody.max_tokens], [undefined, 64_000]);
    const kimiBody = await sendRequest("anthropic", { model: createModel({ id: "kimi-k2" }), tools: [readTool] });
    assert.deepEqual([kimiBody.max_tokens, kimiBody.tools[0].eager_input_streaming], [8192, undefined]);
  });

  it("anthropic: requests interleaved thinking of Claude 4 to 4.5 with tools and thinking, from Anthropic only", async () => {
    const readBeta = async (id: string, request: Partial<ModelRequest> = {}) => {
      const { headers, body } = await buildAnthropicRequest("https://api.anthropic.com/v1", id, request);
      assert.equal((JSON.parse(body) as { anthropic_beta?: unknown }).anthropic_beta, undefined);
      return /interleaved-thinking-2025-05-14/.test(headers["anthropic-beta"] ?? "");
    };
    const tools = [readTool];
    for (const id of ["claude-sonnet-4-20250514", "claude-opus-4-1", "claude-sonnet-4-5", "claude-haiku-4-5"])
      assert.equal(await readBeta(id, { tools }), true, id);
    for (const id of ["claude-3-7-sonnet-20250219", "claude-opus-4-6", "claude-sonnet-5"])
      assert.equal(await readBeta(id, { tools }), false, id);
    assert.equal(await readBeta("claude-sonnet-4-5"), false, "without tools");
    assert.equal(await readBeta("claude-sonnet-4-5", { tools, needsReasoning: false }), false, "without thinking");
    const { headers } = await buildAnthropicRequest("https://llm.example.com/v1", "claude-sonnet-4-5", { tools });
    assert.equal(headers["anthropic-beta"], undefined);
  });

  it("anthropic: lowers max_tokens so that the prompt fits into the context window", async () => {
    const narrowModel = { ...WIRE_MODELS.anthropic, contextWindow: 70_000 };
    const body = await sendRequest("anthropic", { model: narrowModel, messages: [userMessage("x".repeat(60_000))] });
    assert.ok(body.max_tokens > 40_000 && body.max_tokens < 51_000, String(body.max_tokens));
  });

  it("anthropic: keeps images and PDFs inside tool results, and sends redacted thinking back", async () => {
    server.enqueue({
      say: [
        { reasoning: "", redacted: true },
        { reasoning: "Then." },
        { call: { name: "read", arguments: { path: "a" } } },
      ],
    });
    const provider = createProvider("anthropic");
    const request = createRequest({ model: WIRE_MODELS.anthropic, tools: [readTool], effort: "low" });
    const { message, calls } = await readAnswer(provider, request);
    const parts = [
      { type: "text" as const, text: "both" },
      { type: "image" as const, mediaType: "image/png", data: PNG },
      { type: "file" as const, mediaType: "application/octet-stream", filename: "a.pdf", data: PDF },
    ];
    await readAnswer(provider, {
      ...request,
      messages: [...request.messages, message, toolResultMessage(calls[0]!.id, "read", parts)],
    });
    const { messages } = server.requests.at(-1)!.body;
    assert.deepEqual(
      messages[1].content.map(({ type }: { type: string }) => type),
      ["redacted_thinking", "thinking", "tool_use"],
    );
    assert.deepEqual(
      messages[2].content[0].content.map(({ type }: { type: string }) => type),
      ["text", "image", "document"],
    );
  });

  it("google: sends thinkingLevel to Gemini 3, thinkingBudget to 2.5, and neither to 2.0", async () => {
    const gemini3Body = await sendRequest("google", { effort: "high" });
    assert.deepEqual(gemini3Body.generationConfig.thinkingConfig, { includeThoughts: true, thinkingLevel: "high" });
    const gemini25Body = await sendRequest("google", { effort: "low", model: createModel({ id: "gemini-2.5-flash" }) });
    assert.deepEqual(gemini25Body.generationConfig.thinkingConfig, { includeThoughts: true, thinkingBudget: 4096 });
    const gemini20Body = await sendRequest("google", { effort: "low", model: createModel({ id: "gemini-2.0-flash" }) });
    assert.equal(gemini20Body.generationConfig.thinkingConfig, undefined);
  });

  it("google: sends result images inside the function response to Gemini 3, and after it to 2.5", async () => {
    const messages = [
      userMessage("Look"),
      assistantMessage(toolCallPart("c1", "read", { path: "a.png" })),
      toolResultMessage("c1", "read", [{ type: "image", mediaType: "image/png", data: PNG }]),
    ];
    const gemini3Body = await sendRequest("google", { tools: [readTool], messages });
    assert.equal(gemini3Body.contents.at(-1).parts[0].functionResponse.parts[0].inlineData.data, PNG);
    const gemini25Body = await sendRequest("google", {
      tools: [readTool],
      messages,
      model: createModel({ id: "gemini-2.5-pro" }),
    });
    assert.equal(gemini25Body.contents.at(-1).parts[1].inlineData.data, PNG);
  });

  it("google: a malformed or unexpected call is malformed_answer, with the model's text in the hint", async () => {
    const toCandidateEvent = (candidate: object): string => `data: ${JSON.stringify({ candidates: [candidate] })}\n\n`;
    for (const [finishReason, expectedMessage] of [
      ["MALFORMED_FUNCTION_CALL", "the model made a malformed tool call"],
      ["UNEXPECTED_TOOL_CALL", "the model called a tool where none was expected"],
      ["MALFORMED_RESPONSE", "the model made a malformed answer"],
    ] as const) {
      const finishMessage = "Malformed function call: print(default_api.read(path";
      server.enqueue({
        say: [{ raw: toCandidateEvent({ content: { parts: [], role: "model" }, finishReason, finishMessage }) }],
        finish: "none",
      });
      await assert.rejects(
        readAnswer(createProvider("google"), createRequest({ model: WIRE_MODELS.google })),
        (error) =>
          hasCode(error, "provider") &&
          error.kind === "malformed_answer" &&
          error.message === `lab: malformed_answer: ${expectedMessage}: ${finishMessage}` &&
          error.hint?.includes("default_api.read") === true,
      );
    }
  });

  it("the preset openai uses chat completions at another base URL, with max_completion_tokens; so does moonshot", async () => {
    const chatBody = await sendRequest(
      "openai",
      { model: createModel({ id: "gpt-5", maxOutput: 500 }) },
      { preset: "openai" },
    );
    assert.deepEqual(
      [chatBody.max_completion_tokens, chatBody.max_tokens, chatBody.prompt_cache_key],
      [500, undefined, "session-1"],
    );
    // https://platform.kimi.ai/docs/api/chat: max_tokens is deprecated.
    const kimiBody = await sendRequest("openai", { model: createModel({ maxOutput: 500 }) }, { preset: "moonshot" });
    assert.deepEqual([kimiBody.max_completion_tokens, kimiBody.max_tokens], [500, undefined]);
    const provider = new AiSdkProvider({ preset: "openai", baseUrl: server.baseUrl, apiKey: "k" });
    openProviders.push(provider);
    await readAnswer(provider, createRequest());
    assert.equal(server.requests.at(-1)!.wire, "openai");
  });

  it("openai-responses: omits a parameter from all later requests after the model rejects it", async () => {
    server.enqueue(
      errorStep(400, "Unsupported parameter: 'max_output_tokens' is not supported with this model."),
      errorStep(400, "Unsupported parameter: 'prompt_cache_key' is not supported with this model."),
    );
    const initialRequestCount = server.requests.length;
    const provider = createProvider("openai-responses");
    const request = createRequest({ model: { ...WIRE_MODELS["openai-responses"], maxOutput: 900 } });
    await readAnswer(provider, request);
    await readAnswer(provider, request);
    const sentFields = server.requests
      .slice(initialRequestCount)
      .map(({ body }) => [body.max_output_tokens, body.prompt_cache_key]);
    assert.deepEqual(sentFields, [
      [900, "session-1"],
      [undefined, "session-1"],
      [undefined, undefined],
      [undefined, undefined],
    ]);
  });

  it("no wire sends an effort if the model has reasoning: false", async () => {
    for (const wire of ["openai", "openai-responses", "anthropic", "google"] as const) {
      const body = await sendRequest(wire, { model: { ...WIRE_MODELS[wire], reasoning: false }, effort: "high" });
      assert.doesNotMatch(JSON.stringify(body), /effort|thinking|reasoning"/, wire);
    }
  });

  it("hosts with a small default get an answer limit for models without a known one, within the context window", async () => {
    const readLimit = async (preset: string, model: Partial<Model> = {}): Promise<unknown> =>
      (await sendRequest("openai", { model: createModel(model) }, { preset })).max_tokens;
    assert.deepEqual(
      [await readLimit("cloudflare"), await readLimit("fireworks"), await readLimit("siliconflow")],
      [4096, 32_000, 16_384],
    );
    assert.equal(await readLimit("cloudflare", { maxOutput: 9000 }), 9000);
    const limitInWindow = (await readLimit("cloudflare", { contextWindow: 3000 })) as number;
    assert.ok(limitInWindow > 2900 && limitInWindow < 3000, String(limitInWindow));
    assert.equal(await readLimit("together"), undefined);
    const { body } = server.requests.at(-1)!;
    assert.equal(body.max_completion_tokens, undefined);
  });

  it("openai: a PDF reaches listed and configured models of OpenAI on both protocols, and no model of another host", async () => {
    const pdf = { type: "file" as const, mediaType: "application/pdf", filename: "a.pdf", data: PDF };
    const sendPdf = async (options: Partial<AiSdkProviderOptions>, id: string) => {
      const provider = createProvider("openai", { driver: undefined, ...options });
      const listedModels = await provider.models(new AbortController().signal);
      const model = listedModels.find((listedModel) => listedModel.id === id)!;
      await readAnswer(provider, createRequest({ model, messages: [userMessage(pdf, "Read it.")] }));
      const { body } = server.requests.at(-1)!;
      return (body.input ?? body.messages).at(-1).content[0];
    };
    server.models = ["gpt-5"];
    const dataUrl = `data:application/pdf;base64,${PDF}`;
    const responsesPart = { type: "input_file", filename: "a.pdf", file_data: dataUrl };
    const chatPart = { type: "file", file: { filename: "a.pdf", file_data: dataUrl } };
    const responsesOptions = { preset: "openai", driver: "openai-responses" } as const;
    assert.deepEqual(await sendPdf(responsesOptions, "gpt-5"), responsesPart);
    assert.deepEqual(await sendPdf({ ...responsesOptions, models: [{ id: "gpt-4o" }] }, "gpt-4o"), responsesPart);
    assert.deepEqual(await sendPdf({ preset: "openai" }, "gpt-5"), chatPart);
    assert.match((await sendPdf({ preset: "together" }, "gpt-5")).text, /this model takes no PDF/);
    server.models = ["m1"];
  });

  it("azure: uses openai-responses and sends the key in the header api-key", async () => {
    const provider = new AiSdkProvider({ preset: "azure", baseUrl: server.baseUrl, apiKey: "azure-key" });
    openProviders.push(provider);
    await readAnswer(provider, createRequest({ model: createModel({ id: "my-deployment" }) }));
    const { wire, headers } = server.requests.at(-1)!;
    assert.deepEqual([wire, headers["api-key"]], ["openai-responses", "azure-key"]);
  });

  it("mistral: sends tool call ids of nine letters and digits, and no stream_options", async () => {
    const messages = [
      userMessage("One"),
      assistantMessage(toolCallPart("toolu_01ABC", "read", { path: "a" })),
      toolResultMessage("toolu_01ABC", "read", "A"),
    ];
    const body = await sendRequest("openai", { messages, tools: [readTool] }, { preset: "mistral" });
    assert.match(body.messages[2].tool_calls[0].id, /^[a-zA-Z0-9]{9}$/);
    assert.equal(body.messages[3].tool_call_id, body.messages[2].tool_calls[0].id);
    assert.equal(body.stream_options, undefined);
  });

  it("google: reads retryAfterMs from RetryInfo in the error body", async () => {
    const details = [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "34.5s" }];
    server.enqueue({
      status: 429,
      body: { error: { code: 429, message: "Quota.", status: "RESOURCE_EXHAUSTED", details } },
    });
    await assert.rejects(
      readAnswer(createProvider("google"), createRequest({ model: WIRE_MODELS.google })),
      (error) => hasCode(error, "provider") && error.kind === "rate_limit" && error.retryAfterMs === 34_500,
    );
  });

  it("signed parts are sent back if the provider name has dots and capitals", async () => {
    for (const wire of ["openai-responses", "anthropic", "google"] as const) {
      const provider = createProvider(wire, { name: "My.Lab_1-2" });
      server.enqueue({ say: [{ reasoning: "Hm." }, { call: { name: "read", arguments: { path: "a" } } }] });
      const request = createRequest({ model: WIRE_MODELS[wire], tools: [readTool], effort: "low" });
      const { message, calls } = await readAnswer(provider, request);
      await readAnswer(provider, {
        ...request,
        messages: [...request.messages, message, toolResultMessage(calls[0]!.id, "read", "A")],
      });
      assert.match(
        JSON.stringify(server.requests.at(-1)!.body),
        /encrypted_content":"c2ln|signature":"c2ln|thoughtSignature":"c2ln/,
      );
    }
  });

  it("API keys of environment variables are not sent, on any wire", async () => {
    const variableNames = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"];
    const previousValues = variableNames.map((name) => process.env[name]);
    for (const name of variableNames) process.env[name] = "stolen-key-0123456789";
    try {
      for (const wire of ["openai", "openai-responses", "anthropic", "google"] as const) {
        const provider = new AiSdkProvider({ name: "lab", driver: wire, baseUrl: baseUrlOf(wire, server) });
        openProviders.push(provider);
        await readAnswer(provider, createRequest({ model: WIRE_MODELS[wire] as Model }));
        assert.ok(!JSON.stringify(server.requests.at(-1)!.headers).includes("stolen"), wire);
      }
    } finally {
      for (const [index, name] of variableNames.entries()) {
        if (previousValues[index] === undefined) delete process.env[name];
        else process.env[name] = previousValues[index];
      }
    }
  });
});
