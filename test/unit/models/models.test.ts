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
const nobody = () => Promise.resolve(undefined);

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

  it("keeps what is a model of a list that has other things in it, whoever wrote the provider", async (t) => {
    const odd = [null, 1, "m", { id: "x" }, { ...model("n"), ownedBy: 1n }, model("fine"), , undefined];
    const none = [undefined, null, "models", { 0: model("x") }].map((invalidList, i) =>
      provider(`none${i}`, ["k"], () => Promise.resolve(invalidList as never)),
    );
    const models = make(t, [provider("odd", [], () => Promise.resolve(odd as never)), ...none, provider("two", ["k"])]);
    assert.deepEqual(
      (await models.list()).map((entry) => `${entry.provider}/${entry.model.id}`),
      ["odd/fine", "none0/k", "none1/k", "none2/k", "none3/k", "two/k"],
    );
  });

  it("has no number of a model that none can have, of a list or of a damaged file", async (t) => {
    const { path } = await tempDir(t);
    const file = `${path}/models.json`;
    const odd = {
      ...model("odd"),
      contextWindow: "many",
      maxOutput: -1,
      efforts: ["ultra", "", 3],
      prices: { input: -5, output: "x" },
    };
    const right = { ...model("right"), contextWindow: 9, efforts: [], prices: { input: 0, output: 2, cacheRead: 1 } };
    const half = { ...model("half"), efforts: ["low", "ultra"], prices: { input: 1 } };
    await writeFile(file, JSON.stringify({ version: 1, models: { p: [odd, right, half] } }));
    const clean = [model("odd"), right, { ...model("half"), efforts: ["low"] }];
    assert.deepEqual(await new FileCatalogueCache(file, silentLogger).load(), { p: clean });
    const models = make(t, [provider("p", [], () => Promise.resolve([odd, right, half] as never))]);
    assert.deepEqual(
      (await models.list()).map((entry) => entry.model),
      clean,
    );
  });

  /** A provider without a list yet, which is assumed to have two models. */
  function withMemory(name: string, list: ScriptedProviderOptions["list"]): ScriptedProvider {
    return Object.assign(provider(name, [], list), { fallbackModels: async () => [model("a1"), model("a2")] });
  }
  const failing = (kind: "permission" | "authentication" | "network") => () =>
    Promise.reject(new ProviderError("p", kind, "no", kind === "network" ? { unreachable: true } : {}));

  it("is what a provider is known to have had where its list is refused, marked so, until the first list", async (t) => {
    let answer: () => Promise<Model[]> = failing("permission");
    const saved: Record<string, readonly Model[]>[] = [];
    const cache = { ...noCache, save: async (models: Record<string, readonly Model[]>) => void saved.push(models) };
    const models = make(t, [withMemory("one", () => answer())], { cache });
    const listedIds = async () => (await models.list()).map(({ model: { id, isAssumed: assumed } }) => [id, assumed]);
    assert.deepEqual(await listedIds(), [
      ["a1", true],
      ["a2", true],
    ]);
    assert.equal(names(await models.resolve(NO_MODEL, NO_MODEL, nobody, never)), "one/a1");
    assert.equal(names(await models.resolve({ provider: "one", model: "a2" }, NO_MODEL, nobody, never)), "one/a2");
    assert.equal(names(await models.resolve({ provider: "one", model: "" }, NO_MODEL, nobody, never)), "one/a1");
    assert.deepEqual(saved, [], "it is no list to keep");
    answer = () => Promise.resolve([model("l")]);
    // A failed list is requested again after a second.
    await until(async () => (await listedIds()).length === 1);
    assert.deepEqual(await listedIds(), [["l", undefined]]);
    assert.deepEqual(saved.at(-1), { one: [model("l")] });
    answer = failing("permission");
    assert.deepEqual(await listedIds(), [["l", undefined]], "what was once listed is known");
  });

  it("is none where the key is wrong; where nobody is there it can be named, and is not chosen for anybody", async (t) => {
    assert.deepEqual(await make(t, [withMemory("one", failing("authentication"))]).list(), []);
    const away = make(t, [withMemory("one", failing("network"))]);
    assert.equal((await away.list()).length, 2);
    assert.equal(names(await away.resolve({ provider: "one", model: "a2" }, NO_MODEL, nobody, never)), "one/a2");
    await assert.rejects(away.resolve(NO_MODEL, NO_MODEL, nobody, never), { code: "model_selection" });
    const second = make(t, [withMemory("one", failing("permission")), provider("two", ["k"])]);
    await second.list();
    assert.equal(
      names(await second.resolve(NO_MODEL, NO_MODEL, nobody, never)),
      "two/k",
      "one that has a model goes before it",
    );
  });

  it("asks every provider once for callers at the same time", async (t) => {
    let listCalls = 0;
    const models = make(t, [provider("one", [], () => Promise.resolve([model(String((listCalls += 1)))]))]);
    await Promise.all([models.list(), models.list(), models.list()]);
    await models.list();
    assert.equal(listCalls, 1);
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
    assert.equal(names(await later.resolve({ provider: "one", model: "a" }, NO_MODEL, nobody, never)), "one/a");
    await folder.write({ "home/models.json": "{broken" });
    const broken = make(t, [provider("one", ["z"], down)], { cache });
    assert.equal(names(await broken.resolve(NO_MODEL, NO_MODEL, nobody, never)), "one/z");
  });
});

