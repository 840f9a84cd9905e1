import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ChainListeners, type Notifier } from "gantry/plugin";
import { PollSchedule } from "../../../src/sessions/poll-schedule.js";
import { fakeTime, turns } from "../../helpers/fake-time.js";

function hinted(): { notifier: Notifier; hint: () => void; listeners: () => number } {
  const hints = new ChainListeners();
  const notifier = { publish: () => undefined, subscribe: hints.subscribe.bind(hints) };
  return { notifier, hint: () => hints.notify("root"), listeners: () => hints.size };
}

const LONG_MS = 600_000;

/** Whether the promise has already resolved. */
async function isDue(next: Promise<void>): Promise<boolean> {
  return Promise.race([next.then(() => true), turns().then(() => false)]);
}

describe("PollSchedule", () => {
  it("polls once after each notification, also one during a poll, and otherwise after the maximum wait", async (t) => {
    const { pass } = fakeTime(t);
    const { notifier, hint } = hinted();
    const schedule = new PollSchedule(notifier, "root", 0);
    const next = schedule.next(LONG_MS);
    hint();
    pass(0);
    await next;
    hint();
    const again = schedule.next(LONG_MS);
    pass(0);
    await again;
    const idle = schedule.next(LONG_MS);
    pass(LONG_MS - 1);
    assert.equal(await isDue(idle), false, "each hint is one look");
    schedule.now();
    await idle;
    const late = schedule.next(LONG_MS);
    pass(LONG_MS);
    await late;
    schedule.end();
  });

  it("keeps the minimum interval between polls despite 100 notifications, unless now() is called", async (t) => {
    const { pass } = fakeTime(t);
    const { notifier, hint } = hinted();
    const schedule = new PollSchedule(notifier, "root", LONG_MS);
    const first = schedule.next(LONG_MS);
    hint();
    pass(0);
    await first;
    const next = schedule.next(2 * LONG_MS);
    for (let n = 0; n < 100; n += 1) hint();
    pass(LONG_MS - 1);
    assert.equal(await isDue(next), false);
    pass(1);
    await next;
    const early = schedule.next(2 * LONG_MS);
    hint();
    assert.equal(await isDue(early), false);
    schedule.now();
    await early;
    hint();
    schedule.now();
    hint();
    await schedule.next(LONG_MS);
    schedule.end();
  });

  it("rejects with the reason of its signal, and unsubscribes when it ends", async () => {
    const { notifier, listeners } = hinted();
    const schedule = new PollSchedule(notifier, "root", 0);
    const abort = new AbortController();
    const next = schedule.next(LONG_MS, abort.signal);
    abort.abort(new Error("gone"));
    await assert.rejects(next, { message: "gone" });
    await assert.rejects(schedule.next(LONG_MS, abort.signal), { message: "gone" });
    assert.equal(listeners(), 1);
    schedule.end();
    assert.equal(listeners(), 0);
  });
});
