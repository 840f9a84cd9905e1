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

/** Calls a provider whose answer consists of the given chunks. */
function callProvider(
  chunks: () => Iterable<ModelChunk>,
  hooks: ModelCallHooks,
  signal = new AbortController().signal,
) {
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

const createTextChunk = (content: string): ModelChunk => ({ type: "text", block: "0", text: content });

it("two model answers without pauses share the event loop with each other and with other callbacks", async () => {
  const textCounts = { first: 0, second: 0 };
  let turnCount = 0;
  // Each call ends after all calls had their turns. No call would end if the first call blocked the event loop.
  const hasSharedTurns = () => turnCount >= 3 && textCounts.first > 0 && textCounts.second > 0;
  const chunks = function* () {
    while (!hasSharedTurns()) yield createTextChunk("word ");
    yield finish("stop");
  };
  const countTurn = () => {
    turnCount += 1;
    if (!hasSharedTurns()) setImmediate(countTurn);
  };
  setImmediate(countTurn);
  const answers = await Promise.all([
    callProvider(chunks, { onText: () => void (textCounts.first += 1) }),
    callProvider(chunks, { onText: () => void (textCounts.second += 1) }),
  ]);
  for (const answer of answers) assert.ok(!("error" in answer));
});

it("the first text of an answer does not wait until 20 other answers end", async () => {
  let firstText = "";
  const streamUntilFirstText = function* () {
    while (firstText === "") yield createTextChunk("word ");
    yield finish("stop");
  };
  const endlessCalls = Array.from({ length: 20 }, () => callProvider(streamUntilFirstText, {}));
  // After one turn of the event loop, these calls have used their share of the turn.
  await new Promise((resolve) => setImmediate(resolve));
  await callProvider(() => [createTextChunk("hello"), finish("stop")], {
    onText: (_type, _part, content) => void (firstText = content),
  });
  assert.equal(firstText, "hello");
  await Promise.all(endlessCalls);
});

it("a cancel ends a model answer that never pauses", async () => {
  const reason = new Error("stop");
  const controller = new AbortController();
  setImmediate(() => controller.abort(reason));
  const streamEndlessly = function* () {
    for (;;) yield { type: "tool_input", text: "" } as const;
  };
  const answer = await callProvider(streamEndlessly, {}, controller.signal);
  assert.equal("error" in answer && answer.error, reason);
});

it("callModel leaves no listener on the run's signal after success or failure", async () => {
  const { signal } = new AbortController();
  const failAfterText = function* () {
    yield createTextChunk("half");
    throw new Error("gone");
  };
  await callProvider(() => [createTextChunk("hello"), finish("stop")], {}, signal);
  assert.equal(getEventListeners(signal, "abort").length, 0);
  assert.ok("error" in (await callProvider(failAfterText, { onRetry: () => assert.fail() }, signal)));
  assert.equal(getEventListeners(signal, "abort").length, 0);
});

it("callModel aborts the provider's signal once, with the reason of the cancel", async () => {
  const provider = new ScriptedProvider();
  const abortReasons: unknown[] = [];
  const controller = new AbortController();
  provider.stream = async function* (_request, signal) {
    signal.addEventListener("abort", () => abortReasons.push(signal.reason));
    yield createTextChunk("half");
    controller.abort("enough");
    await new Promise(() => undefined);
  };
  const identity = { id: "r", sessionId: "s", provider, model };
  const caller = { ...identity, bus: new Bus<BusEvents>(assert.ifError), recorder: { onDisk: Promise.resolve() } };
  const answer = await callModel({ ...caller, logger: silentLogger, hooks: {} }, "answer", request, controller.signal);
  assert.equal("error" in answer && answer.error, "enough");
  assert.deepEqual(abortReasons, ["enough"]);
});
