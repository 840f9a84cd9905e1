import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { describe, it, type TestContext } from "node:test";
import { Agent, ProviderError, silentLogger, type AgentOptions, type Logger } from "gantry";
import type { Model } from "gantry/plugin";
import { say, ScriptedProvider, type ScriptedProviderOptions } from "gantry/testing";
import { FileCatalogueCache } from "../../../src/models/catalogue-cache.js";
import { Models, noCache, type ModelPair, type ModelsOptions } from "../../../src/models/models.js";
import { costOf } from "../../../src/models/usage.js";
import { pause, until } from "../../helpers/lab.js";
import { tempDir } from "../../helpers/temp.js";

const model = (id: string): Model => ({ id, name: id, ownedBy: "x" });
const NO_MODEL: ModelPair = { provider: "", model: "" };
const never = new AbortController().signal;
const noRecentPair = () => Promise.resolve(undefined);

function provider(name: string, modelIds: string[], list?: ScriptedProviderOptions["list"]): ScriptedProvider {
  return new ScriptedProvider([], { name, models: modelIds.map(model), ...(list ? { list } : {}) });
}

function make(t: TestContext, providers: ScriptedProvider[], options: Partial<ModelsOptions> = {}): Models {
  const models = new Models({
    providers,
    preferred: NO_MODEL,
    cache: noCache,
    logger: silentLogger,
    timeoutMs: 30_000,
    ...options,
  });
  t.after(() => models.close());
  return models;
}

const names = (chosen: { provider: { name: string }; model: Model }) => `${chosen.provider.name}/${chosen.model.id}`;
const failToList = () => Promise.reject(new ProviderError("p", "network", "connection refused"));

