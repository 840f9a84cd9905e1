import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ChainListeners, type Notifier } from "gantry/plugin";
import { PollSchedule } from "../../../src/sessions/poll-schedule.js";
import { mockTime, waitTurns } from "../../helpers/fake-time.js";

function createNotifier(): { notifier: Notifier; sendNotification: () => void; countListeners: () => number } {
  const chainListeners = new ChainListeners();
  const notifier = { publish: () => undefined, subscribe: chainListeners.subscribe.bind(chainListeners) };
  return { notifier, sendNotification: () => chainListeners.notify("root"), countListeners: () => chainListeners.size };
}

const TEN_MINUTES_MS = 600_000;

/** Whether the promise resolves without a further timer. */
async function hasResolved(nextPoll: Promise<void>): Promise<boolean> {
  return Promise.race([nextPoll.then(() => true), waitTurns().then(() => false)]);
}

describe("PollSchedule", () => {
  it("polls once after each notification, also one during a poll, and otherwise after the maximum wait", async (t) => {
    const { advance } = mockTime(t);
    const { notifier, sendNotification } = createNotifier();
    const schedule = new PollSchedule(notifier, "root", 0);
    const firstPoll = schedule.next(TEN_MINUTES_MS);
    sendNotification();
    advance(0);
    await firstPoll;
    sendNotification();
    const secondPoll = schedule.next(TEN_MINUTES_MS);
    advance(0);
    await secondPoll;
    const idlePoll = schedule.next(TEN_MINUTES_MS);
    advance(TEN_MINUTES_MS - 1);
    assert.equal(await hasResolved(idlePoll), false, "each notification causes only one poll");
    schedule.wakeNow();
    await idlePoll;
    const latePoll = schedule.next(TEN_MINUTES_MS);
    advance(TEN_MINUTES_MS);
    await latePoll;
    schedule.end();
  });

  it("keeps the minimum interval between polls despite 100 notifications, unless wakeNow() is called", async (t) => {
    const { advance } = mockTime(t);
    const { notifier, sendNotification } = createNotifier();
    const schedule = new PollSchedule(notifier, "root", TEN_MINUTES_MS);
    const firstPoll = schedule.next(TEN_MINUTES_MS);
    sendNotification();
    advance(0);
    await firstPoll;
    const nextPoll = schedule.next(2 * TEN_MINUTES_MS);
    for (let n = 0; n < 100; n += 1) sendNotification();
    advance(TEN_MINUTES_MS - 1);
    assert.equal(await hasResolved(nextPoll), false);
    advance(1);
    await nextPoll;
    const earlyPoll = schedule.next(2 * TEN_MINUTES_MS);
    sendNotification();
    assert.equal(await hasResolved(earlyPoll), false);
    schedule.wakeNow();
    await earlyPoll;
    sendNotification();
    schedule.wakeNow();
    sendNotification();
    await schedule.next(TEN_MINUTES_MS);
    schedule.end();
  });

  it("rejects with the reason of its signal, and unsubscribes when it ends", async () => {
    const { notifier, countListeners } = createNotifier();
    const schedule = new PollSchedule(notifier, "root", 0);
    const stopController = new AbortController();
    const nextPoll = schedule.next(TEN_MINUTES_MS, stopController.signal);
    stopController.abort(new Error("gone"));
    await assert.rejects(nextPoll, { message: "gone" });
    await assert.rejects(schedule.next(TEN_MINUTES_MS, stopController.signal), { message: "gone" });
    assert.equal(countListeners(), 1);
    schedule.end();
    assert.equal(countListeners(), 0);
  });
});
