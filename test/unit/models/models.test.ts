import assert from "node:assert/strict";
import { stat, writeFile } from "node:fs/promises";
import { describe, it, type TestContext } from "node:test";
import { Agent, ProviderError, silentLogger, type AgentOptions, type Logger } from "gantry";
import type { Model } from "gantry/plugin";
import { say, ScriptedProvider, type ScriptedProviderOptions } from "gantry/testing";
import { FileCatalogueCache } from "../../../src/models/catalogue-cache.js";
import { Models, noCache, type ModelPair, type ModelsOptions } from "../../../src/models/models.js";
import { costOf } from "../../../src/models/usage.js";
import { pause, waitUntil } from "../../helpers/server-runs.js";
import { tempDir } from "../../helpers/temp-dir.js";

const createModel = (id: string): Model => ({ id, name: id, ownedBy: "x" });
const NO_MODEL: ModelPair = { provider: "", model: "" };
const neverAbortedSignal = new AbortController().signal;
const readNoRecentPair = () => Promise.resolve(undefined);

function createProvider(name: string, modelIds: string[], list?: ScriptedProviderOptions["list"]): ScriptedProvider {
  return new ScriptedProvider([], { name, models: modelIds.map(createModel), ...(list ? { list } : {}) });
}

function createModels(t: TestContext, providers: ScriptedProvider[], options: Partial<ModelsOptions> = {}): Models {
  const models = new Models({
    providers,
    preferredPair: NO_MODEL,
    cache: noCache,
    logger: silentLogger,
    timeoutMs: 30_000,
    ...options,
  });
  t.after(() => models.close());
  return models;
}

const nameOf = (selection: { provider: { name: string }; model: Model }) =>
  `${selection.provider.name}/${selection.model.id}`;
const failToList = () => Promise.reject(new ProviderError("p", "network", "connection refused"));

