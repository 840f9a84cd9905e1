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

const LONG = 600_000;

/** Whether it has resolved by now. */
async function isDue(next: Promise<void>): Promise<boolean> {
  return Promise.race([next.then(() => true), turns().then(() => false)]);
}

describe("whoever waits for what others do", () => {
  it("looks after a hint, also after one that came while they looked, and without one in time", async (t) => {
    const { pass } = fakeTime(t);
    const { notifier, hint } = hinted();
    const looks = new PollSchedule(notifier, "root", 0);
    const next = looks.next(LONG);
    hint();
    pass(0);
    await next;
    hint();
    const again = looks.next(LONG);
    pass(0);
    await again;
    const idle = looks.next(LONG);
    pass(LONG - 1);
    assert.equal(await isDue(idle), false, "each hint is one look");
    looks.now();
    await idle;
    const late = looks.next(LONG);
    pass(LONG);
    await late;
    looks.end();
  });

  it("waits a while between two looks, however many hints come, and not for news of its own", async (t) => {
    const { pass } = fakeTime(t);
    const { notifier, hint } = hinted();
    const looks = new PollSchedule(notifier, "root", LONG);
    const first = looks.next(LONG);
    hint();
    pass(0);
    await first;
    const next = looks.next(2 * LONG);
    for (let n = 0; n < 100; n += 1) hint();
    pass(LONG - 1);
    assert.equal(await isDue(next), false);
    pass(1);
    await next;
    const early = looks.next(2 * LONG);
    hint();
    assert.equal(await isDue(early), false);
    looks.now();
    await early;
    hint();
    looks.now();
    hint();
    await looks.next(LONG);
    looks.end();
  });

  it("ends with its signal, and leaves nothing that listens", async () => {
    const { notifier, listeners } = hinted();
    const looks = new PollSchedule(notifier, "root", 0);
    const gone = new AbortController();
    const next = looks.next(LONG, gone.signal);
    gone.abort(new Error("gone"));
    await assert.rejects(next, { message: "gone" });
    await assert.rejects(looks.next(LONG, gone.signal), { message: "gone" });
    assert.equal(listeners(), 1);
    looks.end();
    assert.equal(listeners(), 0);
  });
});
