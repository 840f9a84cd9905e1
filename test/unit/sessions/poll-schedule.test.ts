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

describe("whoever waits for what others do", () => {
  it("looks after a hint, also after one that came while they looked, and without one in time", async (t) => {
    const { pass } = fakeTime(t);
    const { notifier, hint } = hinted();
    const looks = new PollSchedule(notifier, "root", 0);
    const next = looks.next(LONG_MS);
    hint();
    pass(0);
    await next;
    hint();
    const again = looks.next(LONG_MS);
    pass(0);
    await again;
    const idle = looks.next(LONG_MS);
    pass(LONG_MS - 1);
    assert.equal(await isDue(idle), false, "each hint is one look");
    looks.now();
    await idle;
    const late = looks.next(LONG_MS);
    pass(LONG_MS);
    await late;
    looks.end();
  });

  it("waits a while between two looks, however many hints come, and not for news of its own", async (t) => {
    const { pass } = fakeTime(t);
    const { notifier, hint } = hinted();
    const looks = new PollSchedule(notifier, "root", LONG_MS);
    const first = looks.next(LONG_MS);
    hint();
    pass(0);
    await first;
    const next = looks.next(2 * LONG_MS);
    for (let n = 0; n < 100; n += 1) hint();
    pass(LONG_MS - 1);
    assert.equal(await isDue(next), false);
    pass(1);
    await next;
    const early = looks.next(2 * LONG_MS);
    hint();
    assert.equal(await isDue(early), false);
    looks.now();
    await early;
    hint();
    looks.now();
    hint();
    await looks.next(LONG_MS);
    looks.end();
  });

  it("ends with its signal, and leaves nothing that listens", async () => {
    const { notifier, listeners } = hinted();
    const looks = new PollSchedule(notifier, "root", 0);
    const gone = new AbortController();
    const next = looks.next(LONG_MS, gone.signal);
    gone.abort(new Error("gone"));
    await assert.rejects(next, { message: "gone" });
    await assert.rejects(looks.next(LONG_MS, gone.signal), { message: "gone" });
    assert.equal(listeners(), 1);
    looks.end();
    assert.equal(listeners(), 0);
  });
});