describe("the list of models", () => {
  it("has the models of all providers, configured models first, and the configured models of a failed provider", async (t) => {
    const models = createModels(t, [
      createProvider("one", ["c"], () => Promise.resolve([createModel("c"), createModel("l")])),
      createProvider("two", ["k"], failToList),
    ]);
    assert.deepEqual(
      (await models.list()).map((entry) => `${entry.provider}/${entry.model.id}`),
      ["one/c", "one/l", "two/k"],
    );
  });

  it("ignores invalid entries and invalid lists of a provider", async (t) => {
    const invalidEntries = [
      null,
      1,
      "m",
      { id: "x" },
      { ...createModel("n"), ownedBy: 1n },
      createModel("fine"),
      ,
      undefined,
    ];
    const providersWithoutList = [undefined, null, "models", { 0: createModel("x") }].map((invalidList, i) =>
      createProvider(`none${i}`, ["k"], () => Promise.resolve(invalidList as never)),
    );
    const models = createModels(t, [
      createProvider("odd", [], () => Promise.resolve(invalidEntries as never)),
      ...providersWithoutList,
      createProvider("two", ["k"]),
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
      ...createModel("odd"),
      contextWindow: "many",
      maxOutput: -1,
      efforts: ["ultra", "", 3],
      prices: { input: -5, output: "x" },
    };
    const validModel = {
      ...createModel("right"),
      contextWindow: 9,
      efforts: [],
      prices: { input: 0, output: 2, cacheRead: 1 },
    };
    const partlyInvalidModel = { ...createModel("half"), efforts: ["low", "ultra"], prices: { input: 1 } };
    await writeFile(
      file,
      JSON.stringify({ version: 1, models: { p: [invalidModel, validModel, partlyInvalidModel] } }),
    );
    const cleanedModels = [createModel("odd"), validModel, { ...createModel("half"), efforts: ["low"] }];
    assert.deepEqual(await new FileCatalogueCache(file, silentLogger).load(), { p: cleanedModels });
    const models = createModels(t, [
      createProvider("p", [], () => Promise.resolve([invalidModel, validModel, partlyInvalidModel] as never)),
    ]);
    assert.deepEqual(
      (await models.list()).map((entry) => entry.model),
      cleanedModels,
    );
  });

  /** Returns a provider without configured models, which has two fallback models. */
  function createProviderWithFallback(name: string, list: ScriptedProviderOptions["list"]): ScriptedProvider {
    return Object.assign(createProvider(name, [], list), {
      fallbackModels: async () => [createModel("a1"), createModel("a2")],
    });
  }
  const createFailingList = (kind: "permission" | "authentication" | "network") => () =>
    Promise.reject(new ProviderError("p", kind, "no", kind === "network" ? { unreachable: true } : {}));

  it("has the provider's fallback models, marked as assumed, until the provider permits a list", async (t) => {
    let listModels: () => Promise<Model[]> = createFailingList("permission");
    const savedLists: Record<string, readonly Model[]>[] = [];
    const cache = {
      ...noCache,
      save: async (models: Record<string, readonly Model[]>) => void savedLists.push(models),
    };
    const models = createModels(t, [createProviderWithFallback("one", () => listModels())], { cache });
    const getListedIds = async () => (await models.list()).map(({ model: { id, isAssumed } }) => [id, isAssumed]);
    assert.deepEqual(await getListedIds(), [
      ["a1", true],
      ["a2", true],
    ]);
    assert.equal(nameOf(await models.resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal)), "one/a1");
    assert.equal(
      nameOf(await models.resolve({ provider: "one", model: "a2" }, NO_MODEL, readNoRecentPair, neverAbortedSignal)),
      "one/a2",
    );
    assert.equal(
      nameOf(await models.resolve({ provider: "one", model: "" }, NO_MODEL, readNoRecentPair, neverAbortedSignal)),
      "one/a1",
    );
    assert.deepEqual(savedLists, [], "fallback models are not saved");
    listModels = () => Promise.resolve([createModel("l")]);
    // A failed list is requested again after a second.
    await waitUntil(async () => (await getListedIds()).length === 1);
    assert.deepEqual(await getListedIds(), [["l", undefined]]);
    assert.deepEqual(savedLists.at(-1), { one: [createModel("l")] });
    listModels = createFailingList("permission");
    assert.deepEqual(await getListedIds(), [["l", undefined]], "the last successful list remains");
  });

  it("does not save fallback models that replace an empty list of the provider", async (t) => {
    let listModels: () => Promise<Model[]> = () => Promise.resolve([]);
    const savedLists: Record<string, readonly Model[]>[] = [];
    const cache = {
      ...noCache,
      save: async (models: Record<string, readonly Model[]>) => void savedLists.push(models),
    };
    const providers = [
      createProviderWithFallback("one", () => listModels()),
      createProvider("two", [], () => Promise.resolve([createModel("b")])),
    ];
    const models = createModels(t, providers, { cache, refreshMs: 1 });
    assert.equal((await models.list()).length, 1);
    listModels = createFailingList("permission");
    await waitUntil(async () => (await models.list()).length === 3);
    savedLists.length = 0;
    await waitUntil(async () => (await models.list()).length > 0 && savedLists.length > 0);
    assert.deepEqual(savedLists.at(-1), { two: [createModel("b")] });
  });

  it("has no fallback models for a wrong key; a fallback model of an unreachable provider is selected only by name", async (t) => {
    assert.deepEqual(
      await createModels(t, [createProviderWithFallback("one", createFailingList("authentication"))]).list(),
      [],
    );
    const offlineModels = createModels(t, [createProviderWithFallback("one", createFailingList("network"))]);
    assert.equal((await offlineModels.list()).length, 2);
    assert.equal(
      nameOf(
        await offlineModels.resolve({ provider: "one", model: "a2" }, NO_MODEL, readNoRecentPair, neverAbortedSignal),
      ),
      "one/a2",
    );
    await assert.rejects(offlineModels.resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal), {
      code: "model_selection",
    });
    const twoProviderModels = createModels(t, [
      createProviderWithFallback("one", createFailingList("permission")),
      createProvider("two", ["k"]),
    ]);
    await twoProviderModels.list();
    assert.equal(
      nameOf(await twoProviderModels.resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal)),
      "two/k",
      "a provider with a configured model is preferred",
    );
  });

  it("is requested once from a provider for concurrent and later callers", async (t) => {
    let listCallCount = 0;
    const models = createModels(t, [
      createProvider("one", [], () => Promise.resolve([createModel(String((listCallCount += 1)))])),
    ]);
    await Promise.all([models.list(), models.list(), models.list()]);
    await models.list();
    assert.equal(listCallCount, 1);
  });

  it("omits a provider that does not answer within timeoutMs", async (t) => {
    const models = createModels(
      t,
      [createProvider("dead", [], () => new Promise(() => undefined)), createProvider("two", ["k"])],
      {
        timeoutMs: 30,
      },
    );
    assert.deepEqual(
      (await models.list()).map((entry) => entry.provider),
      ["two"],
    );
  });

  it("replaces the cache file only by other lists", async (t) => {
    const file = (await tempDir(t)).at("models.json");
    const readInode = async () => (await stat(file)).ino;
    await new FileCatalogueCache(file, silentLogger).save({ p: [createModel("a")] });
    const cache = new FileCatalogueCache(file, silentLogger);
    await cache.load();
    const inode = await readInode();
    await cache.save({ p: [createModel("a")] });
    assert.equal(await readInode(), inode);
    await cache.save({ p: [createModel("b")] });
    assert.notEqual(await readInode(), inode);
    assert.deepEqual(await cache.load(), { p: [createModel("b")] });
  });

  it("requests a cached list after the run that uses it has begun", async (t) => {
    let requestCount = 0;
    const provider = createProvider("one", [], () => Promise.resolve([createModel(`a${++requestCount}`)]));
    const cache = { ...noCache, load: () => Promise.resolve({ one: [createModel("old")] }) };
    const models = createModels(t, [provider], { cache });
    const chosenModel = await models.resolve(
      { provider: "one", model: "old" },
      NO_MODEL,
      readNoRecentPair,
      neverAbortedSignal,
    );
    assert.equal(nameOf(chosenModel), "one/old");
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    assert.equal(requestCount, 0);
    await waitUntil(() => models.entries()[0]?.model.id === "a1");
  });

  it("is read from a cache file when the provider fails; a damaged file is ignored", async (t) => {
    const folder = await tempDir(t);
    const cache = new FileCatalogueCache(folder.at("home", "models.json"), silentLogger);
    const onlineModels = createModels(t, [createProvider("one", [], () => Promise.resolve([createModel("a")]))], {
      cache,
    });
    await onlineModels.list();
    const cachedModels = createModels(t, [createProvider("one", [], failToList)], { cache });
    assert.equal(
      nameOf(
        await cachedModels.resolve({ provider: "one", model: "a" }, NO_MODEL, readNoRecentPair, neverAbortedSignal),
      ),
      "one/a",
    );
    await folder.write({ "home/models.json": "{broken" });
    const damagedCacheModels = createModels(t, [createProvider("one", ["z"], failToList)], { cache });
    assert.equal(
      nameOf(await damagedCacheModels.resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal)),
      "one/z",
    );
  });
});

