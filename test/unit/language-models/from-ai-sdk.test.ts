import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { createQwen } from "qwen-ai-provider-v5";
import { createMinimax } from "vercel-minimax-ai-provider";
import { createZhipu } from "zhipu-ai-provider";
import { hasCode, silentLogger } from "gantry";
import type { ModelProvider, OptionsContext } from "gantry/plugin";
import { describeAiSdkModule, fromAiSdk, type AiSdkModel } from "gantry/adapters/language-models";
import { loadAdapter } from "../../../src/serve/plugins.js";
import { errorStep, startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import {
  createRequest,
  createModel,
  PNG,
  readTool,
  toolResultMessage,
  readAnswer,
  userMessage,
} from "../../helpers/model-requests.js";

const context: OptionsContext = { location: "config.json: providers[0]", configDir: "/", home: "/", projectDir: "/" };

/** Runs a turn in which the model calls the tool `read` and then answers. */
async function runToolTurn(provider: ModelProvider, server: FakeModelServer, id: string): Promise<void> {
  // GLM-4.6 takes no images.
  const hasImageInput = !id.startsWith("glm");
  server.enqueue(
    {
      say: [{ text: "Reading." }, { call: { name: "read", arguments: { path: "a" } } }],
      usage: { input: 100, output: 20, cacheRead: 10 },
    },
    { say: [{ text: ["It ", "works."] }] },
  );
  const request = createRequest({
    model: createModel({ id, input: hasImageInput ? ["text", "image"] : ["text"] }),
    tools: [readTool],
  });
  const { message, calls, finish } = await readAnswer(provider, request);
  assert.deepEqual([calls[0]!.name, JSON.parse(calls[0]!.arguments)], ["read", { path: "a" }]);
  assert.equal(finish.reason, "tool_calls");
  assert.deepEqual([finish.usage.inputTokens, finish.usage.outputTokens], [100, 20]);
  const toolResult = toolResultMessage(calls[0]!.id, "read", [
    { type: "text", text: "A" },
    { type: "image", mediaType: "image/png", data: PNG },
  ]);
  const { text } = await readAnswer(provider, { ...request, messages: [...request.messages, message, toolResult] });
  assert.equal(text, "It works.");
  assert.equal(JSON.stringify(server.requests.at(-1)!.body).includes(PNG), hasImageInput);
}

describe("AI SDK models as providers", () => {
  let server: FakeModelServer;
  const openProviders: ModelProvider[] = [];
  const closeAfterTest = (provider: ModelProvider): ModelProvider => {
    openProviders.push(provider);
    return provider;
  };
  beforeEach(async () => {
    // Request fields and stream formats that the packages under test use.
    server = await startFakeModelServer({
      dialect: {
        body: ["thinking", "do_sample", "request_id", "user_id", "enable_thinking", "extra_body"],
        wholeCalls: true,
        usageAlways: true,
      },
    });
  });
  afterEach(async () => {
    await Promise.all(openProviders.splice(0).map((provider) => provider.close()));
    await server.close();
    assert.deepEqual(server.violations, []);
  });

  describe("fromAiSdk", () => {
    it("runs a tool turn with zhipu-ai-provider (specification v2)", async () => {
      const zhipu = createZhipu({ baseURL: server.baseUrl, apiKey: "k" });
      const sdkModel = zhipu("glm-4.6") as unknown as AiSdkModel;
      assert.equal(sdkModel.specificationVersion, "v2");
      await runToolTurn(closeAfterTest(fromAiSdk(sdkModel, { name: "zhipu" })), server, "glm-4.6");
    });
    it("runs a tool turn with qwen-ai-provider-v5 (specification v3)", async () => {
      const qwen = createQwen({ baseURL: server.baseUrl, apiKey: "k" });
      const sdkModel = qwen("qwen3-coder") as unknown as AiSdkModel;
      assert.equal(sdkModel.specificationVersion, "v3");
      await runToolTurn(closeAfterTest(fromAiSdk([sdkModel], { name: "qwen" })), server, "qwen3-coder");
    });
    it("runs a tool turn with the factory of vercel-minimax-ai-provider, and lists the configured model", async () => {
      const minimax = createMinimax({ baseURL: server.baseUrl, apiKey: "k" });
      const provider = closeAfterTest(
        fromAiSdk(minimax, { name: "minimax", models: [{ id: "MiniMax-M2", maxOutput: 1000 }] }),
      );
      assert.deepEqual(await provider.models(new AbortController().signal), [
        { id: "MiniMax-M2", name: "MiniMax-M2", ownedBy: "minimax", maxOutput: 1000, reasoning: true },
      ]);
      await runToolTurn(provider, server, "MiniMax-M2");
    });
  });

  describe("an AI SDK package in the config", () => {
    for (const [specifier, id] of [
      ["zhipu-ai-provider", "glm-4.6"],
      ["qwen-ai-provider-v5", "qwen3-coder"],
      ["vercel-minimax-ai-provider", "MiniMax-M2"],
    ] as const) {
      it(`runs a tool turn with ${specifier}, and reports a 401 without the key`, async () => {
        const descriptor = await loadAdapter(
          "model-provider",
          specifier,
          process.cwd(),
          "config.json: providers[0].driver",
        );
        const rawOptions = {
          driver: specifier,
          name: "mine",
          base_url: server.baseUrl,
          api_key: "secret-key-123456",
          models: [{ id, input: ["text", "image"], max_output: 2000 }],
        };
        const createContext = { ...context, logger: silentLogger, allowPaths: [], deniedPaths: [], http: undefined };
        const provider = closeAfterTest(await descriptor.create!(descriptor.parse(rawOptions, context), createContext));
        assert.deepEqual(
          [provider.name, provider.configuredModels.map((configuredModel) => configuredModel.id)],
          ["mine", [id]],
        );
        await runToolTurn(provider, server, id);
        // The error of a rejected key does not contain the key.
        server.enqueue(errorStep(401, "wrong key secret-key-123456"));
        await assert.rejects(
          readAnswer(provider, createRequest({ model: createModel({ id }), tools: [readTool] })),
          (error) =>
            hasCode(error, "provider") &&
            error.kind === "authentication" &&
            error.message === "mine: 401: wrong key [redacted]",
        );
      });
    }

    it("describeAiSdkModule accepts only a default export that is a provider or a provider factory", () => {
      const sdkProvider = { languageModel: () => createFakeModel("v3", []) };
      assert.ok(describeAiSdkModule({ default: () => sdkProvider }, "./mine.js"));
      assert.ok(describeAiSdkModule({ default: sdkProvider }, "./mine.js"));
      assert.equal(describeAiSdkModule({ default: class {} }, "./mine.js"), undefined);
      assert.equal(describeAiSdkModule({ default: { gantry: 1 } }, "./mine.js"), undefined);
      assert.equal(describeAiSdkModule(null, "./mine.js"), undefined);
    });

    it("rejects an invalid option and names its key", () => {
      const descriptor = describeAiSdkModule({ createOne: () => ({}), createTwo: () => ({}) }, "x")!;
      const assertParseError = (rawOptions: Record<string, unknown>, message: RegExp): void =>
        assert.throws(() => descriptor.parse(rawOptions, context), message);
      assertParseError({ models: ["m"] }, /providers\[0\]\.name: expected a name for the provider, got nothing$/);
      assertParseError({ name: "x" }, /providers\[0\]\.models: expected the ids of the models/);
      assertParseError(
        { name: "x", models: ["m"], what: 1 },
        /providers\[0\]\.what: unknown key; expected one of name, base_url/,
      );
      assertParseError(
        { name: "x", models: ["m"], export: "three" },
        /providers\[0\]\.export: expected one of "createOne", "createTwo", got "three"$/,
      );
      assertParseError(
        { name: "x", models: ["m"], options: [] },
        /providers\[0\]\.options: expected an object, got Array$/,
      );
    });
  });

  describe("AI SDK specifications v2, v3 and v4", () => {
    it("v2: reads flat usage and a plain finish reason, and sends the effort as a provider option", async () => {
      const requests: unknown[] = [];
      const v2Model = createFakeModel(
        "v2",
        [
          { type: "stream-start", warnings: [] },
          { type: "text-start", id: "1" },
          { type: "text-delta", id: "1", delta: "hi" },
          { type: "text-end", id: "1" },
          {
            type: "finish",
            finishReason: "stop",
            usage: { inputTokens: 7, outputTokens: 3, totalTokens: 10, reasoningTokens: 1, cachedInputTokens: 2 },
          },
        ],
        requests,
      );
      const { text, finish } = await readAnswer(
        fromAiSdk(v2Model),
        createRequest({ model: createModel({ id: "fake-1" }), effort: "low" }),
      );
      assert.deepEqual([text, finish.reason], ["hi", "stop"]);
      assert.deepEqual(
        { ...finish.usage, cost: 0 },
        { inputTokens: 7, outputTokens: 3, cacheReadTokens: 2, cacheWriteTokens: 0, reasoningTokens: 1, cost: 0 },
      );
      assert.deepEqual((requests[0] as { providerOptions: unknown }).providerOptions, {
        fake: { reasoningEffort: "low" },
      });
    });

    it("v4: reads nested usage, sends tagged files and the reasoning option, and ignores unknown parts", async () => {
      const requests: unknown[] = [];
      const v4Model = createFakeModel(
        "v4",
        [
          { type: "from-the-future", x: 1 },
          { type: "reasoning-start", id: "r" },
          { type: "reasoning-delta", id: "r", delta: "hm" },
          { type: "reasoning-end", id: "r", providerMetadata: { fake: { signature: "S" } } },
          { type: "text-delta", id: "never-started", delta: "hi" },
          { type: "tool-call", toolCallId: "", toolName: "read", input: { path: "a" } },
          { type: "tool-call", toolCallId: "x", toolName: "search", input: "{}", providerExecuted: true },
          {
            type: "finish",
            finishReason: { unified: "stop", raw: "end" },
            usage: { inputTokens: { total: 7, cacheRead: 2, cacheWrite: 1 }, outputTokens: { total: 3, reasoning: 1 } },
          },
        ],
        requests,
      );
      const request = createRequest({
        model: createModel({ id: "fake-1", input: ["text", "image"] }),
        effort: "low",
        messages: [userMessage("x", { type: "image", mediaType: "image/png", data: PNG })],
      });
      const { text, calls, finish, message } = await readAnswer(fromAiSdk(v4Model), request);
      assert.deepEqual(
        [text, calls.length, calls[0]!.arguments, finish.reason],
        ["hi", 1, '{"path":"a"}', "tool_calls"],
      );
      assert.match(calls[0]!.id, /^call_[0-9a-f]{24}$/);
      assert.deepEqual(message.parts[0], {
        type: "reasoning",
        text: "hm",
        opaque: { provider: "fake", model: "fake-1", data: { gantry: { echo: true }, fake: { signature: "S" } } },
      });
      const options = requests[0] as { reasoning: string; prompt: { content: { data?: unknown }[] }[] };
      assert.equal(options.reasoning, "low");
      assert.deepEqual(options.prompt[1]!.content[1]!.data, { type: "data", data: PNG });
    });

    it("v3: sends reasoning without a signature back to its model, and never to another", async () => {
      const requests: unknown[] = [];
      const parts = [
        { type: "reasoning-start", id: "r" },
        { type: "reasoning-delta", id: "r", delta: "hm" },
        { type: "tool-call", toolCallId: "c1", toolName: "read", input: "{}" },
        { type: "finish", finishReason: { unified: "tool-calls" }, usage: {} },
      ];
      const provider = fromAiSdk([
        createFakeModel("v3", parts, requests),
        { ...createFakeModel("v3", parts, requests), modelId: "fake-2" },
      ]);
      const { message } = await readAnswer(provider, createRequest({ model: createModel({ id: "fake-1" }) }));
      for (const id of ["fake-1", "fake-2"]) {
        const messages = [userMessage("x"), message, toolResultMessage("c1", "read", "A")];
        await readAnswer(provider, createRequest({ model: createModel({ id }), messages }));
      }
      const [, ownPrompt, otherPrompt] = requests as { prompt: { content: { type: string; text?: string }[] }[] }[];
      const readTypes = (request: typeof ownPrompt) => request!.prompt[2]!.content.map(({ type }) => type);
      assert.deepEqual([readTypes(ownPrompt), readTypes(otherPrompt)], [["reasoning", "tool-call"], ["tool-call"]]);
    });

    it("v3: reads a reported cost from each field where packages put it, despite configured prices", async () => {
      const usage = { inputTokens: { total: 1000 }, outputTokens: { total: 200 } };
      const finishes: [finish: object, cost: number][] = [
        [{ usage: { ...usage, raw: { cost: 0.00123456 } } }, 0.00123456],
        [{ usage, providerMetadata: { openrouter: { provider: "X", usage: { cost: 0.5 } } } }, 0.5],
        [{ usage, providerMetadata: { gateway: { cost: "0.0045405" } } }, 0.0045405],
        [{ usage, providerMetadata: { xai: { costInUsdTicks: 20_000_000 } } }, 0.002],
        [{ usage: { ...usage, raw: { cost: { total_cost: 0.25 } } } }, 0.25],
      ];
      for (const [finish, cost] of finishes) {
        const sdkModel: AiSdkModel = {
          specificationVersion: "v3",
          provider: "fake.chat",
          modelId: "gpt-5",
          doStream: () =>
            Promise.resolve({
              stream: new ReadableStream({
                start(controller) {
                  controller.enqueue({ type: "text-delta", id: "0", delta: "Hi" });
                  controller.enqueue({ type: "finish", finishReason: { unified: "stop", raw: "stop" }, ...finish });
                  controller.close();
                },
              }),
            }),
        };
        const provider = closeAfterTest(
          fromAiSdk(sdkModel, { models: [{ id: "gpt-5", prices: { input: 1, output: 1 } }] }),
        );
        const reportedUsage = (await readAnswer(provider, createRequest({ model: provider.configuredModels[0]! })))
          .finish.usage;
        assert.deepEqual([reportedUsage.cost, reportedUsage.costReported], [cost, true]);
      }
    });

    it("an abort ends a stream that ignores its signal, and a stream without a finish is a network error", async () => {
      const firstController = new AbortController();
      const modelIgnoringAbort: AiSdkModel = {
        specificationVersion: "v3",
        provider: "deaf",
        modelId: "fake-1",
        doStream: () => {
          setImmediate(() => firstController.abort("now"));
          return Promise.resolve({ stream: new ReadableStream() });
        },
      };
      const stalledAnswer = readAnswer(
        fromAiSdk(modelIgnoringAbort),
        createRequest({ model: createModel({ id: "fake-1" }) }),
        firstController.signal,
      );
      await assert.rejects(stalledAnswer, (error) => error === "now");
      const secondController = new AbortController();
      const pendingModel: AiSdkModel = {
        ...modelIgnoringAbort,
        doStream: () => {
          setImmediate(() => secondController.abort("too"));
          return new Promise(() => undefined);
        },
      };
      const secondAnswer = readAnswer(
        fromAiSdk(pendingModel),
        createRequest({ model: createModel({ id: "fake-1" }) }),
        secondController.signal,
      );
      await assert.rejects(secondAnswer, (error) => error === "too");
      await assert.rejects(
        readAnswer(fromAiSdk(createFakeModel("v3", [])), createRequest({ model: createModel({ id: "fake-1" }) })),
        /fake: network: the answer ended before it was finished/,
      );
    });

    it("fromAiSdk rejects values that are not AI SDK models or providers, and missing model ids", () => {
      assert.throws(() => fromAiSdk({} as AiSdkModel), /model: expected a language model or a provider of the AI SDK/);
      assert.throws(
        () => fromAiSdk({ languageModel: () => ({}) }, { name: "x" }),
        /models: expected the ids of the models/,
      );
      assert.throws(() => fromAiSdk([]), /model: expected/);
    });
  });
});

function createFakeModel(specificationVersion: string, parts: unknown[], requests: unknown[] = []): AiSdkModel {
  return {
    specificationVersion,
    provider: "fake.chat",
    modelId: "fake-1",
    doStream(options) {
      requests.push(options);
      return Promise.resolve({ stream: ReadableStream.from(parts) as ReadableStream<unknown> });
    },
  };
}
