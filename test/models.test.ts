import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { ProviderError, silentLogger, type Logger, type Model } from "gantry";
import { ScriptedProvider, type ScriptedProviderOptions } from "gantry/testing";
import { FileCatalogueCache } from "../src/catalogue-cache.js";
import { Models, noCache, type ModelPair, type ModelsOptions } from "../src/models.js";
import { costOf } from "../src/usage.js";
import { tempDir } from "./helpers/temp.js";

const model = (id: string): Model => ({ id, name: id, ownedBy: "x" });
const NONE: ModelPair = { provider: "", model: "" };
const never = new AbortController().signal;
const nobody = () => Promise.resolve(undefined);

function provider(name: string, known: string[], list?: ScriptedProviderOptions["list"]): ScriptedProvider {
  return new ScriptedProvider([], { name, models: known.map(model), ...(list ? { list } : {}) });
}

function make(t: TestContext, providers: ScriptedProvider[], options: Partial<ModelsOptions> = {}): Models {
  const models = new Models({
    providers,
    preferred: NONE,
    cache: noCache,
    logger: silentLogger,
    timeoutMs: 30_000,
    ...options,
  });
  t.after(() => models.close());
  return models;
}

const names = (chosen: { provider: { name: string }; model: Model }) => `${chosen.provider.name}/${chosen.model.id}`;
const down = () => Promise.reject(new ProviderError("p", "network", "connection refused"));

describe("the list of models", () => {
  it("has all providers' models, configured ones first; a provider that fails keeps its configured ones", async (t) => {
    const models = make(t, [
      provider("one", ["c"], () => Promise.resolve([model("c"), model("l")])),
      provider("two", ["k"], down),
    ]);
    assert.deepEqual(
      (await models.list()).map((entry) => `${entry.provider}/${entry.model.id}`),
      ["one/c", "one/l", "two/k"],
    );
  });

  it("asks every provider once for callers at the same time", async (t) => {
    let asked = 0;
    const models = make(t, [provider("one", [], () => Promise.resolve([model(String((asked += 1)))]))]);
    await Promise.all([models.list(), models.list(), models.list()]);
    await models.list();
    assert.equal(asked, 1);
  });

  it("does not wait for a provider for ever", async (t) => {
    const models = make(t, [provider("dead", [], () => new Promise(() => undefined)), provider("two", ["k"])], {
      timeoutMs: 30,
    });
    assert.deepEqual(
      (await models.list()).map((entry) => entry.provider),
      ["two"],
    );
  });

  it("outlives the process in a file, which may be broken", async (t) => {
    const folder = await tempDir(t);
    const cache = new FileCatalogueCache(folder.at("home", "models.json"), silentLogger);
    const live = make(t, [provider("one", [], () => Promise.resolve([model("a")]))], { cache });
    await live.list();
    const later = make(t, [provider("one", [], down)], { cache });
    assert.equal(names(await later.resolve({ provider: "one", model: "a" }, NONE, nobody, never)), "one/a");
    await folder.write({ "home/models.json": "{broken" });
    const broken = make(t, [provider("one", ["z"], down)], { cache });
    assert.equal(names(await broken.resolve(NONE, NONE, nobody, never)), "one/z");
  });
});

