import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode, silentLogger } from "gantry";
import type { OptionsContext } from "gantry/plugin";
import type { AiSdkProvider } from "gantry/adapters/language-models";
import adapter, { findPreset, PRESETS } from "gantry/adapters/language-models";

const context: OptionsContext = { location: "config.json: providers[0]", configDir: "/", home: "/", projectDir: "/" };
const createContext = { ...context, logger: silentLogger, allowPaths: [], deniedPaths: [], http: undefined };
const parseOptions = (rawOptions: Record<string, unknown>) => adapter.parse(rawOptions, context);
const createProvider = async (rawOptions: Record<string, unknown>) =>
  (await adapter.create!(parseOptions(rawOptions), createContext)) as AiSdkProvider;
const assertParseError = (rawOptions: Record<string, unknown>, message: RegExp): void =>
  assert.throws(
    () => parseOptions(rawOptions),
    (error) => hasCode(error, "config") && message.test(error.message) && !error.message.includes("\n"),
    JSON.stringify(rawOptions),
  );

describe("options of a language model provider", () => {
  it("set name, timeouts in ms, retries and models of the provider", async () => {
    const provider = await createProvider({
      name: "lab",
      driver: "openai",
      base_url: "http://127.0.0.1:9000/v1/",
      api_key: "x",
      headers: { "x-a": "b" },
      timeout: 60,
      max_retries: 2,
      max_wait: 600,
      models: [
        "plain",
        {
          id: "m1",
          name: "M 1",
          context_window: 8000,
          max_output: 4000,
          reasoning: false,
          input: ["text", "image"],
          cost: { input: 2.5, output: 10, cache_read: 0.25, cache_write: 3 },
        },
      ],
    });
    assert.deepEqual([provider.name, provider.idleTimeoutMs, provider.maxRetries], ["lab", 60_000, 2]);
    assert.equal(provider.maxWaitMs, 600_000);
    assert.deepEqual(provider.configuredModels, [
      { id: "plain", name: "plain", ownedBy: "lab" },
      {
        id: "m1",
        name: "M 1",
        ownedBy: "lab",
        contextWindow: 8000,
        maxOutput: 4000,
        reasoning: false,
        input: ["text", "image"],
        prices: { input: 2.5, output: 10, cacheRead: 0.25, cacheWrite: 3 },
      },
    ]);
  });

  it("need only a preset and a key; local servers need no key and have a timeout of 10 minutes or more", async () => {
    const remoteProvider = await createProvider({ provider: "openai", api_key: "sk-1" });
    assert.deepEqual(
      [remoteProvider.name, remoteProvider.idleTimeoutMs, remoteProvider.maxRetries],
      ["openai", 120_000, 5],
    );
    for (const rawOptions of [{ provider: "ollama" }, { name: "own", base_url: "http://localhost:9000/v1" }]) {
      assert.ok((await createProvider(rawOptions)).idleTimeoutMs >= 600_000);
    }
    assert.equal((await createProvider({ provider: "gemini", api_key: "k" })).name, "google");
    assert.equal((await createProvider({ provider: "openai", name: "work", api_key: "k" })).name, "work");
  });

  it("reject a wrong value with its key and the expected value", () => {
    assertParseError({}, /^config\.json: providers\[0\]\.provider: expected a provider's name/);
    assertParseError(
      { provider: "openai" },
      /^config\.json: providers\[0\]\.api_key: expected the key of OpenAI, "\$\{OPENAI_API_KEY\}"/,
    );
    assertParseError({ provider: "nobody", api_key: "x" }, /\.provider: expected one of anthropic, openai, /);
    assertParseError(
      { provider: "azure", api_key: "x" },
      /\.base_url: expected the provider's URL, https:\/\/RESOURCE\./,
    );
    assertParseError({ name: "lab" }, /\.base_url: expected/);
    assertParseError({ name: "a/b", base_url: "http://x/v1" }, /\.name: expected a name without "\/" and white space/);
    assertParseError({ name: "lab", base_url: "x" }, /\.base_url: expected a URL/);
    assertParseError(
      { name: "lab", base_url: "http://user:pass@x/v1" },
      /\.base_url: expected a URL .* without credentials/,
    );
    const validOptions = { name: "lab", base_url: "http://127.0.0.1:1/v1" };
    assertParseError(
      { ...validOptions, apiKey: "x" },
      /\.apiKey: unknown key; expected one of provider, driver, name, /,
    );
    assertParseError(
      { ...validOptions, driver: "telnet" },
      /\.driver: expected one of "openai", "openai-responses", "anthropic", "google", got "telnet"$/,
    );
    assertParseError({ ...validOptions, api_key: 5 }, /\.api_key: expected a key without white space, got number$/);
    assertParseError(
      { ...validOptions, api_key: "a\nb" },
      /\.api_key: expected a key without white space, got string$/,
    );
    assertParseError(
      { ...validOptions, headers: [] },
      /\.headers: expected an object of header names and values, got Array$/,
    );
    assertParseError(
      { ...validOptions, headers: { "a b": "c" } },
      /\.headers\."a b": expected a header name, got "a b"$/,
    );
    assertParseError(
      { ...validOptions, headers: { a: "b\r\nc: d" } },
      /\.headers\.a: expected one line of Latin-1 text, got string$/,
    );
    assertParseError({ ...validOptions, timeout: 0 }, /\.timeout: expected seconds/);
    assertParseError({ ...validOptions, timeout: "60" }, /\.timeout: expected seconds/);
    assertParseError(
      { ...validOptions, max_retries: 1.5 },
      /\.max_retries: expected a whole number from 0 to 20, got 1.5$/,
    );
    assertParseError({ ...validOptions, max_wait: -1 }, /\.max_wait: expected seconds/);
    assertParseError({ ...validOptions, models: {} }, /\.models: expected a list of objects, got Object$/);
    assertParseError(
      { ...validOptions, models: [{}] },
      /\.models\[0\]\.id: expected a text that is not empty, got nothing$/,
    );
    assertParseError(
      { ...validOptions, models: ["a", { id: "a" }] },
      /\.models\[1\]\.id: expected a different id; "a" is listed twice/,
    );
    assertParseError(
      { ...validOptions, models: [{ id: "a", window: 1 }] },
      /\.models\[0\]\.window: unknown key; expected one of id, /,
    );
    assertParseError(
      { ...validOptions, models: [{ id: "a", context_window: -1 }] },
      /\.models\[0\]\.context_window: expected a whole number, at least 1, got -1$/,
    );
    assertParseError(
      { ...validOptions, models: [{ id: "a", input: ["audio"] }] },
      /\.models\[0\]\.input\[0\]: expected one of "text", "image", "pdf", got "audio"$/,
    );
    assertParseError(
      { ...validOptions, models: [{ id: "a", reasoning: "yes" }] },
      /\.models\[0\]\.reasoning: expected true or false, got "yes"$/,
    );
    assertParseError(
      { ...validOptions, models: [{ id: "a", cost: { input: 1 } }] },
      /\.models\[0\]\.cost\.output: expected USD per million tokens, at least 0, got nothing$/,
    );
    assertParseError(
      { ...validOptions, models: [{ id: "a", cost: { input: -1, output: 1 } }] },
      /\.models\[0\]\.cost\.input: expected USD/,
    );
  });
});

describe("presets", () => {
  it("have a unique id, a valid URL and key variables unless local, and each preset creates a provider", async () => {
    assert.ok(PRESETS.length >= 35);
    assert.equal(new Set(PRESETS.map(({ id }) => id)).size, PRESETS.length);
    for (const { id, name, baseUrl, baseUrlExample, keyVariables, sharedKeyVariables = [], isLocal } of PRESETS) {
      assert.match(id, /^[a-z0-9-]+$/);
      assert.ok(name !== "");
      const url = new URL(baseUrl || baseUrlExample!);
      assert.equal(url.protocol, isLocal ? "http:" : "https:", id);
      assert.ok(!url.href.endsWith("//") && !(baseUrl || baseUrlExample!).endsWith("/"), id);
      const variables = [...keyVariables, ...sharedKeyVariables];
      assert.equal(variables.length > 0, !isLocal, id);
      for (const variable of variables) assert.match(variable, /^[A-Z][A-Z0-9_]+$/);
      const rawOptions = {
        provider: id,
        ...(isLocal ? {} : { api_key: "k" }),
        ...(baseUrl === "" ? { base_url: baseUrlExample } : {}),
      };
      assert.equal((await createProvider(rawOptions)).name, id);
    }
    const presetIds =
      "openai anthropic google openrouter groq mistral deepseek xai together fireworks cerebras perplexity deepinfra nvidia moonshot zhipu ollama lmstudio vllm llamacpp azure";
    for (const id of presetIds.split(" ")) assert.ok(findPreset(id), id);
  });
});