describe("the list of models", () => {
  it("has the models of all providers, configured models first, and the configured models of a failed provider", async (t) => {
    const models = make(t, [
      provider("one", ["c"], () => Promise.resolve([model("c"), model("l")])),
      provider("two", ["k"], failToList),
    ]);
    assert.deepEqual(
      (await models.list()).map((entry) => `${entry.provider}/${entry.model.id}`),
      ["one/c", "one/l", "two/k"],
    );
  });

  it("ignores invalid entries and invalid lists of a provider", async (t) => {
    const invalidEntries = [null, 1, "m", { id: "x" }, { ...model("n"), ownedBy: 1n }, model("fine"), , undefined];
    const none = [undefined, null, "models", { 0: model("x") }].map((invalidList, i) =>
      provider(`none${i}`, ["k"], () => Promise.resolve(invalidList as never)),
    );
    const models = make(t, [
      provider("odd", [], () => Promise.resolve(invalidEntries as never)),
      ...none,
      provider("two", ["k"]),
    ]);
    assert.deepEqual(
      (await models.list()).map((entry) => `${entry.provider}/${entry.model.id}`),
      ["odd/fine", "none0/k", "none1/k", "none2/k", "none3/k", "two/k"],
    );
  });

  it("omits invalid limits, efforts and prices of a model, from a provider or from the cache file", async (t) => {
    const { path } = await tempDir(t);
    const file = `${path}/models.json`;
    const invalidModel = {
      ...model("odd"),
      contextWindow: "many",
      maxOutput: -1,
      efforts: ["ultra", "", 3],
      prices: { input: -5, output: "x" },
    };
    const validModel = {
      ...model("right"),
      contextWindow: 9,
      efforts: [],
      prices: { input: 0, output: 2, cacheRead: 1 },
    };
    const partlyInvalidModel = { ...model("half"), efforts: ["low", "ultra"], prices: { input: 1 } };
    await writeFile(
      file,
      JSON.stringify({ version: 1, models: { p: [invalidModel, validModel, partlyInvalidModel] } }),
    );
    const cleanedModels = [model("odd"), validModel, { ...model("half"), efforts: ["low"] }];
    assert.deepEqual(await new FileCatalogueCache(file, silentLogger).load(), { p: cleanedModels });
    const models = make(t, [
      provider("p", [], () => Promise.resolve([invalidModel, validModel, partlyInvalidModel] as never)),
    ]);
    assert.deepEqual(
      (await models.list()).map((entry) => entry.model),
      cleanedModels,
    );
  });

  /** A provider without a list yet, which is assumed to have two models. */
  function withMemory(name: string, list: ScriptedProviderOptions["list"]): ScriptedProvider {
    return Object.assign(provider(name, [], list), { fallbackModels: async () => [model("a1"), model("a2")] });
  }
  const failing = (kind: "permission" | "authentication" | "network") => () =>
    Promise.reject(new ProviderError("p", kind, "no", kind === "network" ? { unreachable: true } : {}));

  it("has the provider's fallback models, marked as assumed, until the provider permits a list", async (t) => {
    let answer: () => Promise<Model[]> = failing("permission");
    const savedLists: Record<string, readonly Model[]>[] = [];
    const cache = {
      ...noCache,
      save: async (models: Record<string, readonly Model[]>) => void savedLists.push(models),
    };
    const models = make(t, [withMemory("one", () => answer())], { cache });
    const listedIds = async () => (await models.list()).map(({ model: { id, isAssumed: assumed } }) => [id, assumed]);
    assert.deepEqual(await listedIds(), [
      ["a1", true],
      ["a2", true],
    ]);
    assert.equal(names(await models.resolve(NO_MODEL, NO_MODEL, noRecentPair, never)), "one/a1");
    assert.equal(
      names(await models.resolve({ provider: "one", model: "a2" }, NO_MODEL, noRecentPair, never)),
      "one/a2",
    );
    assert.equal(names(await models.resolve({ provider: "one", model: "" }, NO_MODEL, noRecentPair, never)), "one/a1");
    assert.deepEqual(savedLists, [], "it is no list to keep");
    answer = () => Promise.resolve([model("l")]);
    // A failed list is requested again after a second.
    await until(async () => (await listedIds()).length === 1);
    assert.deepEqual(await listedIds(), [["l", undefined]]);
    assert.deepEqual(savedLists.at(-1), { one: [model("l")] });
    answer = failing("permission");
    assert.deepEqual(await listedIds(), [["l", undefined]], "what was once listed is known");
  });

  it("has no fallback models for a wrong key, and selects those of an unreachable provider only by name", async (t) => {
    assert.deepEqual(await make(t, [withMemory("one", failing("authentication"))]).list(), []);
    const unreachable = make(t, [withMemory("one", failing("network"))]);
    assert.equal((await unreachable.list()).length, 2);
    assert.equal(
      names(await unreachable.resolve({ provider: "one", model: "a2" }, NO_MODEL, noRecentPair, never)),
      "one/a2",
    );
    await assert.rejects(unreachable.resolve(NO_MODEL, NO_MODEL, noRecentPair, never), { code: "model_selection" });
    const second = make(t, [withMemory("one", failing("permission")), provider("two", ["k"])]);
    await second.list();
    assert.equal(
      names(await second.resolve(NO_MODEL, NO_MODEL, noRecentPair, never)),
      "two/k",
      "one that has a model goes before it",
    );
  });

  it("is requested once from a provider for concurrent and later callers", async (t) => {
    let listCalls = 0;
    const models = make(t, [provider("one", [], () => Promise.resolve([model(String((listCalls += 1)))]))]);
    await Promise.all([models.list(), models.list(), models.list()]);
    await models.list();
    assert.equal(listCalls, 1);
  });

  it("omits a provider that does not answer within timeoutMs", async (t) => {
    const models = make(t, [provider("dead", [], () => new Promise(() => undefined)), provider("two", ["k"])], {
      timeoutMs: 30,
    });
    assert.deepEqual(
      (await models.list()).map((entry) => entry.provider),
      ["two"],
    );
  });

  it("is read from a cache file when the provider fails; a damaged file is ignored", async (t) => {
    const folder = await tempDir(t);
    const cache = new FileCatalogueCache(folder.at("home", "models.json"), silentLogger);
    const live = make(t, [provider("one", [], () => Promise.resolve([model("a")]))], { cache });
    await live.list();
    const later = make(t, [provider("one", [], failToList)], { cache });
    assert.equal(names(await later.resolve({ provider: "one", model: "a" }, NO_MODEL, noRecentPair, never)), "one/a");
    await folder.write({ "home/models.json": "{broken" });
    const broken = make(t, [provider("one", ["z"], failToList)], { cache });
    assert.equal(names(await broken.resolve(NO_MODEL, NO_MODEL, noRecentPair, never)), "one/z");
  });
});