describe("the choice of a model", () => {
  const two = () => [provider("one", ["a", "shared"]), provider("two", ["shared", "b"])];

  it("takes a pair that is known, waits for the first sync when it is not, and refuses what nobody has", async (t) => {
    const late = provider("late", [], () => Promise.resolve([model("new")]));
    const models = make(t, [...two(), late]);
    const resolve = (provider: string, id: string) => models.resolve({ provider, model: id }, NO_MODEL, nobody, never);
    assert.equal(names(await resolve("two", "b")), "two/b");
    assert.equal(names(await resolve("late", "new")), "late/new");
    await assert.rejects(resolve("one", "b"), { message: "model selection failed: one has no model b" });
    await assert.rejects(resolve("x", "b"), { message: "model selection failed: no provider x is configured" });
  });

  it("a model alone: the preferred provider that has it, else the first", async (t) => {
    const requestedModel = { provider: "", model: "shared" };
    assert.equal(names(await make(t, two()).resolve(requestedModel, NO_MODEL, nobody, never)), "one/shared");
    const preferring = make(t, two(), { preferred: { provider: "two", model: "b" } });
    assert.equal(names(await preferring.resolve(requestedModel, NO_MODEL, nobody, never)), "two/shared");
  });

  it("a provider alone: its preferred model, else its first", async (t) => {
    const requestedModel = { provider: "two", model: "" };
    assert.equal(names(await make(t, two()).resolve(requestedModel, NO_MODEL, nobody, never)), "two/shared");
    const preferring = make(t, two(), { preferred: { provider: "two", model: "b" } });
    assert.equal(names(await preferring.resolve(requestedModel, NO_MODEL, nobody, never)), "two/b");
  });

  it("neither: the session's pair, then config, then the folder's last pair, then the first", async (t) => {
    const recent = () => Promise.resolve({ provider: "two", model: "b" });
    const stored = { provider: "one", model: "shared" };
    const preferred = { provider: "two", model: "shared" };
    assert.equal(names(await make(t, two(), { preferred }).resolve(NO_MODEL, stored, recent, never)), "one/shared");
    assert.equal(names(await make(t, two(), { preferred }).resolve(NO_MODEL, NO_MODEL, recent, never)), "two/shared");
    assert.equal(names(await make(t, two()).resolve(NO_MODEL, NO_MODEL, recent, never)), "two/b");
    assert.equal(names(await make(t, two()).resolve(NO_MODEL, NO_MODEL, nobody, never)), "one/a");
  });

  it("what is known to none falls back to the preferred one, with a warning", async (t) => {
    const warned: string[] = [];
    const logger: Logger = { ...silentLogger, warn: (message) => void warned.push(message) };
    const models = make(t, two(), { logger });
    for (const requestedModel of [
      { provider: "", model: "gone" },
      { provider: "gone", model: "" },
    ]) {
      assert.equal(names(await models.resolve(requestedModel, NO_MODEL, nobody, never)), "one/a");
    }
    assert.equal(names(await models.resolve(NO_MODEL, { provider: "gone", model: "gone" }, nobody, never)), "one/a");
    assert.equal(warned.length, 3);
  });

  it("asks again while a fault may pass, times out after the limit, and says at once what will not pass", async (t) => {
    let listCalls = 0;
    const recovering = provider("r", [], () => ((listCalls += 1) < 2 ? down() : Promise.resolve([model("up")])));
    assert.equal(names(await make(t, [recovering]).resolve(NO_MODEL, NO_MODEL, nobody, never)), "r/up");
    const dead = make(t, [provider("d", [], down)], { timeoutMs: 50 });
    await assert.rejects(dead.resolve(NO_MODEL, NO_MODEL, nobody, never), { message: "timed out selecting model" });
    const hanging = make(t, [provider("h", [], () => new Promise(() => undefined))], { timeoutMs: 50 });
    await assert.rejects(hanging.resolve(NO_MODEL, NO_MODEL, nobody, never), { message: "timed out selecting model" });
    const refused = provider("k", [], () =>
      Promise.reject(new ProviderError("k", "authentication", "bad key", { status: 401 })),
    );
    await assert.rejects(make(t, [refused]).resolve(NO_MODEL, NO_MODEL, nobody, never), {
      message: "model selection failed: no model available (k: 401: bad key)",
    });
    await assert.rejects(make(t, []).resolve(NO_MODEL, NO_MODEL, nobody, never), {
      message: "model selection failed: no provider has a model",
    });
  });

  it("ends with the caller's signal", async (t) => {
    const models = make(t, [provider("h", [], () => new Promise(() => undefined))]);
    const cancel = new AbortController();
    const choosing = models.resolve(NO_MODEL, NO_MODEL, nobody, cancel.signal);
    cancel.abort(new Error("mine"));
    await assert.rejects(choosing, { message: "mine" });
  });
});

