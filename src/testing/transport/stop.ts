import assert from "node:assert/strict";
import { gate, expectNothingOpened, pause } from "../check.js";
import { text, type TransportRules } from "./harness.js";

export const stopRules: TransportRules = {
  "stop: lets running work finish until the signal aborts": async (stage) => {
    const { opened, open } = gate();
    stage.provider.push([text("begun "), opened, text("done")]);
    const listening = await stage.start();
    const client = await stage.connect(listening);
    const { answer } = await stage.beginPrompt(client);
    let down = false;
    const stopped = listening.stop(new AbortController().signal).then(() => (down = true));
    await pause(50);
    assert.equal(down, false, "stop waits for active work");
    assert.equal(stage.provider.active, 1, "active work continues");
    open();
    assert.equal((await stage.soon(answer, "the answer")).text, "begun done");
    await client.close();
    await stage.soon(stopped, "stop");
    assert.deepEqual(stage.ended, ["finished"]);
  },
  "stop: rejects new work while it waits for active work": async (stage) => {
    const { opened, open } = gate();
    stage.provider.push([text("begun "), opened, text("done")]);
    const listening = await stage.start();
    const client = await stage.connect(listening);
    const idle = await stage.connect(listening);
    const { answer } = await stage.beginPrompt(client);
    const stopped = listening.stop(new AbortController().signal);
    await stage.expectNotServed(
      () => Promise.resolve(idle),
      "a prompt of a client that was connected when stop was called",
    );
    await stage.expectNotServed(
      () => stage.fixture.connect(listening),
      "a prompt of a client that came after stop was called",
    );
    open();
    await stage.soon(answer, "the answer");
    await client.close();
    await stage.soon(stopped, "stop");
  },
  "stop: cancels active work when the signal aborts, and the client's prompt settles": async (stage) => {
    const { opened } = gate();
    stage.provider.push([text("begun "), opened]);
    const listening = await stage.start();
    const { answer } = await stage.beginPrompt(await stage.connect(listening));
    const out = new AbortController();
    const stopped = listening.stop(out.signal);
    out.abort();
    await stage.soon(stopped, "stop after the signal aborted");
    await stage.until(() => stage.ended.length > 0, "the end of the run");
    assert.deepEqual(stage.ended, ["failed"], "cancelled");
    await stage.soon(
      answer.catch(() => undefined),
      "the cancelled prompt",
    );
  },
  "stop: cancels active work at once if the signal has already aborted": async (stage) => {
    const { opened } = gate();
    stage.provider.push([text("begun "), opened]);
    const listening = await stage.start();
    await stage.beginPrompt(await stage.connect(listening));
    await stage.soon(listening.stop(AbortSignal.abort()), "stop");
    await stage.until(() => stage.ended.length > 0, "the end of the run");
  },
  "stop: safe to call again, concurrently and afterwards": async (stage) => {
    const listening = await stage.start();
    const { signal } = new AbortController();
    await stage.soon(Promise.all([listening.stop(signal), listening.stop(signal)]), "two stops at once");
    await stage.soon(listening.stop(AbortSignal.abort()), "a stop of what is stopped");
  },
  "ended: resolves when the transport stops serving, not before": async (stage) => {
    const listening = await stage.start();
    let ended = false;
    const end = listening.ended.then(() => (ended = true));
    stage.provider.push("Hello.");
    const client = await stage.connect(listening);
    await stage.soon(client.prompt("Hi"), "an answer");
    assert.equal(ended, false, "ended while it serves");
    await client.close();
    await stage.soon(listening.stop(AbortSignal.abort()), "stop");
    await stage.soon(end, "ended after stop");
  },
  "stop: afterwards nothing is open and no client is served": async (stage) => {
    stage.provider.push("Hello.");
    const listening = await stage.start();
    const client = await stage.connect(listening);
    await stage.soon(client.prompt("Hi"), "an answer");
    await stage.soon(client.close(), "leaving");
    await stage.soon(listening.stop(new AbortController().signal), "stop");
    await stage.expectNotServed(() => stage.fixture.connect(listening), "a prompt after stop");
    await stage.agent.close();
    await expectNothingOpened(stage.before, stage.timeoutMs);
  },
  "stop: settles while an idle client is connected": async (stage) => {
    stage.provider.push("Hello.");
    const listening = await stage.start();
    const client = await stage.connect(listening);
    await stage.soon(client.prompt("Hi"), "an answer");
    await stage.soon(listening.stop(new AbortController().signal), "stop");
  },
  "stop: does not close the agent": async (stage) => {
    const listening = await stage.start();
    await stage.soon(listening.stop(AbortSignal.abort()), "stop");
    const run = await stage.agent.run({ message: "still here?" });
    assert.equal((await stage.soon(run.result, "a run without the transport")).output, "ok");
  },
};