describe("the selection of a model", () => {
  const two = () => [provider("one", ["a", "shared"]), provider("two", ["shared", "b"])];

  it("accepts a known pair, waits for the first list for an unknown pair, and rejects a pair that no list has", async (t) => {
    const late = provider("late", [], () => Promise.resolve([model("new")]));
    const models = make(t, [...two(), late]);
    const resolve = (provider: string, id: string) =>
      models.resolve({ provider, model: id }, NO_MODEL, noRecentPair, never);
    assert.equal(names(await resolve("two", "b")), "two/b");
    assert.equal(names(await resolve("late", "new")), "late/new");
    await assert.rejects(resolve("one", "b"), { message: "model selection failed: one has no model b" });
    await assert.rejects(resolve("x", "b"), { message: "model selection failed: no provider x is configured" });
  });

  it("resolves a model without a provider to the preferred provider that has it, else to the first", async (t) => {
    const requestedModel = { provider: "", model: "shared" };
    assert.equal(names(await make(t, two()).resolve(requestedModel, NO_MODEL, noRecentPair, never)), "one/shared");
    const preferring = make(t, two(), { preferred: { provider: "two", model: "b" } });
    assert.equal(names(await preferring.resolve(requestedModel, NO_MODEL, noRecentPair, never)), "two/shared");
  });

  it("resolves a provider without a model to its preferred model, else to its first", async (t) => {
    const requestedModel = { provider: "two", model: "" };
    assert.equal(names(await make(t, two()).resolve(requestedModel, NO_MODEL, noRecentPair, never)), "two/shared");
    const preferring = make(t, two(), { preferred: { provider: "two", model: "b" } });
    assert.equal(names(await preferring.resolve(requestedModel, NO_MODEL, noRecentPair, never)), "two/b");
  });

  it("uses the session's pair, else that of the config, else the folder's last pair, else the first model", async (t) => {
    const recent = () => Promise.resolve({ provider: "two", model: "b" });
    const stored = { provider: "one", model: "shared" };
    const preferred = { provider: "two", model: "shared" };
    assert.equal(names(await make(t, two(), { preferred }).resolve(NO_MODEL, stored, recent, never)), "one/shared");
    assert.equal(names(await make(t, two(), { preferred }).resolve(NO_MODEL, NO_MODEL, recent, never)), "two/shared");
    assert.equal(names(await make(t, two()).resolve(NO_MODEL, NO_MODEL, recent, never)), "two/b");
    assert.equal(names(await make(t, two()).resolve(NO_MODEL, NO_MODEL, noRecentPair, never)), "one/a");
  });

  it("falls back to the first model with a warning when the requested or stored one is unknown", async (t) => {
    const warnings: string[] = [];
    const logger: Logger = { ...silentLogger, warn: (message) => void warnings.push(message) };
    const models = make(t, two(), { logger });
    for (const requestedModel of [
      { provider: "", model: "gone" },
      { provider: "gone", model: "" },
    ]) {
      assert.equal(names(await models.resolve(requestedModel, NO_MODEL, noRecentPair, never)), "one/a");
    }
    assert.equal(
      names(await models.resolve(NO_MODEL, { provider: "gone", model: "gone" }, noRecentPair, never)),
      "one/a",
    );
    assert.equal(warnings.length, 3);
  });

  it("retries temporary errors until timeoutMs, and rejects with the message of a permanent error", async (t) => {
    let listCalls = 0;
    const recovering = provider("r", [], () => ((listCalls += 1) < 2 ? failToList() : Promise.resolve([model("up")])));
    assert.equal(names(await make(t, [recovering]).resolve(NO_MODEL, NO_MODEL, noRecentPair, never)), "r/up");
    const dead = make(t, [provider("d", [], failToList)], { timeoutMs: 50 });
    await assert.rejects(dead.resolve(NO_MODEL, NO_MODEL, noRecentPair, never), {
      message: "timed out selecting model",
    });
    const hanging = make(t, [provider("h", [], () => new Promise(() => undefined))], { timeoutMs: 50 });
    await assert.rejects(hanging.resolve(NO_MODEL, NO_MODEL, noRecentPair, never), {
      message: "timed out selecting model",
    });
    const unauthorizedProvider = provider("k", [], () =>
      Promise.reject(new ProviderError("k", "authentication", "bad key", { status: 401 })),
    );
    await assert.rejects(make(t, [unauthorizedProvider]).resolve(NO_MODEL, NO_MODEL, noRecentPair, never), {
      message: "model selection failed: no model available (k: 401: bad key)",
    });
    await assert.rejects(make(t, []).resolve(NO_MODEL, NO_MODEL, noRecentPair, never), {
      message: "model selection failed: no provider has a model",
    });
  });

  it("rejects with the reason of the caller's signal", async (t) => {
    const models = make(t, [provider("h", [], () => new Promise(() => undefined))]);
    const cancel = new AbortController();
    const choosing = models.resolve(NO_MODEL, NO_MODEL, noRecentPair, cancel.signal);
    cancel.abort(new Error("mine"));
    await assert.rejects(choosing, { message: "mine" });
  });
});

