import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Hints, type Notifier } from "gantry";
import { Looks } from "../../../src/sessions/looks.js";

function hinted(): { notifier: Notifier; hint: () => void; listeners: () => number } {
  const hints = new Hints();
  const notifier = { publish: () => undefined, subscribe: hints.subscribe.bind(hints) };
  return { notifier, hint: () => hints.tell("root"), listeners: () => hints.size };
}

const LONG = 600_000;

/** Whether it resolves by what has happened, and not by time. */
async function isDue(next: Promise<void>): Promise<boolean> {
  return Promise.race([next.then(() => true), sleep(50).then(() => false)]);
}

describe("whoever waits for what others do", { concurrency: true }, () => {
  it("looks after a hint, also after one that came while they looked, and without one in time", async () => {
    const { notifier, hint } = hinted();
    const looks = new Looks(notifier, "root", 0);
    const next = looks.next(LONG);
    hint();
    await next;
    hint();
    await looks.next(LONG);
    const idle = looks.next(LONG);
    assert.equal(await isDue(idle), false, "each hint is one look");
    looks.now();
    await idle;
    await looks.next(1);
    looks.end();
  });

  it("waits a while between two looks, however many hints come, and not for news of its own", async () => {
    const { notifier, hint } = hinted();
    const looks = new Looks(notifier, "root", LONG);
    const first = looks.next(LONG);
    hint();
    await first;
    const next = looks.next(LONG);
    for (let n = 0; n < 100; n += 1) hint();
    assert.equal(await isDue(next), false);
    looks.now();
    await next;
    hint();
    looks.now();
    hint();
    await looks.next(LONG);
    looks.end();
  });

  it("ends with its signal, and leaves nothing that listens", async () => {
    const { notifier, listeners } = hinted();
    const looks = new Looks(notifier, "root", 0);
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
