import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { it } from "node:test";
import { silentLogger, type BusEvents } from "gantry";
import type { Model, ModelChunk, ModelRequest } from "gantry/plugin";
import { finish, ScriptedProvider } from "gantry/testing";
import { Bus } from "../../../src/base/bus.js";
import { callModel, type ModelCallHooks } from "../../../src/models/model-call.js";

const model: Model = { id: "m", name: "m", ownedBy: "x" };
const request: ModelRequest = { model, system: "", messages: [], tools: [], effort: "", cacheKey: "" };

/** Calls a provider whose answer consists of these chunks. */
function ask(chunks: () => Iterable<ModelChunk>, hooks: ModelCallHooks, signal = new AbortController().signal) {
  const provider = new ScriptedProvider();
  // Only promises separate the chunks, so that no socket or timer runs in between.
  provider.stream = async function* () {
    await Promise.resolve();
    yield* chunks();
  };
  const caller = {
    id: "r",
    sessionId: "s",
    provider,
    model,
    bus: new Bus<BusEvents>(assert.ifError),
    logger: silentLogger,
    recorder: { onDisk: Promise.resolve() },
  };
  return callModel({ ...caller, hooks: {} }, "answer", request, signal, hooks);
}

const text = (content: string): ModelChunk => ({ type: "text", block: "0", text: content });

it("two model answers without pauses share the event loop with each other and with other callbacks", async () => {
  const received = { first: 0, second: 0 };
  let turns = 0;
  // Each call ends after all calls had their turns. None would end if the first call blocked the event loop.
  const shared = () => turns >= 3 && received.first > 0 && received.second > 0;
  const chunks = function* () {
    while (!shared()) yield text("word ");
    yield finish("stop");
  };
  const count = () => {
    turns += 1;
    if (!shared()) setImmediate(count);
  };
  setImmediate(count);
  const answers = await Promise.all([
    ask(chunks, { onText: () => void (received.first += 1) }),
    ask(chunks, { onText: () => void (received.second += 1) }),
  ]);
  for (const answer of answers) assert.ok(!("error" in answer));
});

it("the first text of an answer does not wait until 20 other answers end", async () => {
  let first = "";
  const endless = function* () {
    while (first === "") yield text("word ");
    yield finish("stop");
  };
  const endlessCalls = Array.from({ length: 20 }, () => ask(endless, {}));
  // By now these calls have used up their share of a turn.
  await new Promise((resolve) => setImmediate(resolve));
  await ask(() => [text("hello"), finish("stop")], { onText: (_type, _part, content) => void (first = content) });
  assert.equal(first, "hello");
  await Promise.all(endlessCalls);
});

it("a cancel ends a model answer that never pauses", async () => {
  const reason = new Error("stop");
  const abort = new AbortController();
  setImmediate(() => abort.abort(reason));
  const endless = function* () {
    for (;;) yield { type: "tool_input", text: "" } as const;
  };
  const answer = await ask(endless, {}, abort.signal);
  assert.equal("error" in answer && answer.error, reason);
});

it("callModel leaves no listener on the run's signal after success or failure", async () => {
  const { signal } = new AbortController();
  const broken = function* () {
    yield text("half");
    throw new Error("gone");
  };
  await ask(() => [text("hello"), finish("stop")], {}, signal);
  assert.equal(getEventListeners(signal, "abort").length, 0);
  assert.ok("error" in (await ask(broken, { onRetry: () => assert.fail() }, signal)));
  assert.equal(getEventListeners(signal, "abort").length, 0);
});

it("callModel aborts the provider's signal once, with the reason of the cancel", async () => {
  const provider = new ScriptedProvider();
  const received: unknown[] = [];
  const abort = new AbortController();
  provider.stream = async function* (_request, signal) {
    signal.addEventListener("abort", () => received.push(signal.reason));
    yield text("half");
    abort.abort("enough");
    await new Promise(() => undefined);
  };
  const names = { id: "r", sessionId: "s", provider, model };
  const caller = { ...names, bus: new Bus<BusEvents>(assert.ifError), recorder: { onDisk: Promise.resolve() } };
  const answer = await callModel({ ...caller, logger: silentLogger, hooks: {} }, "answer", request, abort.signal);
  assert.equal("error" in answer && answer.error, "enough");
  assert.deepEqual(received, ["enough"]);
});