describe("the refresh of the model catalogue", () => {
  const refuseConnection = () =>
    Promise.reject(new ProviderError("late", "network", "no connection (ECONNREFUSED)", { unreachable: true }));
  const ids = (entries: readonly { model: Model }[]) => entries.map((entry) => entry.model.id);

  it("requests the list again for an unknown model name, once for concurrent callers", async (t) => {
    let availableIds = ["old"];
    let listCalls = 0;
    const models = make(t, [provider("p", [], () => ((listCalls += 1), Promise.resolve(availableIds.map(model))))]);
    const resolveNamed = (id: string) => models.resolve({ provider: "p", model: id }, NO_MODEL, noRecentPair, never);
    await assert.rejects(resolveNamed("new"), { message: "model selection failed: p has no model new" });
    availableIds = ["old", "new"];
    const before = listCalls;
    assert.deepEqual((await Promise.all([resolveNamed("new"), resolveNamed("new"), resolveNamed("new")])).map(names), [
      "p/new",
      "p/new",
      "p/new",
    ]);
    assert.equal(listCalls, before + 1);
    availableIds = ["old", "new", "newest"];
    assert.equal(
      names(await models.resolve({ provider: "", model: "newest" }, NO_MODEL, noRecentPair, never)),
      "p/newest",
    );
  });

  it("waits for a pending list, and requests it again if that list lacks the model", async (t) => {
    let resolveList: (models: Model[]) => void = () => undefined;
    let listCalls = 0;
    const slow = provider("slow", [], () => {
      listCalls += 1;
      return listCalls === 1
        ? new Promise((resolve) => (resolveList = resolve))
        : Promise.resolve([model("a"), model("b")]);
    });
    const models = make(t, [slow]);
    const list = models.list();
    const namedModel = models.resolve({ provider: "slow", model: "b" }, NO_MODEL, noRecentPair, never);
    await until(() => listCalls > 0);
    // Waits one turn of the event loop, in which the call finds the pending list.
    await new Promise(setImmediate);
    resolveList([model("a")]);
    assert.deepEqual([ids(await list), names(await namedModel), listCalls], [["a"], "slow/b", 2]);
  });

  it("adds the models of a provider that becomes reachable later", async (t) => {
    let isUp = false;
    const models = make(t, [
      provider("late", [], () => (isUp ? Promise.resolve([model("x")]) : refuseConnection())),
      provider("two", ["k"]),
    ]);
    assert.deepEqual(ids(await models.list()), ["k"]);
    isUp = true;
    await until(async () => ids(await models.list()).length === 2);
    assert.deepEqual(ids(await models.list()), ["x", "k"]);
  });

  it("updates an expired list when it is listed, and in the background when a model is resolved", async (t) => {
    let availableIds = ["a"];
    const models = make(t, [provider("p", [], () => Promise.resolve(availableIds.map(model)))], { refreshMs: 1 });
    await models.list();
    availableIds = ["a", "b"];
    // Time: a list expires after 1 ms (`refreshMs`).
    await pause(5);
    assert.deepEqual(ids(await models.list()), ["a", "b"]);
    availableIds = ["c"];
    // Time: as above.
    await pause(5);
    assert.equal(names(await models.resolve(NO_MODEL, NO_MODEL, noRecentPair, never)), "p/a");
    await until(() => ids(models.entries())[0] === "c");
  });

  it("returns a cached model first, and updates the list and the cache in the background", async (t) => {
    let listCalls = 0;
    const savedLists: Record<string, readonly Model[]>[] = [];
    const cache = {
      load: () => Promise.resolve({ p: [model("cached")] }),
      save: (models: Record<string, readonly Model[]>) => (savedLists.push(models), Promise.resolve()),
    };
    const models = make(t, [provider("p", [], () => ((listCalls += 1), Promise.resolve([model("fresh")])))], { cache });
    assert.equal(names(await models.resolve(NO_MODEL, NO_MODEL, noRecentPair, never)), "p/cached");
    await until(() => savedLists.length > 0);
    assert.deepEqual(
      [listCalls, ids(models.entries()), savedLists[0]!["p"]!.map(({ id }) => id)],
      [1, ["fresh"], ["fresh"]],
    );
  });

  it("never replaces a named provider by another provider", async (t) => {
    const models = make(t, [provider("two", ["k"]), provider("late", [], refuseConnection)]);
    await assert.rejects(models.resolve({ provider: "late", model: "" }, NO_MODEL, noRecentPair, never), {
      code: "model_selection",
      message:
        "model selection failed: late has no model (its list could not be fetched: late: network: no connection (ECONNREFUSED))",
    });
    const hanging = make(t, [provider("two", ["k"]), provider("h", [], () => new Promise(() => undefined))], {
      timeoutMs: 30,
    });
    await assert.rejects(hanging.resolve({ provider: "h", model: "" }, NO_MODEL, noRecentPair, never), {
      code: "model_timeout",
    });
  });

  it("does not wait for a slow provider when another provider has the model", async (t) => {
    const slow = provider("slow", [], () => new Promise(() => undefined));
    const models = make(t, [slow, provider("two", [], () => Promise.resolve([model("b")]))]);
    assert.equal(names(await models.resolve({ provider: "two", model: "b" }, NO_MODEL, noRecentPair, never)), "two/b");
    assert.equal(names(await models.resolve({ provider: "two", model: "" }, NO_MODEL, noRecentPair, never)), "two/b");
  });

  it("reports the last error of each provider in the rejection, and logs each error once", async (t) => {
    const unreachableModels = make(t, [
      provider("late", [], refuseConnection),
      provider("none", [], () => Promise.resolve([])),
    ]);
    await assert.rejects(unreachableModels.resolve(NO_MODEL, NO_MODEL, noRecentPair, never), {
      message:
        "model selection failed: no model available (late: network: no connection (ECONNREFUSED); none: no models)",
    });
    const reportedReasons: string[] = [];
    const warnings: unknown[] = [];
    const logger: Logger = { ...silentLogger, warn: (message, fields) => void warnings.push([message, fields]) };
    const mixed = make(
      t,
      [
        provider("late", [], refuseConnection),
        provider("p", [], failToList),
        provider("h", [], () => new Promise(() => undefined)),
      ],
      { timeoutMs: 1_300, logger },
    );
    const why = "late: network: no connection (ECONNREFUSED); p: network: connection refused; h: no answer yet";
    await assert.rejects(
      mixed.resolve(NO_MODEL, NO_MODEL, noRecentPair, never, (reason) => reportedReasons.push(reason)),
      { message: "timed out selecting model", reason: why },
    );
    assert.deepEqual(reportedReasons, [why]);
    // Each warning is logged once, however often the provider was asked.
    assert.equal(warnings.length, 3);
  });

  it("uses the configured model, even if no provider lists it", async (t) => {
    const denyList = () => Promise.reject(new ProviderError("p", "permission", "no", { status: 403 }));
    const preferred = { provider: "p", model: "mine" };
    for (const list of [denyList, refuseConnection, failToList, () => Promise.resolve([model("other")])]) {
      const models = make(t, [provider("p", [], list), provider("two", ["k"])], { preferred });
      assert.equal(names(await models.resolve(NO_MODEL, NO_MODEL, noRecentPair, never)), "p/mine");
      assert.equal(names(await models.resolve(preferred, NO_MODEL, noRecentPair, never)), "p/mine");
      assert.equal(names(await models.resolve({ provider: "p", model: "" }, NO_MODEL, noRecentPair, never)), "p/mine");
      assert.ok((await models.list()).some((entry) => entry.model.id === "mine"));
    }
    // With a single provider its name can be omitted.
    const single = make(t, [provider("p", [], denyList)], { preferred: { provider: "", model: "mine" } });
    assert.equal(names(await single.resolve(NO_MODEL, NO_MODEL, noRecentPair, never)), "p/mine");
    // The listed data of the model is used.
    const described = { ...model("mine"), contextWindow: 1000 };
    const listed = make(t, [provider("p", [], () => Promise.resolve([described]))], { preferred });
    assert.equal((await listed.resolve(NO_MODEL, NO_MODEL, noRecentPair, never)).model.contextWindow, 1000);
  });

  it("prefers configured data of a model to cached data, and the provider's current data to both", async (t) => {
    const cache = {
      ...noCache,
      load: () => Promise.resolve({ p: [{ ...model("m"), contextWindow: 1, maxOutput: 2 }] }),
    };
    const listingProvider = new ScriptedProvider([], {
      name: "p",
      models: [{ ...model("m"), contextWindow: 10 }],
      list: () => Promise.resolve([{ ...model("m"), contextWindow: 10, maxOutput: 20 }]),
    });
    const models = make(t, [listingProvider as never], { cache });
    const { model: cached } = await models.resolve({ provider: "p", model: "m" }, NO_MODEL, noRecentPair, never);
    assert.deepEqual([cached.contextWindow, cached.maxOutput], [10, 2]);
    assert.deepEqual((await models.list())[0]!.model, { ...model("m"), contextWindow: 10, maxOutput: 20 });
  });
});

