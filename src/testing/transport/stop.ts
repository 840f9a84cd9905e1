import assert from "node:assert/strict";
import { createGate, expectNothingOpened, pause } from "../check.js";
import { OBSERVATION_MS, createTextChunk, type TransportRules } from "./harness.js";

export const stopRules: TransportRules = {
  "stop: lets running work finish until the signal aborts": async (harness) => {
    const { whenOpen, open } = createGate();
    harness.provider.push([createTextChunk("begun "), whenOpen, createTextChunk("done")]);
    const listening = await harness.start();
    const client = await harness.connect(listening);
    const { answer } = await harness.beginPrompt(client);
    let isStopped = false;
    const stopPromise = listening.stop(new AbortController().signal).then(() => (isStopped = true));
    await pause(OBSERVATION_MS);
    assert.equal(isStopped, false, "stop waits for active work");
    assert.equal(harness.provider.active, 1, "active work continues");
    open();
    assert.equal((await harness.withTimeLimit(answer, "the answer")).text, "begun done");
    await client.close();
    await harness.withTimeLimit(stopPromise, "stop");
    assert.deepEqual(harness.runOutcomes, ["finished"]);
  },
  "stop: rejects new work while it waits for active work": async (harness) => {
    const { whenOpen, open } = createGate();
    harness.provider.push([createTextChunk("begun "), whenOpen, createTextChunk("done")]);
    const listening = await harness.start();
    const client = await harness.connect(listening);
    const idleClient = await harness.connect(listening);
    const { answer } = await harness.beginPrompt(client);
    const stopPromise = listening.stop(new AbortController().signal);
    await harness.expectNotServed(
      () => Promise.resolve(idleClient),
      "a prompt of a client that was connected when stop was called",
    );
    await harness.expectNotServed(
      () => harness.fixture.connect(listening),
      "a prompt of a client that came after stop was called",
    );
    open();
    await harness.withTimeLimit(answer, "the answer");
    await client.close();
    await harness.withTimeLimit(stopPromise, "stop");
  },
  "stop: cancels active work when the signal aborts, and the client's prompt settles": async (harness) => {
    const { whenOpen } = createGate();
    harness.provider.push([createTextChunk("begun "), whenOpen]);
    const listening = await harness.start();
    const { answer } = await harness.beginPrompt(await harness.connect(listening));
    const abortController = new AbortController();
    const stopPromise = listening.stop(abortController.signal);
    abortController.abort();
    await harness.withTimeLimit(stopPromise, "stop after the signal aborted");
    await harness.waitUntil(() => harness.runOutcomes.length > 0, "the end of the run");
    assert.deepEqual(harness.runOutcomes, ["failed"], "cancelled");
    await harness.withTimeLimit(
      answer.catch(() => undefined),
      "the cancelled prompt",
    );
  },
  "stop: cancels active work at once if the signal has already aborted": async (harness) => {
    const { whenOpen } = createGate();
    harness.provider.push([createTextChunk("begun "), whenOpen]);
    const listening = await harness.start();
    await harness.beginPrompt(await harness.connect(listening));
    await harness.withTimeLimit(listening.stop(AbortSignal.abort()), "stop");
    await harness.waitUntil(() => harness.runOutcomes.length > 0, "the end of the run");
  },
  "stop: safe to call again, concurrently and afterwards": async (harness) => {
    const listening = await harness.start();
    const { signal } = new AbortController();
    await harness.withTimeLimit(Promise.all([listening.stop(signal), listening.stop(signal)]), "two concurrent stops");
    await harness.withTimeLimit(listening.stop(AbortSignal.abort()), "a stop after the stop");
  },
  "ended: resolves when the transport stops serving, not before": async (harness) => {
    const listening = await harness.start();
    let hasEnded = false;
    const endPromise = listening.ended.then(() => (hasEnded = true));
    harness.provider.push("Hello.");
    const client = await harness.connect(listening);
    await harness.withTimeLimit(client.prompt("Hi"), "an answer");
    assert.equal(hasEnded, false, "`ended` is pending while it serves");
    await client.close();
    await harness.withTimeLimit(listening.stop(AbortSignal.abort()), "stop");
    await harness.withTimeLimit(endPromise, "`ended` after stop");
  },
  "stop: afterwards nothing is open and no client is served": async (harness) => {
    harness.provider.push("Hello.");
    const listening = await harness.start();
    const client = await harness.connect(listening);
    await harness.withTimeLimit(client.prompt("Hi"), "an answer");
    await harness.withTimeLimit(client.close(), "disconnect");
    await harness.withTimeLimit(listening.stop(new AbortController().signal), "stop");
    await harness.expectNotServed(() => harness.fixture.connect(listening), "a prompt after stop");
    await harness.agent.close();
    await expectNothingOpened(harness.resourcesBefore, harness.timeoutMs);
  },
  "stop: settles while an idle client is connected": async (harness) => {
    harness.provider.push("Hello.");
    const listening = await harness.start();
    const client = await harness.connect(listening);
    await harness.withTimeLimit(client.prompt("Hi"), "an answer");
    await harness.withTimeLimit(listening.stop(new AbortController().signal), "stop");
  },
  "stop: does not close the agent": async (harness) => {
    const listening = await harness.start();
    await harness.withTimeLimit(listening.stop(AbortSignal.abort()), "stop");
    const run = await harness.agent.run({ message: "still here?" });
    assert.equal((await harness.withTimeLimit(run.result, "a run without the transport")).output, "ok");
  },
};
