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

const LONG_MS = 600_000;

/** Whether the promise has already resolved. */
async function isDue(nextPoll: Promise<void>): Promise<boolean> {
  return Promise.race([nextPoll.then(() => true), waitTurns().then(() => false)]);
}

describe("PollSchedule", () => {
  it("polls once after each notification, also one during a poll, and otherwise after the maximum wait", async (t) => {
    const { advance } = mockTime(t);
    const { notifier, sendNotification } = createNotifier();
    const schedule = new PollSchedule(notifier, "root", 0);
    const firstPoll = schedule.next(LONG_MS);
    sendNotification();
    advance(0);
    await firstPoll;
    sendNotification();
    const secondPoll = schedule.next(LONG_MS);
    advance(0);
    await secondPoll;
    const idlePoll = schedule.next(LONG_MS);
    advance(LONG_MS - 1);
    assert.equal(await isDue(idlePoll), false, "each notification causes only one poll");
    schedule.wakeNow();
    await idlePoll;
    const latePoll = schedule.next(LONG_MS);
    advance(LONG_MS);
    await latePoll;
    schedule.end();
  });

  it("keeps the minimum interval between polls despite 100 notifications, unless now() is called", async (t) => {
    const { advance } = mockTime(t);
    const { notifier, sendNotification } = createNotifier();
    const schedule = new PollSchedule(notifier, "root", LONG_MS);
    const firstPoll = schedule.next(LONG_MS);
    sendNotification();
    advance(0);
    await firstPoll;
    const nextPoll = schedule.next(2 * LONG_MS);
    for (let n = 0; n < 100; n += 1) sendNotification();
    advance(LONG_MS - 1);
    assert.equal(await isDue(nextPoll), false);
    advance(1);
    await nextPoll;
    const earlyPoll = schedule.next(2 * LONG_MS);
    sendNotification();
    assert.equal(await isDue(earlyPoll), false);
    schedule.wakeNow();
    await earlyPoll;
    sendNotification();
    schedule.wakeNow();
    sendNotification();
    await schedule.next(LONG_MS);
    schedule.end();
  });

  it("rejects with the reason of its signal, and unsubscribes when it ends", async () => {
    const { notifier, countListeners } = createNotifier();
    const schedule = new PollSchedule(notifier, "root", 0);
    const stopController = new AbortController();
    const nextPoll = schedule.next(LONG_MS, stopController.signal);
    stopController.abort(new Error("gone"));
    await assert.rejects(nextPoll, { message: "gone" });
    await assert.rejects(schedule.next(LONG_MS, stopController.signal), { message: "gone" });
    assert.equal(countListeners(), 1);
    schedule.end();
    assert.equal(countListeners(), 0);
  });
});