describe("the selection of a model", () => {
  const createTwoProviders = () => [createProvider("one", ["a", "shared"]), createProvider("two", ["shared", "b"])];

  it("accepts a known pair, waits for the first list for an unknown pair, and rejects a pair that no list has", async (t) => {
    const lateProvider = createProvider("late", [], () => Promise.resolve([createModel("new")]));
    const models = createModels(t, [...createTwoProviders(), lateProvider]);
    const resolvePair = (provider: string, id: string) =>
      models.resolve({ provider, model: id }, NO_MODEL, readNoRecentPair, neverAbortedSignal);
    assert.equal(nameOf(await resolvePair("two", "b")), "two/b");
    assert.equal(nameOf(await resolvePair("late", "new")), "late/new");
    await assert.rejects(resolvePair("one", "b"), { message: "model selection failed: one has no model b" });
    await assert.rejects(resolvePair("x", "b"), { message: "model selection failed: no provider x is configured" });
  });

  it("resolves a model without a provider to the first provider with the model, and tries the preferred provider first", async (t) => {
    const requestedModel = { provider: "", model: "shared" };
    assert.equal(
      nameOf(
        await createModels(t, createTwoProviders()).resolve(
          requestedModel,
          NO_MODEL,
          readNoRecentPair,
          neverAbortedSignal,
        ),
      ),
      "one/shared",
    );
    const preferringModels = createModels(t, createTwoProviders(), { preferredPair: { provider: "two", model: "b" } });
    assert.equal(
      nameOf(await preferringModels.resolve(requestedModel, NO_MODEL, readNoRecentPair, neverAbortedSignal)),
      "two/shared",
    );
  });

  it("resolves a provider without a model to the preferred model, else to the provider's first model", async (t) => {
    const requestedModel = { provider: "two", model: "" };
    assert.equal(
      nameOf(
        await createModels(t, createTwoProviders()).resolve(
          requestedModel,
          NO_MODEL,
          readNoRecentPair,
          neverAbortedSignal,
        ),
      ),
      "two/shared",
    );
    const preferringModels = createModels(t, createTwoProviders(), { preferredPair: { provider: "two", model: "b" } });
    assert.equal(
      nameOf(await preferringModels.resolve(requestedModel, NO_MODEL, readNoRecentPair, neverAbortedSignal)),
      "two/b",
    );
  });

  it("uses the session's pair, else the config's pair, else the folder's last pair, else the first model", async (t) => {
    const readRecentPair = () => Promise.resolve({ provider: "two", model: "b" });
    const storedPair = { provider: "one", model: "shared" };
    const preferredPair = { provider: "two", model: "shared" };
    assert.equal(
      nameOf(
        await createModels(t, createTwoProviders(), { preferredPair }).resolve(
          NO_MODEL,
          storedPair,
          readRecentPair,
          neverAbortedSignal,
        ),
      ),
      "one/shared",
    );
    assert.equal(
      nameOf(
        await createModels(t, createTwoProviders(), { preferredPair }).resolve(
          NO_MODEL,
          NO_MODEL,
          readRecentPair,
          neverAbortedSignal,
        ),
      ),
      "two/shared",
    );
    assert.equal(
      nameOf(
        await createModels(t, createTwoProviders()).resolve(NO_MODEL, NO_MODEL, readRecentPair, neverAbortedSignal),
      ),
      "two/b",
    );
    assert.equal(
      nameOf(
        await createModels(t, createTwoProviders()).resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal),
      ),
      "one/a",
    );
  });

  it("falls back to the first model with a warning when the requested or stored model is unknown", async (t) => {
    const warnings: string[] = [];
    const logger: Logger = { ...silentLogger, warn: (message) => void warnings.push(message) };
    const models = createModels(t, createTwoProviders(), { logger });
    for (const requestedModel of [
      { provider: "", model: "gone" },
      { provider: "gone", model: "" },
    ]) {
      assert.equal(
        nameOf(await models.resolve(requestedModel, NO_MODEL, readNoRecentPair, neverAbortedSignal)),
        "one/a",
      );
    }
    assert.equal(
      nameOf(await models.resolve(NO_MODEL, { provider: "gone", model: "gone" }, readNoRecentPair, neverAbortedSignal)),
      "one/a",
    );
    assert.equal(warnings.length, 3);
  });

  it("retries temporary errors until timeoutMs, and rejects with the message of a permanent error", async (t) => {
    let listCallCount = 0;
    const recoveringProvider = createProvider("r", [], () =>
      (listCallCount += 1) < 2 ? failToList() : Promise.resolve([createModel("up")]),
    );
    assert.equal(
      nameOf(
        await createModels(t, [recoveringProvider]).resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal),
      ),
      "r/up",
    );
    const unreachableModels = createModels(t, [createProvider("d", [], failToList)], { timeoutMs: 50 });
    await assert.rejects(unreachableModels.resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal), {
      message: "timed out selecting model",
    });
    const hangingModels = createModels(t, [createProvider("h", [], () => new Promise(() => undefined))], {
      timeoutMs: 50,
    });
    await assert.rejects(hangingModels.resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal), {
      message: "timed out selecting model",
    });
    const unauthorizedProvider = createProvider("k", [], () =>
      Promise.reject(new ProviderError("k", "authentication", "bad key", { status: 401 })),
    );
    await assert.rejects(
      createModels(t, [unauthorizedProvider]).resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal),
      {
        message: "model selection failed: no model available (k: 401: bad key)",
      },
    );
    await assert.rejects(createModels(t, []).resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal), {
      message: "model selection failed: no provider has a model",
    });
  });

  it("rejects with the reason of the caller's signal", async (t) => {
    const models = createModels(t, [createProvider("h", [], () => new Promise(() => undefined))]);
    const cancelController = new AbortController();
    const selection = models.resolve(NO_MODEL, NO_MODEL, readNoRecentPair, cancelController.signal);
    cancelController.abort(new Error("mine"));
    await assert.rejects(selection, { message: "mine" });
  });
});

