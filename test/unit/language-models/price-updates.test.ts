import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { waitForUpdate } from "@pydantic/genai-prices";
import { AiSdkProvider } from "gantry/adapters/language-models";
import { CachedPrices } from "../../../adapters/language-models/price-updates.js";
import { Network } from "../../../adapters/language-models/network.js";
import { startFakeModelServer } from "../../helpers/fake-model-server.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { createRequest, createModel, readAnswer } from "../../helpers/model-requests.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

type Json = Record<string, unknown>;

/** Returns the package's price list plus one model with this price in USD per million tokens. */
async function createPriceList(price: number, id = "brand-new-1"): Promise<Json[]> {
  const packagedList = (await waitForUpdate()) as unknown as Json[];
  const newModel = { id, match: { equals: id }, prices: { input_mtok: price, output_mtok: price } };
  return packagedList.map((shippedProvider) =>
    shippedProvider.id === "groq"
      ? {
          ...shippedProvider,
          models: [...(shippedProvider.models as Json[]).filter((listedModel) => listedModel.id !== id), newModel],
        }
      : { ...shippedProvider },
  );
}

/** Starts a server that returns `answer` to every request. */
async function startPriceListServer(t: Hooks, answer: { status?: number; body: string }) {
  const requestedPaths: string[] = [];
  const server = createServer((request, response) => {
    requestedPaths.push(request.url ?? "");
    response.writeHead(answer.status ?? 200, { "content-type": "application/json" }).end(answer.body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => void server.close());
  return {
    requestedPaths,
    answer,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/prices.json`,
  };
}

/**
 * Returns the cost in USD of one answer, after `isSettled` returns true. The default model has no packaged price. With
 * `prices`, the provider downloads and stores a price list after the answer.
 */
async function readCost(
  prices: { file: string; url: string } | undefined,
  isSettled: () => boolean,
  id = "brand-new-1",
) {
  const models = await startFakeModelServer({
    fallback: { say: [{ text: "x" }], usage: { input: 1_000_000, output: 0 } },
  });
  const provider = new AiSdkProvider({
    preset: "groq",
    baseUrl: models.baseUrl,
    apiKey: "k",
    ...(prices && { prices }),
  });
  try {
    const { finish } = await readAnswer(provider, createRequest({ model: createModel({ id }) }));
    await waitUntil(isSettled);
    return finish.usage.cost;
  } finally {
    await provider.close();
    await models.close();
  }
}

describe("price updates", () => {
  it("are fetched after the first answer and once a day, stored in a file, and used from then on", async (t) => {
    const folder = await tempDir(t);
    const file = folder.at("home/prices.json");
    const server = await startPriceListServer(t, { body: JSON.stringify(await createPriceList(7)) });
    const prices = { file, url: server.url };
    assert.equal(await readCost(prices, () => existsSync(file)), undefined);
    assert.equal(await readCost(prices, () => true), 7);
    assert.deepEqual(server.requestedPaths, ["/prices.json"], "once a day");
    // Another process reads the stored prices without a request.
    const { url, ...storedFields } = JSON.parse(await readFile(file, "utf8")) as Json;
    assert.equal(url, server.url);
    await writeFile(file, JSON.stringify({ ...storedFields, url, providers: await createPriceList(9) }));
    const cachedPrices = new CachedPrices(prices, undefined);
    await cachedPrices.load(await import("@pydantic/genai-prices"));
    await cachedPrices.refresh(
      new Network({ provider: "x", redact: (text) => text }).read,
      new AbortController().signal,
    );
    assert.equal(await readCost(undefined, () => true), 9);
    assert.equal(server.requestedPaths.length, 1);
    // The stored prices are more than a day old.
    await writeFile(file, JSON.stringify({ ...storedFields, url, fetchedAt: Date.now() - 90_000_000 }));
    const expiredPrices = new CachedPrices(prices, undefined);
    const network = new Network({ provider: "x", redact: (text) => text });
    await expiredPrices.refresh(network.read, new AbortController().signal);
    await network.close();
    assert.equal(server.requestedPaths.length, 2);
    assert.equal(await readCost(undefined, () => true), 7);
  });

  it("are not fetched without a file, nor for presets without prices", async (t) => {
    const folder = await tempDir(t);
    const server = await startPriceListServer(t, { body: "[]" });
    const prices = { file: folder.at("prices.json"), url: server.url };
    await readCost(undefined, () => true);
    const models = await startFakeModelServer();
    for (const preset of ["ollama", "nvidia"]) {
      const provider = new AiSdkProvider({ preset, baseUrl: models.baseUrl, apiKey: "k", prices });
      await readAnswer(provider, createRequest());
      await provider.close();
    }
    await models.close();
    assert.deepEqual(server.requestedPaths, []);
  });

  it("are ignored if the list or the file is invalid; the known prices stay and one debug line is logged", async (t) => {
    const folder = await tempDir(t);
    const validList = await createPriceList(5, "brand-new-2");
    const createChangedList = (change: (providerEntry: Json) => Json) =>
      JSON.stringify(
        validList.map((providerEntry) => (providerEntry.id === "groq" ? change(providerEntry) : providerEntry)),
      );
    const createListWithModel = (model: Json) =>
      createChangedList((providerEntry) => ({ ...providerEntry, models: [model] }));
    const invalidResponses: Record<string, { status?: number; body: string }> = {
      "a page": { body: "<html>login</html>" },
      "an error": { status: 503, body: "[]" },
      "another list": { body: "[]" },
      "an object": { body: "{}" },
      "a provider without models": { body: createChangedList(({ models: _, ...otherFields }) => otherFields) },
      "a list without OpenAI": { body: JSON.stringify(validList.filter(({ id }) => id !== "openai")) },
      "a negative price": {
        body: createListWithModel({ id: "a", match: { equals: "a" }, prices: { input_mtok: -1 } }),
      },
      "a price as text": {
        body: createListWithModel({ id: "a", match: { equals: "a" }, prices: { input_mtok: "1" } }),
      },
      "a match with exponential time": {
        body: createListWithModel({ id: "a", match: { regex: "^(a+)+$" }, prices: {} }),
      },
      "a match with polynomial time": {
        body: createListWithModel({ id: "a", match: { regex: "a*b*c*d*$" }, prices: {} }),
      },
      "a match that is not an object": { body: createListWithModel({ id: "a", match: "a", prices: {} }) },
      "an unknown kind of time": {
        body: createListWithModel({
          id: "a",
          match: { equals: "a" },
          prices: [{ constraint: { type: "moon" }, prices: {} }],
        }),
      },
      "more than 8 MB": { body: `[${" ".repeat(9 * 1024 * 1024)}]` },
    };
    for (const [description, listResponse] of Object.entries(invalidResponses)) {
      const server = await startPriceListServer(t, listResponse);
      const file = folder.at(`${server.url.replace(/\D/g, "")}.json`);
      const debugLines: string[] = [];
      const failOnLog = (): never => assert.fail(description);
      const logger = {
        debug: (text: string) => void debugLines.push(text),
        info: failOnLog,
        warn: failOnLog,
        error: failOnLog,
      };
      const network = new Network({ provider: "x", redact: (text) => text });
      const priceCache = new CachedPrices({ file, url: server.url }, logger);
      for (let i = 0; i < 2; i++) await priceCache.refresh(network.read, new AbortController().signal);
      await network.close();
      assert.deepEqual(
        [existsSync(file), server.requestedPaths.length, debugLines.length],
        [false, 1, 1],
        `${description}: ${debugLines.join()}`,
      );
      assert.equal(await readCost(undefined, () => true, "openai/gpt-oss-120b"), 0.15, description);
    }
    // The content of the file is validated in the same way.
    const file = folder.at("broken.json");
    for (const text of ["{", "[]", JSON.stringify({ fetchedAt: Date.now(), url: "u", providers: [] })]) {
      await writeFile(file, text);
      await new CachedPrices({ file, url: "u" }, undefined).load(await import("@pydantic/genai-prices"));
      assert.equal(await readCost(undefined, () => true, "openai/gpt-oss-120b"), 0.15);
    }
  });
});