describe("the cost of a model call", () => {
  const usage = {
    inputTokens: 1_000_000,
    outputTokens: 100_000,
    cacheReadTokens: 400_000,
    cacheWriteTokens: 100_000,
    reasoningTokens: 50_000,
  };
  const prices = { input: 2.5, output: 10, cacheRead: 0.25, cacheWrite: 3 };
  it("has separate prices for cached tokens, and the output price for reasoning tokens", () => {
    assert.ok(Math.abs(costOf(usage, prices) - (0.5 * 2.5 + 0.4 * 0.25 + 0.1 * 3 + 0.1 * 10)) < 1e-12);
    assert.ok(Math.abs(costOf(usage, { input: 1, output: 1 }) - 1.1) < 1e-12);
  });
  it("is the cost that the provider reports, else from configured prices, else the estimated cost", () => {
    assert.equal(costOf({ ...usage, cost: 7, costReported: true }, prices), 7);
    assert.notEqual(costOf({ ...usage, cost: 7 }, prices), 7);
    assert.equal(costOf({ ...usage, cost: 7 }, undefined), 7);
    assert.equal(costOf(usage, undefined), 0);
  });
});

describe("Agent.prepare", () => {
  class Prepared extends ScriptedProvider {
    prepared = 0;
    readonly #load: () => Promise<void>;

    constructor(name: string, load: () => Promise<void> = () => Promise.resolve()) {
      super([say("done")], { name });
      this.#load = load;
    }

    prepare(): Promise<void> {
      this.prepared += 1;
      return this.#load();
    }
  }
  const agentOf = (t: TestContext, providers: Prepared[], options: Partial<AgentOptions> = {}): Agent => {
    const agent = new Agent({ providers, ...options });
    t.after(() => agent.close());
    return agent;
  };

  it("prepares the configured provider, or else the first one, once", async (t) => {
    const providers = [new Prepared("a"), new Prepared("b")];
    const counts = () => providers.map(({ prepared }) => prepared);
    const configured = agentOf(t, providers, { model: { provider: "b" } });
    await configured.models.list();
    assert.deepEqual(counts(), [0, 0], "a list of models needs none");
    await configured.prepare();
    await configured.prepare();
    await until(() => counts()[1] === 1);
    const first = agentOf(t, providers);
    await first.prepare();
    await until(() => counts()[0] === 1);
    await Promise.all([configured.close(), first.close()]);
    assert.deepEqual(counts(), [1, 1]);
  });

  it("neither fails nor delays a run or a close", async (t) => {
    const broken = agentOf(t, [new Prepared("a", () => Promise.reject(new Error("not installed")))]);
    await broken.prepare();
    assert.equal((await (await broken.run({ message: "x" })).result).output, "done");
    const endless = new Prepared("a", () => new Promise(() => undefined));
    const agent = agentOf(t, [endless]);
    await agent.prepare();
    await until(() => endless.prepared === 1);
    assert.equal((await (await agent.run({ message: "x" })).result).output, "done");
    await agent.close();
  });
});