describe("the choice of a model", () => {
  const two = () => [provider("one", ["a", "shared"]), provider("two", ["shared", "b"])];

  it("takes a pair that is known, waits for the first sync when it is not, and refuses what nobody has", async (t) => {
    const late = provider("late", [], () => Promise.resolve([model("new")]));
    const models = make(t, [...two(), late]);
    const resolve = (provider: string, id: string) => models.resolve({ provider, model: id }, NONE, nobody, never);
    assert.equal(names(await resolve("two", "b")), "two/b");
    assert.equal(names(await resolve("late", "new")), "late/new");
    await assert.rejects(resolve("one", "b"), { message: "model selection failed: one has no model b" });
    await assert.rejects(resolve("x", "b"), { message: "model selection failed: no provider x is configured" });
  });

  it("a model alone: the preferred provider that has it, else the first", async (t) => {
    const wanted = { provider: "", model: "shared" };
    assert.equal(names(await make(t, two()).resolve(wanted, NONE, nobody, never)), "one/shared");
    const preferring = make(t, two(), { preferred: { provider: "two", model: "b" } });
    assert.equal(names(await preferring.resolve(wanted, NONE, nobody, never)), "two/shared");
  });

  it("a provider alone: its preferred model, else its first", async (t) => {
    const wanted = { provider: "two", model: "" };
    assert.equal(names(await make(t, two()).resolve(wanted, NONE, nobody, never)), "two/shared");
    const preferring = make(t, two(), { preferred: { provider: "two", model: "b" } });
    assert.equal(names(await preferring.resolve(wanted, NONE, nobody, never)), "two/b");
  });

  it("neither: the session's pair, then config, then the folder's last pair, then the first", async (t) => {
    const recent = () => Promise.resolve({ provider: "two", model: "b" });
    const stored = { provider: "one", model: "shared" };
    const preferred = { provider: "two", model: "shared" };
    assert.equal(names(await make(t, two(), { preferred }).resolve(NONE, stored, recent, never)), "one/shared");
    assert.equal(names(await make(t, two(), { preferred }).resolve(NONE, NONE, recent, never)), "two/shared");
    assert.equal(names(await make(t, two()).resolve(NONE, NONE, recent, never)), "two/b");
    assert.equal(names(await make(t, two()).resolve(NONE, NONE, nobody, never)), "one/a");
  });

  it("what is known to none falls back to the preferred one, with a warning", async (t) => {
    const warned: string[] = [];
    const logger: Logger = { ...silentLogger, warn: (message) => void warned.push(message) };
    const models = make(t, two(), { logger });
    for (const wanted of [
      { provider: "", model: "gone" },
      { provider: "gone", model: "" },
    ]) {
      assert.equal(names(await models.resolve(wanted, NONE, nobody, never)), "one/a");
    }
    assert.equal(names(await models.resolve(NONE, { provider: "gone", model: "gone" }, nobody, never)), "one/a");
    assert.equal(warned.length, 3);
  });

  it("asks again while a fault may pass, times out after the limit, and says at once what will not pass", async (t) => {
    let asked = 0;
    const recovering = provider("r", [], () => ((asked += 1) < 2 ? down() : Promise.resolve([model("up")])));
    assert.equal(names(await make(t, [recovering]).resolve(NONE, NONE, nobody, never)), "r/up");
    const dead = make(t, [provider("d", [], down)], { timeoutMs: 50 });
    await assert.rejects(dead.resolve(NONE, NONE, nobody, never), { message: "timed out selecting model" });
    const hanging = make(t, [provider("h", [], () => new Promise(() => undefined))], { timeoutMs: 50 });
    await assert.rejects(hanging.resolve(NONE, NONE, nobody, never), { message: "timed out selecting model" });
    const refused = provider("k", [], () =>
      Promise.reject(new ProviderError("k", "authentication", "bad key", { status: 401 })),
    );
    await assert.rejects(make(t, [refused]).resolve(NONE, NONE, nobody, never), {
      message: "model selection failed: no model available (k: k: 401: bad key)",
    });
    await assert.rejects(make(t, []).resolve(NONE, NONE, nobody, never), {
      message: "model selection failed: no provider has a model",
    });
  });

  it("ends with the caller's signal", async (t) => {
    const models = make(t, [provider("h", [], () => new Promise(() => undefined))]);
    const cancel = new AbortController();
    const choosing = models.resolve(NONE, NONE, nobody, cancel.signal);
    cancel.abort(new Error("mine"));
    await assert.rejects(choosing, { message: "mine" });
  });
});

describe("the cost of a call", () => {
  const usage = {
    inputTokens: 1_000_000,
    outputTokens: 100_000,
    cacheReadTokens: 400_000,
    cacheWriteTokens: 100_000,
    reasoningTokens: 50_000,
  };
  const prices = { input: 2.5, output: 10, cacheRead: 0.25, cacheWrite: 3 };
  it("prices cached tokens apart and reasoning as output", () => {
    assert.ok(Math.abs(costOf(usage, prices) - (0.5 * 2.5 + 0.4 * 0.25 + 0.1 * 3 + 0.1 * 10)) < 1e-12);
    assert.ok(Math.abs(costOf(usage, { input: 1, output: 1 }) - 1.1) < 1e-12);
  });
  it("believes the provider first, config second, public prices third", () => {
    assert.equal(costOf({ ...usage, cost: 7, costReported: true }, prices), 7);
    assert.notEqual(costOf({ ...usage, cost: 7 }, prices), 7);
    assert.equal(costOf({ ...usage, cost: 7 }, undefined), 7);
    assert.equal(costOf(usage, undefined), 0);
  });
});
