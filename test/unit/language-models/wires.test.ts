import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { hasCode } from "gantry";
import type { Model, ModelRequest } from "gantry/plugin";
import { AiSdkProvider, type AiSdkProviderOptions, type WireName } from "gantry/adapters/language-models";
import { fail, startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { baseUrlOf, WIRE_MODELS } from "../../helpers/model-situations.js";
import {
  ask,
  assistant,
  model,
  PDF,
  PNG,
  readTool,
  result,
  take,
  toolCall,
  user,
  writeTool,
} from "../../helpers/model-requests.js";

describe("wire-specific requests and errors", () => {
  let server: FakeModelServer;
  const open: AiSdkProvider[] = [];
  const make = (wire: WireName, options: Partial<AiSdkProviderOptions> = {}): AiSdkProvider => {
    const provider = new AiSdkProvider({
      name: "lab",
      driver: wire,
      baseUrl: baseUrlOf(wire, server),
      apiKey: "k",
      ...options,
    });
    open.push(provider);
    return provider;
  };
  const sent = async (
    wire: WireName,
    request: Partial<ModelRequest>,
    options?: Partial<AiSdkProviderOptions>,
    // Request bodies have four different shapes.
    // eslint-disable-next-line @typescript-eslint/no-explicit-any
  ): Promise<any> => {
    await take(make(wire, options), ask({ model: WIRE_MODELS[wire], ...request }));
    return server.requests.at(-1)!.body;
  };

  before(async () => {
    server = await startFakeModelServer();
  });
  afterEach(async () => {
    assert.deepEqual(server.violations, []);
    await Promise.all(open.splice(0).map((provider) => provider.close()));
  });
  after(() => server.close());

  it("openai-responses: sends store false, encrypted reasoning, the cache key and non-strict tools", async () => {
    const body = await sent("openai-responses", { tools: [readTool], effort: "high" });
    assert.equal(body.store, false);
    assert.deepEqual(body.include, ["reasoning.encrypted_content"]);
    assert.equal(body.prompt_cache_key, "session-1");
    assert.deepEqual(body.reasoning, { effort: "high", summary: "auto" });
    assert.equal(body.tools[0].strict, false);
    const plain = await sent("openai-responses", { model: model({ id: "gpt-4.1" }), effort: "high", temperature: 0.3 });
    assert.deepEqual([plain.reasoning, plain.temperature], [undefined, 0.3]);
  });

  it("openai-responses: sends effort minimal only to models that have it, and no summary after a rejection", async () => {
    assert.equal((await sent("openai-responses", { effort: "minimal" })).reasoning.effort, "minimal");
    assert.equal(
      (await sent("openai-responses", { effort: "minimal", model: model({ id: "gpt-5.2", reasoning: true }) }))
        .reasoning.effort,
      "low",
    );
    server.enqueue(fail(400, "Your organization must be verified to generate reasoning summaries."));
    const body = await sent("openai-responses", { effort: "low" });
    assert.deepEqual(body.reasoning, { effort: "low" });
  });

  it("anthropic: sets cache marks on the system prompt, the last tool and the last two user turns only", async () => {
    const messages = [
      user("One"),
      assistant(toolCall("c1", "read", { path: "a" })),
      result("c1", "read", "A"),
      assistant("Done."),
      user("Two"),
      assistant(toolCall("c2", "read", { path: "b" }), toolCall("c3", "read", { path: "c" })),
      result("c2", "read", "B"),
      result("c3", "read", "C", true),
    ];
    const body = await sent("anthropic", { tools: [readTool, writeTool], messages });
    const mark = { type: "ephemeral" };
    assert.deepEqual(body.system.at(-1).cache_control, mark);
    assert.deepEqual(
      body.tools.map((tool: { cache_control?: unknown }) => tool.cache_control),
      [undefined, mark],
    );
    const marked = body.messages.flatMap((message: { content: { cache_control?: unknown }[] }, index: number) =>
      message.content.flatMap((block, part) => (block.cache_control === undefined ? [] : [`${index}.${part}`])),
    );
    assert.deepEqual(marked, ["4.0", "6.1"]);
    assert.deepEqual(
      body.messages[6].content.map((block: { is_error?: boolean }) => block.is_error ?? false),
      [false, true],
    );
  });

  it("anthropic: uses a thinking budget or adaptive thinking by model, within the output limit", async () => {
    const effort = "medium";
    const older = await sent("anthropic", { effort, temperature: 0.3 });
    assert.deepEqual(
      [older.thinking, older.max_tokens, older.temperature],
      [{ type: "enabled", budget_tokens: 12_000 }, 64_000, undefined],
    );
    const newer = await sent("anthropic", { effort, model: model({ id: "claude-sonnet-4-6" }) });
    assert.deepEqual(
      [newer.thinking.type, newer.output_config, newer.max_tokens],
      ["adaptive", { effort: "medium" }, 128_000],
    );
    const small = await sent("anthropic", {
      effort: "high",
      model: model({ id: "claude-sonnet-4-5", maxOutput: 4000 }),
    });
    assert.deepEqual([small.thinking.budget_tokens, small.max_tokens], [2000, 4000]);
    const unasked = await sent("anthropic", {});
    assert.deepEqual([unasked.thinking.budget_tokens, unasked.max_tokens], [12_000, 64_000]);
    const off = await sent("anthropic", { needsReasoning: false });
    assert.deepEqual([off.thinking, off.max_tokens], [undefined, 64_000]);
    const kimiBody = await sent("anthropic", { model: model({ id: "kimi-k2" }), tools: [readTool] });
    assert.deepEqual([kimiBody.max_tokens, kimiBody.tools[0].eager_input_streaming], [8192, undefined]);
  });

  it("anthropic: lowers max_tokens so that the prompt fits into the context window", async () => {
    const narrow = { ...WIRE_MODELS.anthropic, contextWindow: 70_000 };
    const body = await sent("anthropic", { model: narrow, messages: [user("x".repeat(60_000))] });
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
    const provider = make("anthropic");
    const request = ask({ model: WIRE_MODELS.anthropic, tools: [readTool], effort: "low" });
    const { message, calls } = await take(provider, request);
    const parts = [
      { type: "text" as const, text: "both" },
      { type: "image" as const, mediaType: "image/png", data: PNG },
      { type: "file" as const, mediaType: "application/octet-stream", filename: "a.pdf", data: PDF },
    ];
    await take(provider, { ...request, messages: [...request.messages, message, result(calls[0]!.id, "read", parts)] });
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
    const three = await sent("google", { effort: "high" });
    assert.deepEqual(three.generationConfig.thinkingConfig, { includeThoughts: true, thinkingLevel: "high" });
    const two5 = await sent("google", { effort: "low", model: model({ id: "gemini-2.5-flash" }) });
    assert.deepEqual(two5.generationConfig.thinkingConfig, { includeThoughts: true, thinkingBudget: 4096 });
    const two = await sent("google", { effort: "low", model: model({ id: "gemini-2.0-flash" }) });
    assert.equal(two.generationConfig.thinkingConfig, undefined);
  });

  it("google: sends result images inside the function response to Gemini 3, and after it to 2.5", async () => {
    const messages = [
      user("Look"),
      assistant(toolCall("c1", "read", { path: "a.png" })),
      result("c1", "read", [{ type: "image", mediaType: "image/png", data: PNG }]),
    ];
    const inside = await sent("google", { tools: [readTool], messages });
    assert.equal(inside.contents.at(-1).parts[0].functionResponse.parts[0].inlineData.data, PNG);
    const behind = await sent("google", { tools: [readTool], messages, model: model({ id: "gemini-2.5-pro" }) });
    assert.equal(behind.contents.at(-1).parts[1].inlineData.data, PNG);
  });

  it("google: a malformed or unexpected call is malformed_answer, with the model's text in the hint", async () => {
    const cut = (candidate: object): string => `data: ${JSON.stringify({ candidates: [candidate] })}\n\n`;
    for (const [finishReason, why] of [
      ["MALFORMED_FUNCTION_CALL", "the model made a malformed tool call"],
      ["UNEXPECTED_TOOL_CALL", "the model called a tool where none was expected"],
      ["MALFORMED_RESPONSE", "the model made a malformed answer"],
    ] as const) {
      const finishMessage = "Malformed function call: print(default_api.read(path";
      server.enqueue({
        say: [{ raw: cut({ content: { parts: [], role: "model" }, finishReason, finishMessage }) }],
        finish: "none",
      });
      await assert.rejects(
        take(make("google"), ask({ model: WIRE_MODELS.google })),
        (error) =>
          hasCode(error, "provider") &&
          error.kind === "malformed_answer" &&
          error.message === `lab: malformed_answer: ${why}: ${finishMessage}` &&
          error.hint?.includes("default_api.read") === true,
      );
    }
  });

  it("the preset openai uses chat completions at another base URL, with max_completion_tokens", async () => {
    const chat = await sent("openai", { model: model({ id: "gpt-5", maxOutput: 500 }) }, { preset: "openai" });
    assert.deepEqual(
      [chat.max_completion_tokens, chat.max_tokens, chat.prompt_cache_key],
      [500, undefined, "session-1"],
    );
    const provider = new AiSdkProvider({ preset: "openai", baseUrl: server.baseUrl, apiKey: "k" });
    open.push(provider);
    await take(provider, ask());
    assert.equal(server.requests.at(-1)!.wire, "openai");
  });

  it("openai-responses: omits a parameter from all later requests after the model rejects it", async () => {
    server.enqueue(
      fail(400, "Unsupported parameter: 'max_output_tokens' is not supported with this model."),
      fail(400, "Unsupported parameter: 'prompt_cache_key' is not supported with this model."),
    );
    const before = server.requests.length;
    const provider = make("openai-responses");
    const request = ask({ model: { ...WIRE_MODELS["openai-responses"], maxOutput: 900 } });
    await take(provider, request);
    await take(provider, request);
    const sentFields = server.requests.slice(before).map(({ body }) => [body.max_output_tokens, body.prompt_cache_key]);
    assert.deepEqual(sentFields, [
      [900, "session-1"],
      [undefined, "session-1"],
      [undefined, undefined],
      [undefined, undefined],
    ]);
  });

  it("no wire sends an effort if the model has reasoning: false", async () => {
    for (const wire of ["openai", "openai-responses", "anthropic", "google"] as const) {
      const body = await sent(wire, { model: { ...WIRE_MODELS[wire], reasoning: false }, effort: "high" });
      assert.doesNotMatch(JSON.stringify(body), /effort|thinking|reasoning"/, wire);
    }
  });

  it("azure: uses openai-responses and sends the key in the header api-key", async () => {
    const provider = new AiSdkProvider({ preset: "azure", baseUrl: server.baseUrl, apiKey: "azure-key" });
    open.push(provider);
    await take(provider, ask({ model: model({ id: "my-deployment" }) }));
    const { wire, headers } = server.requests.at(-1)!;
    assert.deepEqual([wire, headers["api-key"]], ["openai-responses", "azure-key"]);
  });

  it("mistral: sends tool call ids of nine letters and digits, and no stream_options", async () => {
    const messages = [
      user("One"),
      assistant(toolCall("toolu_01ABC", "read", { path: "a" })),
      result("toolu_01ABC", "read", "A"),
    ];
    const body = await sent("openai", { messages, tools: [readTool] }, { preset: "mistral" });
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
      take(make("google"), ask({ model: WIRE_MODELS.google })),
      (error) => hasCode(error, "provider") && error.kind === "rate_limit" && error.retryAfterMs === 34_500,
    );
  });

  it("signed parts are sent back if the provider name has dots and capitals", async () => {
    for (const wire of ["openai-responses", "anthropic", "google"] as const) {
      const provider = make(wire, { name: "My.Lab_1-2" });
      server.enqueue({ say: [{ reasoning: "Hm." }, { call: { name: "read", arguments: { path: "a" } } }] });
      const request = ask({ model: WIRE_MODELS[wire], tools: [readTool], effort: "low" });
      const { message, calls } = await take(provider, request);
      await take(provider, { ...request, messages: [...request.messages, message, result(calls[0]!.id, "read", "A")] });
      // Signed parts were sent back.
      assert.match(
        JSON.stringify(server.requests.at(-1)!.body),
        /encrypted_content":"c2ln|signature":"c2ln|thoughtSignature":"c2ln/,
      );
    }
  });

  it("API keys of environment variables are not sent, on any wire", async () => {
    const names = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"];
    const before = names.map((name) => process.env[name]);
    for (const name of names) process.env[name] = "stolen-key-0123456789";
    try {
      for (const wire of ["openai", "openai-responses", "anthropic", "google"] as const) {
        const provider = new AiSdkProvider({ name: "lab", driver: wire, baseUrl: baseUrlOf(wire, server) });
        open.push(provider);
        await take(provider, ask({ model: WIRE_MODELS[wire] as Model }));
        assert.ok(!JSON.stringify(server.requests.at(-1)!.headers).includes("stolen"), wire);
      }
    } finally {
      for (const [index, name] of names.entries()) {
        if (before[index] === undefined) delete process.env[name];
        else process.env[name] = before[index];
      }
    }
  });
});