describe("a catalogue that is not of one moment", () => {
  const refused = () =>
    Promise.reject(new ProviderError("late", "network", "no connection (ECONNREFUSED)", { unreachable: true }));
  const ids = (entries: readonly { model: Model }[]) => entries.map((entry) => entry.model.id);

  it("has a model as soon as somebody names it, and is asked once by all who name it", async (t) => {
    let there = ["old"];
    let listCalls = 0;
    const models = make(t, [provider("p", [], () => ((listCalls += 1), Promise.resolve(there.map(model))))]);
    const named = (id: string) => models.resolve({ provider: "p", model: id }, NO_MODEL, nobody, never);
    await assert.rejects(named("new"), { message: "model selection failed: p has no model new" });
    there = ["old", "new"];
    const before = listCalls;
    assert.deepEqual((await Promise.all([named("new"), named("new"), named("new")])).map(names), [
      "p/new",
      "p/new",
      "p/new",
    ]);
    assert.equal(listCalls, before + 1);
    there = ["old", "new", "newest"];
    assert.equal(names(await models.resolve({ provider: "", model: "newest" }, NO_MODEL, nobody, never)), "p/newest");
  });

  it("waits for a list that is under way, and asks again when that one was from before", async (t) => {
    let give: (models: Model[]) => void = () => undefined;
    let listCalls = 0;
    const slow = provider("slow", [], () => {
      listCalls += 1;
      return listCalls === 1 ? new Promise((resolve) => (give = resolve)) : Promise.resolve([model("a"), model("b")]);
    });
    const models = make(t, [slow]);
    const list = models.list();
    const named = models.resolve({ provider: "slow", model: "b" }, NO_MODEL, nobody, never);
    await until(() => listCalls > 0);
    // Waits one turn of the event loop, in which the call finds the pending list.
    await new Promise(setImmediate);
    give([model("a")]);
    assert.deepEqual([ids(await list), names(await named), listCalls], [["a"], "slow/b", 2]);
  });

  it("hears of a provider that comes up later, without a name", async (t) => {
    let up = false;
    const models = make(t, [
      provider("late", [], () => (up ? Promise.resolve([model("x")]) : refused())),
      provider("two", ["k"]),
    ]);
    assert.deepEqual(ids(await models.list()), ["k"]);
    up = true;
    await until(async () => ids(await models.list()).length === 2);
    assert.deepEqual(ids(await models.list()), ["x", "k"]);
  });

  it("looks again when it is old, in the background of a run", async (t) => {
    let there = ["a"];
    const models = make(t, [provider("p", [], () => Promise.resolve(there.map(model)))], { refreshMs: 1 });
    await models.list();
    there = ["a", "b"];
    // Time: a list expires after 1 ms (`refreshMs`).
    await pause(5);
    assert.deepEqual(ids(await models.list()), ["a", "b"]);
    there = ["c"];
    // Time: as above.
    await pause(5);
    assert.equal(names(await models.resolve(NO_MODEL, NO_MODEL, nobody, never)), "p/a");
    await until(() => ids(models.entries())[0] === "c");
  });

  it("takes a cached model at once, and asks its provider behind it", async (t) => {
    let listCalls = 0;
    const saved: Record<string, readonly Model[]>[] = [];
    const cache = {
      load: () => Promise.resolve({ p: [model("cached")] }),
      save: (models: Record<string, readonly Model[]>) => (saved.push(models), Promise.resolve()),
    };
    const models = make(t, [provider("p", [], () => ((listCalls += 1), Promise.resolve([model("fresh")])))], { cache });
    assert.equal(names(await models.resolve(NO_MODEL, NO_MODEL, nobody, never)), "p/cached");
    await until(() => saved.length > 0);
    assert.deepEqual(
      [listCalls, ids(models.entries()), saved[0]!["p"]!.map(({ id }) => id)],
      [1, ["fresh"], ["fresh"]],
    );
  });

  it("never puts another provider in the place of one that is named", async (t) => {
    const models = make(t, [provider("two", ["k"]), provider("late", [], refused)]);
    await assert.rejects(models.resolve({ provider: "late", model: "" }, NO_MODEL, nobody, never), {
      code: "model_selection",
      message:
        "model selection failed: late has no model (its list could not be fetched: late: network: no connection (ECONNREFUSED))",
    });
    const hanging = make(t, [provider("two", ["k"]), provider("h", [], () => new Promise(() => undefined))], {
      timeoutMs: 30,
    });
    await assert.rejects(hanging.resolve({ provider: "h", model: "" }, NO_MODEL, nobody, never), {
      code: "model_timeout",
    });
  });

  it("does not let a slow provider keep others from being known", async (t) => {
    const slow = provider("slow", [], () => new Promise(() => undefined));
    const models = make(t, [slow, provider("two", [], () => Promise.resolve([model("b")]))]);
    assert.equal(names(await models.resolve({ provider: "two", model: "b" }, NO_MODEL, nobody, never)), "two/b");
    assert.equal(names(await models.resolve({ provider: "two", model: "" }, NO_MODEL, nobody, never)), "two/b");
  });

  it("says at once when nobody is there, and after the limit what each said last", async (t) => {
    const nobodyThere = make(t, [provider("late", [], refused), provider("none", [], () => Promise.resolve([]))]);
    await assert.rejects(nobodyThere.resolve(NO_MODEL, NO_MODEL, nobody, never), {
      message:
        "model selection failed: no model available (late: network: no connection (ECONNREFUSED); none: no models)",
    });
    const reportedReasons: string[] = [];
    const warned: unknown[] = [];
    const logger: Logger = { ...silentLogger, warn: (message, fields) => void warned.push([message, fields]) };
    const mixed = make(
      t,
      [provider("late", [], refused), provider("p", [], down), provider("h", [], () => new Promise(() => undefined))],
      { timeoutMs: 1_300, logger },
    );
    const why = "late: network: no connection (ECONNREFUSED); p: network: connection refused; h: no answer yet";
    await assert.rejects(
      mixed.resolve(NO_MODEL, NO_MODEL, nobody, never, (reason) => reportedReasons.push(reason)),
      { message: "timed out selecting model", why },
    );
    assert.deepEqual(reportedReasons, [why]);
    // Each warning is logged once, however often the provider was asked.
    assert.equal(warned.length, 3);
  });

  it("uses what the configuration names, listed or not", async (t) => {
    const forbidden = () => Promise.reject(new ProviderError("p", "permission", "no", { status: 403 }));
    const preferred = { provider: "p", model: "mine" };
    for (const list of [forbidden, refused, down, () => Promise.resolve([model("other")])]) {
      const models = make(t, [provider("p", [], list), provider("two", ["k"])], { preferred });
      assert.equal(names(await models.resolve(NO_MODEL, NO_MODEL, nobody, never)), "p/mine");
      assert.equal(names(await models.resolve(preferred, NO_MODEL, nobody, never)), "p/mine");
      assert.equal(names(await models.resolve({ provider: "p", model: "" }, NO_MODEL, nobody, never)), "p/mine");
      assert.ok((await models.list()).some((entry) => entry.model.id === "mine"));
    }
    // With a single provider its name can be omitted.
    const single = make(t, [provider("p", [], forbidden)], { preferred: { provider: "", model: "mine" } });
    assert.equal(names(await single.resolve(NO_MODEL, NO_MODEL, nobody, never)), "p/mine");
    // The listed data of the model is used.
    const described = { ...model("mine"), contextWindow: 1000 };
    const listed = make(t, [provider("p", [], () => Promise.resolve([described]))], { preferred });
    assert.equal((await listed.resolve(NO_MODEL, NO_MODEL, nobody, never)).model.contextWindow, 1000);
  });

  it("takes what the configuration says of a model over an older cache, and what the provider says now over both", async (t) => {
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
    const { model: cached } = await models.resolve({ provider: "p", model: "m" }, NO_MODEL, nobody, never);
    assert.deepEqual([cached.contextWindow, cached.maxOutput], [10, 2]);
    assert.deepEqual((await models.list())[0]!.model, { ...model("m"), contextWindow: 10, maxOutput: 20 });
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

describe("the preparation of a model", () => {
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

  it("is that of the configured provider, else of the first one, once", async (t) => {
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

  it("fails no run, and nothing waits for it, not even a close", async (t) => {
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
