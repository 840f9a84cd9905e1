import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, afterEach, before, describe, it } from "node:test";
import { hasCode } from "gantry";
import type { Model } from "gantry/plugin";
import { AiSdkProvider, type AiSdkProviderOptions } from "gantry/adapters/language-models";
import { startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";

const neverAbortedSignal = new AbortController().signal;

describe("the model catalogue", () => {
  let server: FakeModelServer;
  const openProviders: AiSdkProvider[] = [];
  const createProvider = (options: Partial<AiSdkProviderOptions> = {}): AiSdkProvider => {
    const provider = new AiSdkProvider({ name: "lab", baseUrl: server.baseUrl, apiKey: "key-0123456789", ...options });
    openProviders.push(provider);
    return provider;
  };
  const listModels = (options?: Partial<AiSdkProviderOptions>): Promise<Model[]> =>
    createProvider(options).models(neverAbortedSignal);
  const getIds = (models: Model[]): string[] => models.map(({ id }) => id);

  before(async () => {
    server = await startFakeModelServer();
  });
  afterEach(async () => {
    server.models = ["m1"];
    server.listing = undefined;
    await Promise.all(openProviders.splice(0).map((provider) => provider.close()));
  });
  after(() => server.close());

  it("requests the list at each wire's path with its key header, and maps Gemini's entries", async () => {
    await listModels({ headers: { "x-a": "b" } });
    await listModels({ driver: "anthropic" });
    server.models = [
      {
        name: "models/gemini-9-pro",
        displayName: "Gemini 9 Pro",
        inputTokenLimit: 1_000_000,
        outputTokenLimit: 64_000,
        thinking: true,
        supportedGenerationMethods: ["generateContent"],
      },
      { name: "models/text-embedding-9", supportedGenerationMethods: ["embedContent"] },
    ];
    const geminiModels = await listModels({ driver: "google", baseUrl: `${server.url}/v1beta` });
    const [openaiRequest, anthropicRequest, geminiRequest] = server.listingRequests.slice(-3);
    assert.deepEqual(
      [openaiRequest!.url, openaiRequest!.headers.authorization, openaiRequest!.headers["x-a"]],
      ["/v1/models", "Bearer key-0123456789", "b"],
    );
    assert.deepEqual(
      [anthropicRequest!.url, anthropicRequest!.headers["x-api-key"], anthropicRequest!.headers["anthropic-version"]],
      ["/v1/models?limit=1000", "key-0123456789", "2023-06-01"],
    );
    assert.deepEqual(
      [geminiRequest!.url, geminiRequest!.headers["x-goog-api-key"]],
      ["/v1beta/models?pageSize=1000", "key-0123456789"],
    );
    assert.deepEqual(geminiModels, [
      {
        id: "gemini-9-pro",
        name: "Gemini 9 Pro",
        ownedBy: "lab",
        contextWindow: 1_000_000,
        maxOutput: 64_000,
        reasoning: true,
        efforts: ["low", "medium", "high"],
        input: ["text", "image", "pdf"],
      },
    ]);
  });

  it("reads names, context windows, limits, inputs and prices from the fields of different listings", async () => {
    server.models = [
      {
        id: "acme/one",
        name: "Acme: One",
        context_length: 200_000,
        architecture: { input_modalities: ["text", "image", "file"], output_modalities: ["text"] },
        top_provider: { max_completion_tokens: 64_000 },
        supported_parameters: ["tools", "reasoning"],
        pricing: {
          prompt: "0.000003",
          completion: "0.000015",
          input_cache_read: "0.0000003",
          input_cache_write: "0.00000375",
        },
        owned_by: undefined,
      },
      { id: "two", max_model_len: 32_768 },
      { id: "three", context_window: 131_072, max_completion_tokens: 131_072, capabilities: { vision: true } },
      { id: "router", pricing: { prompt: "-1", completion: "-1" } },
    ];
    const [firstModel, secondModel, thirdModel, router] = await listModels();
    assert.deepEqual(firstModel, {
      id: "acme/one",
      name: "Acme: One",
      ownedBy: "acme",
      contextWindow: 200_000,
      maxOutput: 64_000,
      reasoning: true,
      input: ["text", "image", "pdf"],
      prices: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 },
    });
    assert.deepEqual(secondModel, { id: "two", name: "two", ownedBy: "fake", contextWindow: 32_768 });
    assert.deepEqual(thirdModel, {
      id: "three",
      name: "three",
      ownedBy: "fake",
      contextWindow: 131_072,
      input: ["text", "image"],
    });
    assert.equal(router!.prices, undefined);
  });

  it("fallbackModels returns known models of a preset, and none at another base URL, for ollama and for nvidia", async () => {
    const readFallbackModels = async (options: AiSdkProviderOptions): Promise<Model[]> => {
      const provider = new AiSdkProvider({ apiKey: "k", ...options });
      try {
        return await provider.fallbackModels();
      } finally {
        await provider.close();
      }
    };
    for (const [preset, firstIdPattern] of [
      ["anthropic", /^claude-sonnet-\d/],
      ["openai", /^gpt-\d+\.\d+$/],
      ["google", /^gemini-\d.*pro/],
      ["moonshot", /^kimi-k3/],
      ["zhipu", /^glm-/],
    ] as const) {
      const models = await readFallbackModels({ preset });
      assert.match(models[0]?.id ?? "", firstIdPattern, preset);
      assert.ok(
        models.length > 1 && models.every(({ id }) => !/embed|whisper|image|tts|:/.test(id)),
        getIds(models).join(),
      );
      assert.ok(
        models.some(({ contextWindow = 0, reasoning }) => contextWindow > 100_000 && reasoning === true),
        preset,
      );
    }
    assert.deepEqual(await readFallbackModels({ preset: "openai", baseUrl: server.baseUrl }), []);
    assert.deepEqual(await readFallbackModels({ preset: "ollama" }), []);
    assert.deepEqual(await readFallbackModels({ preset: "nvidia" }), []);
  });

  it("derives reasoning and image input from the model family if the listing has neither", async () => {
    server.models =
      "gpt-5.1 o3-mini gpt-4o gpt-4 claude-sonnet-4-5 claude-opus-4-20250514 claude-3-5-haiku-20241022 claude-3-7-sonnet deepseek-chat deepseek-reasoner acme/qwen3-32b mistral-small llava:7b kimi-k2 kimi-k2-thinking kimi-k2.6 acme/kimi-k2p6 kimi-k3 glm-5.2 kimi-k2-0905-preview"
        .split(" ")
        .map((id) => ({ id }));
    const models = await listModels();
    const formatIds = (predicate: (model: Model) => boolean | undefined): string =>
      getIds(models.filter(predicate)).join(" ");
    assert.equal(
      formatIds(({ reasoning }) => reasoning),
      "gpt-5.1 o3-mini claude-sonnet-4-5 claude-opus-4-20250514 claude-3-7-sonnet deepseek-reasoner acme/qwen3-32b kimi-k2-thinking kimi-k2.6 acme/kimi-k2p6 kimi-k3 glm-5.2",
    );
    assert.equal(
      formatIds(({ input }) => input?.includes("image")),
      "gpt-5.1 gpt-4o claude-sonnet-4-5 claude-opus-4-20250514 claude-3-5-haiku-20241022 claude-3-7-sonnet llava:7b",
    );
  });

  it("omits models that cannot chat, and puts preferred models first", async () => {
    server.models = [
      { id: "gpt-4-0613", created: 1 },
      { id: "gpt-4o-audio-preview", created: 9 },
      { id: "text-embedding-3-small", created: 9 },
      { id: "whisper-1", created: 9 },
      { id: "dall-e-3", created: 9 },
      { id: "tts-1-hd", created: 9 },
      { id: "omni-moderation-latest", created: 9 },
      { id: "gpt-image-1", created: 9 },
      { id: "computer-use-preview", created: 9 },
      { id: "o3-deep-research", created: 9 },
      { id: "gpt-4o-search-preview", created: 9 },
      { id: "gemini-3.1-flash-live-preview", created: 9 },
      { id: "gpt-5", created: 5 },
      { id: "gpt-5.1", created: 6 },
      { id: "gpt-5-mini", created: 7 },
      { id: "o3", created: 4 },
      { id: "gone", active: false },
    ];
    const models = await listModels({ preset: "openai", name: "openai" });
    assert.deepEqual(getIds(models), ["gpt-5.1", "gpt-5", "gpt-5-mini", "o3", "gpt-4-0613"]);
    // This value comes from the public price list.
    assert.equal(models[1]!.contextWindow, 400_000);
  });

  it("puts configured models first; their values override the listing, which adds missing values", async () => {
    server.models = [{ id: "a" }, { id: "b", context_length: 1000, name: "Bee" }];
    assert.deepEqual(await listModels({ models: [{ id: "b", contextWindow: 500 }, { id: "own" }] }), [
      { id: "b", name: "Bee", ownedBy: "fake", contextWindow: 500 },
      { id: "own", name: "own", ownedBy: "lab" },
      { id: "a", name: "a", ownedBy: "fake" },
    ]);
  });

  it("accepts a list as a bare array or under `models`, without duplicates and entries without an id", async () => {
    server.listing = {
      status: 200,
      body: JSON.stringify([{ id: "x" }, { id: "x" }, { nothing: 1 }]),
      headers: { "content-type": "application/json" },
    };
    assert.deepEqual(getIds(await listModels()), ["x"]);
    server.listing = { status: 200, body: { models: [{ name: "y" }] } };
    assert.deepEqual(getIds(await listModels()), ["y"]);
  });

  it("reads model details from the native APIs of Ollama and LM Studio, and works without the native API of Ollama", async () => {
    const bodiesByRequest: Record<string, unknown> = {
      "/v1/models": {
        data: [
          { id: "nomic-embed", created: 3 },
          { id: "llava:7b", created: 2 },
          { id: "qwen3:8b", created: 1 },
        ],
      },
      "/api/ps": { models: [{ model: "llava:7b", context_length: 4096 }] },
      "/api/show nomic-embed": { capabilities: ["embedding"], model_info: {} },
      "/api/show llava:7b": { capabilities: ["completion", "vision"], model_info: { "llama.context_length": 32_768 } },
      "/api/show qwen3:8b": {
        capabilities: ["completion", "tools", "thinking"],
        model_info: { "qwen3.context_length": 40_960 },
        parameters: "stop x\nnum_ctx    16384",
      },
      "/api/v0/models": {
        data: [
          { id: "llava:7b", type: "vlm", state: "loaded", max_context_length: 32_768, loaded_context_length: 8192 },
          { id: "qwen3:8b", type: "llm", state: "not-loaded", max_context_length: 40_960 },
          { id: "nomic-embed", type: "embeddings", state: "loaded" },
        ],
      },
    };
    const localServer = createServer((request, response) => {
      let body = "";
      request.on("data", (part: Buffer) => (body += part.toString()));
      request.on("end", () => {
        const key = body === "" ? request.url! : `${request.url!} ${(JSON.parse(body) as { model: string }).model}`;
        response
          .writeHead(bodiesByRequest[key] === undefined ? 404 : 200, { "content-type": "application/json" })
          .end(JSON.stringify(bodiesByRequest[key] ?? {}));
      });
    });
    localServer.listen(0, "127.0.0.1");
    await once(localServer, "listening");
    const baseUrl = `http://127.0.0.1:${(localServer.address() as AddressInfo).port}/v1`;
    try {
      assert.deepEqual(await listModels({ preset: "ollama", name: "ollama", baseUrl }), [
        {
          id: "qwen3:8b",
          name: "qwen3:8b",
          ownedBy: "ollama",
          contextWindow: 16_384,
          reasoning: true,
          input: ["text"],
        },
        {
          id: "llava:7b",
          name: "llava:7b",
          ownedBy: "ollama",
          contextWindow: 4096,
          reasoning: false,
          input: ["text", "image"],
        },
      ]);
      const lmStudioModels = await listModels({ preset: "lmstudio", name: "lmstudio", baseUrl });
      assert.deepEqual(
        lmStudioModels.map(({ id, contextWindow, input }) => [id, contextWindow, input]),
        [
          ["llava:7b", 8192, ["text", "image"]],
          ["qwen3:8b", 40_960, undefined],
        ],
      );
      for (const key of Object.keys(bodiesByRequest)) if (key !== "/v1/models") delete bodiesByRequest[key];
      assert.deepEqual(getIds(await listModels({ preset: "ollama", name: "ollama", baseUrl })), [
        "qwen3:8b",
        "llava:7b",
      ]);
    } finally {
      localServer.closeAllConnections();
      localServer.close();
    }
  });

  it("returns known or configured models without a request if the provider has no list, and after a 404", async () => {
    const initialListingCount = server.listingRequests.length;
    assert.deepEqual(getIds(await listModels({ preset: "perplexity" })), ["sonar-pro", "sonar", "sonar-reasoning-pro"]);
    assert.deepEqual(getIds(await listModels({ preset: "azure", models: [{ id: "mine" }] })), ["mine"]);
    assert.equal(server.listingRequests.length, initialListingCount);
    server.listing = { status: 404, body: "404 page not found" };
    assert.deepEqual(getIds(await listModels({ preset: "minimax" })), ["MiniMax-M2"]);
  });

  it("rejects with the provider's error without the key, and with the reason of an abort", async () => {
    const cases = [
      [
        { status: 401, error: "bad key key-0123456789" },
        /^lab: 401: bad key \[redacted\]; check api_key of the provider in the config$/,
      ],
      [
        { status: 200, body: "<html><title>Portal</title></html>" },
        /^lab: protocol: an HTML page instead of an API answer \("Portal"\)/,
      ],
      [{ status: 200, body: { hello: 1 } }, /^lab: protocol: the list of models has an unknown shape$/],
      [{ say: [{ reset: true }] }, /^lab: network: /],
    ] as const;
    for (const [listing, message] of cases) {
      server.listing = listing as never;
      await assert.rejects(
        listModels(),
        (error) => hasCode(error, "provider") && message.test(error.message),
        String(message),
      );
    }
    const abortReason = new Error("mine");
    await assert.rejects(createProvider().models(AbortSignal.abort(abortReason)), (error) => error === abortReason);
  });
});
