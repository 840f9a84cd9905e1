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
import { until } from "../../helpers/lab.js";
import { ask, model, take } from "../../helpers/model-requests.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

type Json = Record<string, unknown>;

/** The package's price list, in which one model has this price in USD per million tokens. */
async function listWith(price: number, id = "brand-new-1"): Promise<Json[]> {
  const shipped = (await waitForUpdate()) as unknown as Json[];
  const fresh = { id, match: { equals: id }, prices: { input_mtok: price, output_mtok: price } };
  return shipped.map((shippedProvider) =>
    shippedProvider.id === "groq"
      ? {
          ...shippedProvider,
          models: [...(shippedProvider.models as Json[]).filter((listedModel) => listedModel.id !== id), fresh],
        }
      : { ...shippedProvider },
  );
}

/** A server that returns `answer` to every request. */
async function listServer(t: Hooks, answer: { status?: number; body: string }) {
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
 * The cost in USD of one answer, by a model without a shipped price. The provider stores its prices in the given file.
 */
async function costOf(
  _: Hooks,
  prices: { file: string; url: string } | undefined,
  settled: () => boolean,
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
    const { finish } = await take(provider, ask({ model: model({ id }) }));
    await until(settled);
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
    const server = await listServer(t, { body: JSON.stringify(await listWith(7)) });
    const prices = { file, url: server.url };
    assert.equal(await costOf(t, prices, () => existsSync(file)), undefined);
    assert.equal(await costOf(t, prices, () => true), 7);
    assert.deepEqual(server.requestedPaths, ["/prices.json"], "once a day");
    // Another process reads the stored prices without a request.
    const { url, ...storedFields } = JSON.parse(await readFile(file, "utf8")) as Json;
    assert.equal(url, server.url);
    await writeFile(file, JSON.stringify({ ...storedFields, url, providers: await listWith(9) }));
    const again = new CachedPrices(prices, undefined);
    await again.load(await import("@pydantic/genai-prices"));
    await again.refresh(new Network({ provider: "x", redact: (text) => text }).read, new AbortController().signal);
    assert.equal(await costOf(t, undefined, () => true), 9);
    assert.equal(server.requestedPaths.length, 1);
    // The stored prices are more than a day old.
    await writeFile(file, JSON.stringify({ ...storedFields, url, fetchedAt: Date.now() - 90_000_000 }));
    const old = new CachedPrices(prices, undefined);
    const network = new Network({ provider: "x", redact: (text) => text });
    await old.refresh(network.read, new AbortController().signal);
    await network.close();
    assert.equal(server.requestedPaths.length, 2);
    assert.equal(await costOf(t, undefined, () => true), 7);
  });

  it("are not fetched without a file, nor for presets without prices", async (t) => {
    const folder = await tempDir(t);
    const server = await listServer(t, { body: "[]" });
    const prices = { file: folder.at("prices.json"), url: server.url };
    await costOf(t, undefined, () => true);
    const models = await startFakeModelServer();
    for (const preset of ["ollama", "nvidia"]) {
      const provider = new AiSdkProvider({ preset, baseUrl: models.baseUrl, apiKey: "k", prices });
      await take(provider, ask());
      await provider.close();
    }
    await models.close();
    assert.deepEqual(server.requestedPaths, []);
  });

  it("are ignored if the list or the file is invalid; the known prices stay and one debug line is logged", async (t) => {
    const folder = await tempDir(t);
    const good = await listWith(5, "brand-new-2");
    const changed = (change: (providerEntry: Json) => Json) =>
      JSON.stringify(
        good.map((providerEntry) => (providerEntry.id === "groq" ? change(providerEntry) : providerEntry)),
      );
    const models = (model: Json) => changed((providerEntry) => ({ ...providerEntry, models: [model] }));
    const bad: Record<string, { status?: number; body: string }> = {
      "a page": { body: "<html>login</html>" },
      "an error": { status: 503, body: "[]" },
      "another list": { body: "[]" },
      "an object": { body: "{}" },
      "a provider without models": { body: changed(({ models: _, ...otherFields }) => otherFields) },
      "a list without OpenAI": { body: JSON.stringify(good.filter(({ id }) => id !== "openai")) },
      "a negative price": { body: models({ id: "a", match: { equals: "a" }, prices: { input_mtok: -1 } }) },
      "a price as text": { body: models({ id: "a", match: { equals: "a" }, prices: { input_mtok: "1" } }) },
      "a match with exponential time": { body: models({ id: "a", match: { regex: "^(a+)+$" }, prices: {} }) },
      "a match with polynomial time": { body: models({ id: "a", match: { regex: "a*b*c*d*$" }, prices: {} }) },
      "a match that is not an object": { body: models({ id: "a", match: "a", prices: {} }) },
      "an unknown kind of time": {
        body: models({ id: "a", match: { equals: "a" }, prices: [{ constraint: { type: "moon" }, prices: {} }] }),
      },
      "more than 8 MB": { body: `[${" ".repeat(9 * 1024 * 1024)}]` },
    };
    for (const [description, answer] of Object.entries(bad)) {
      const server = await listServer(t, answer);
      const file = folder.at(`${server.url.replace(/\D/g, "")}.json`);
      const lines: string[] = [];
      const never = (): never => assert.fail(description);
      const logger = { debug: (text: string) => void lines.push(text), info: never, warn: never, error: never };
      const network = new Network({ provider: "x", redact: (text) => text });
      const priceCache = new CachedPrices({ file, url: server.url }, logger);
      for (let i = 0; i < 2; i++) await priceCache.refresh(network.read, new AbortController().signal);
      await network.close();
      assert.deepEqual(
        [existsSync(file), server.requestedPaths.length, lines.length],
        [false, 1, 1],
        `${description}: ${lines.join()}`,
      );
      assert.equal(await costOf(t, undefined, () => true, "openai/gpt-oss-120b"), 0.15, description);
    }
    // The content of the file is validated in the same way.
    const file = folder.at("broken.json");
    for (const text of ["{", "[]", JSON.stringify({ fetchedAt: Date.now(), url: "u", providers: [] })]) {
      await writeFile(file, text);
      await new CachedPrices({ file, url: "u" }, undefined).load(await import("@pydantic/genai-prices"));
      assert.equal(await costOf(t, undefined, () => true, "openai/gpt-oss-120b"), 0.15);
    }
  });
});