describe("the refresh of the model catalogue", () => {
  const refuseConnection = () =>
    Promise.reject(new ProviderError("late", "network", "no connection (ECONNREFUSED)", { unreachable: true }));
  const toIds = (entries: readonly { model: Model }[]) => entries.map((entry) => entry.model.id);

  it("requests the list again for an unknown model name, once for concurrent callers", async (t) => {
    let availableIds = ["old"];
    let listCallCount = 0;
    const models = createModels(t, [
      createProvider("p", [], () => ((listCallCount += 1), Promise.resolve(availableIds.map(createModel)))),
    ]);
    const resolveNamed = (id: string) =>
      models.resolve({ provider: "p", model: id }, NO_MODEL, readNoRecentPair, neverAbortedSignal);
    await assert.rejects(resolveNamed("new"), { message: "model selection failed: p has no model new" });
    availableIds = ["old", "new"];
    const initialCallCount = listCallCount;
    assert.deepEqual((await Promise.all([resolveNamed("new"), resolveNamed("new"), resolveNamed("new")])).map(nameOf), [
      "p/new",
      "p/new",
      "p/new",
    ]);
    assert.equal(listCallCount, initialCallCount + 1);
    availableIds = ["old", "new", "newest"];
    assert.equal(
      nameOf(await models.resolve({ provider: "", model: "newest" }, NO_MODEL, readNoRecentPair, neverAbortedSignal)),
      "p/newest",
    );
  });

  it("waits for a pending list, and requests it again if that list lacks the model", async (t) => {
    let resolveList: (models: Model[]) => void = () => undefined;
    let listCallCount = 0;
    const slowProvider = createProvider("slow", [], () => {
      listCallCount += 1;
      return listCallCount === 1
        ? new Promise((resolve) => (resolveList = resolve))
        : Promise.resolve([createModel("a"), createModel("b")]);
    });
    const models = createModels(t, [slowProvider]);
    const pendingList = models.list();
    const resolution = models.resolve({ provider: "slow", model: "b" }, NO_MODEL, readNoRecentPair, neverAbortedSignal);
    await waitUntil(() => listCallCount > 0);
    // Waits one turn of the event loop, in which the call finds the pending list.
    await new Promise(setImmediate);
    resolveList([createModel("a")]);
    assert.deepEqual([toIds(await pendingList), nameOf(await resolution), listCallCount], [["a"], "slow/b", 2]);
  });

  it("adds the models of a provider that becomes reachable later", async (t) => {
    let isUp = false;
    const models = createModels(t, [
      createProvider("late", [], () => (isUp ? Promise.resolve([createModel("x")]) : refuseConnection())),
      createProvider("two", ["k"]),
    ]);
    assert.deepEqual(toIds(await models.list()), ["k"]);
    isUp = true;
    await waitUntil(async () => toIds(await models.list()).length === 2);
    assert.deepEqual(toIds(await models.list()), ["x", "k"]);
  });

  it("updates an expired list when it is listed, and in the background when a model is resolved", async (t) => {
    let availableIds = ["a"];
    const models = createModels(t, [createProvider("p", [], () => Promise.resolve(availableIds.map(createModel)))], {
      refreshMs: 1,
    });
    await models.list();
    availableIds = ["a", "b"];
    // Time: a list expires after 1 ms (`refreshMs`).
    await pause(5);
    assert.deepEqual(toIds(await models.list()), ["a", "b"]);
    availableIds = ["c"];
    // Time: the new list also expires after 1 ms.
    await pause(5);
    assert.equal(nameOf(await models.resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal)), "p/a");
    await waitUntil(() => toIds(models.entries())[0] === "c");
  });

  it("returns a cached model first, and updates the list and the cache in the background", async (t) => {
    let listCallCount = 0;
    const savedLists: Record<string, readonly Model[]>[] = [];
    const cache = {
      load: () => Promise.resolve({ p: [createModel("cached")] }),
      save: (models: Record<string, readonly Model[]>) => (savedLists.push(models), Promise.resolve()),
    };
    const models = createModels(
      t,
      [createProvider("p", [], () => ((listCallCount += 1), Promise.resolve([createModel("fresh")])))],
      { cache },
    );
    assert.equal(nameOf(await models.resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal)), "p/cached");
    await waitUntil(() => savedLists.length > 0);
    assert.deepEqual(
      [listCallCount, toIds(models.entries()), savedLists[0]!["p"]!.map(({ id }) => id)],
      [1, ["fresh"], ["fresh"]],
    );
  });

  it("never replaces a configured provider that the caller named by another provider", async (t) => {
    const models = createModels(t, [createProvider("two", ["k"]), createProvider("late", [], refuseConnection)]);
    await assert.rejects(
      models.resolve({ provider: "late", model: "" }, NO_MODEL, readNoRecentPair, neverAbortedSignal),
      {
        code: "model_selection",
        message:
          "model selection failed: late has no model (its list could not be fetched: late: network: no connection (ECONNREFUSED))",
      },
    );
    const hangingModels = createModels(
      t,
      [createProvider("two", ["k"]), createProvider("h", [], () => new Promise(() => undefined))],
      {
        timeoutMs: 30,
      },
    );
    await assert.rejects(
      hangingModels.resolve({ provider: "h", model: "" }, NO_MODEL, readNoRecentPair, neverAbortedSignal),
      {
        code: "model_timeout",
      },
    );
  });

  it("does not wait for a slow provider when another provider has the model", async (t) => {
    const slowProvider = createProvider("slow", [], () => new Promise(() => undefined));
    const models = createModels(t, [
      slowProvider,
      createProvider("two", [], () => Promise.resolve([createModel("b")])),
    ]);
    assert.equal(
      nameOf(await models.resolve({ provider: "two", model: "b" }, NO_MODEL, readNoRecentPair, neverAbortedSignal)),
      "two/b",
    );
    assert.equal(
      nameOf(await models.resolve({ provider: "two", model: "" }, NO_MODEL, readNoRecentPair, neverAbortedSignal)),
      "two/b",
    );
  });

  it("reports the last error of each provider in the rejection, and logs each error once", async (t) => {
    const unreachableModels = createModels(t, [
      createProvider("late", [], refuseConnection),
      createProvider("none", [], () => Promise.resolve([])),
    ]);
    await assert.rejects(unreachableModels.resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal), {
      message:
        "model selection failed: no model available (late: network: no connection (ECONNREFUSED); none: no models)",
    });
    const reportedReasons: string[] = [];
    const warnings: unknown[] = [];
    const logger: Logger = { ...silentLogger, warn: (message, fields) => void warnings.push([message, fields]) };
    const failingModels = createModels(
      t,
      [
        createProvider("late", [], refuseConnection),
        createProvider("p", [], failToList),
        createProvider("h", [], () => new Promise(() => undefined)),
      ],
      { timeoutMs: 1_300, logger },
    );
    const expectedReason =
      "late: network: no connection (ECONNREFUSED); p: network: connection refused; h: no answer yet";
    await assert.rejects(
      failingModels.resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal, (reason) =>
        reportedReasons.push(reason),
      ),
      { message: "timed out selecting model", reason: expectedReason },
    );
    assert.deepEqual(reportedReasons, [expectedReason]);
    // Each warning is logged once, although the list was requested several times.
    assert.equal(warnings.length, 3);
  });

  it("uses the configured model, even if no provider lists it", async (t) => {
    const denyList = () => Promise.reject(new ProviderError("p", "permission", "no", { status: 403 }));
    const preferredPair = { provider: "p", model: "mine" };
    for (const listModels of [denyList, refuseConnection, failToList, () => Promise.resolve([createModel("other")])]) {
      const models = createModels(t, [createProvider("p", [], listModels), createProvider("two", ["k"])], {
        preferredPair,
      });
      assert.equal(nameOf(await models.resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal)), "p/mine");
      assert.equal(
        nameOf(await models.resolve(preferredPair, NO_MODEL, readNoRecentPair, neverAbortedSignal)),
        "p/mine",
      );
      assert.equal(
        nameOf(await models.resolve({ provider: "p", model: "" }, NO_MODEL, readNoRecentPair, neverAbortedSignal)),
        "p/mine",
      );
      assert.ok((await models.list()).some((entry) => entry.model.id === "mine"));
    }
    // With a single provider its name can be omitted.
    const singleProviderModels = createModels(t, [createProvider("p", [], denyList)], {
      preferredPair: { provider: "", model: "mine" },
    });
    assert.equal(
      nameOf(await singleProviderModels.resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal)),
      "p/mine",
    );
    // The listed data of the model is used.
    const describedModel = { ...createModel("mine"), contextWindow: 1000 };
    const listedModels = createModels(t, [createProvider("p", [], () => Promise.resolve([describedModel]))], {
      preferredPair,
    });
    assert.equal(
      (await listedModels.resolve(NO_MODEL, NO_MODEL, readNoRecentPair, neverAbortedSignal)).model.contextWindow,
      1000,
    );
  });

  it("prefers configured data of a model to cached data, and the provider's current data to both", async (t) => {
    const cache = {
      ...noCache,
      load: () => Promise.resolve({ p: [{ ...createModel("m"), contextWindow: 1, maxOutput: 2 }] }),
    };
    const listingProvider = new ScriptedProvider([], {
      name: "p",
      models: [{ ...createModel("m"), contextWindow: 10 }],
      list: () => Promise.resolve([{ ...createModel("m"), contextWindow: 10, maxOutput: 20 }]),
    });
    const models = createModels(t, [listingProvider as never], { cache });
    const { model: cachedModel } = await models.resolve(
      { provider: "p", model: "m" },
      NO_MODEL,
      readNoRecentPair,
      neverAbortedSignal,
    );
    assert.deepEqual([cachedModel.contextWindow, cachedModel.maxOutput], [10, 2]);
    assert.deepEqual((await models.list())[0]!.model, { ...createModel("m"), contextWindow: 10, maxOutput: 20 });
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
  class PreparedProvider extends ScriptedProvider {
    prepareCount = 0;
    readonly #load: () => Promise<void>;

    constructor(name: string, load: () => Promise<void> = () => Promise.resolve()) {
      super([say("done")], { name });
      this.#load = load;
    }

    prepare(): Promise<void> {
      this.prepareCount += 1;
      return this.#load();
    }
  }
  const createAgent = (t: TestContext, providers: PreparedProvider[], options: Partial<AgentOptions> = {}): Agent => {
    const agent = new Agent({ providers, ...options });
    t.after(() => agent.close());
    return agent;
  };

  it("prepares the configured provider, or else the first provider, once", async (t) => {
    const providers = [new PreparedProvider("a"), new PreparedProvider("b")];
    const getCounts = () => providers.map(({ prepareCount }) => prepareCount);
    const configuredAgent = createAgent(t, providers, { model: { provider: "b" } });
    await configuredAgent.models.list();
    assert.deepEqual(getCounts(), [0, 0], "a list of models prepares no provider");
    await configuredAgent.prepare();
    await configuredAgent.prepare();
    await waitUntil(() => getCounts()[1] === 1);
    const defaultAgent = createAgent(t, providers);
    await defaultAgent.prepare();
    await waitUntil(() => getCounts()[0] === 1);
    await Promise.all([configuredAgent.close(), defaultAgent.close()]);
    assert.deepEqual(getCounts(), [1, 1]);
  });

  it("neither fails nor delays a run or a close", async (t) => {
    const failingAgent = createAgent(t, [new PreparedProvider("a", () => Promise.reject(new Error("not installed")))]);
    await failingAgent.prepare();
    assert.equal((await (await failingAgent.run({ message: "x" })).result).output, "done");
    const pendingProvider = new PreparedProvider("a", () => new Promise(() => undefined));
    const agent = createAgent(t, [pendingProvider]);
    await agent.prepare();
    await waitUntil(() => pendingProvider.prepareCount === 1);
    assert.equal((await (await agent.run({ message: "x" })).result).output, "done");
    await agent.close();
  });
});
