import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { it } from "node:test";
import { abortable, deadline, delay, onAbort, settlesWithin, takeEach } from "../../../src/base/abort.js";
import { TaskSet } from "../../../src/base/task-set.js";

const never = new Promise<never>(() => undefined);

it("onAbort acts once, now where the signal has aborted, and not after it was told to stop", () => {
  const abort = new AbortController();
  const acts: string[] = [];
  const forget = onAbort(abort.signal, () => acts.push("forgotten"));
  onAbort(abort.signal, () => acts.push("heard"));
  forget();
  abort.abort();
  abort.abort();
  onAbort(abort.signal, () => acts.push("late"));
  assert.deepEqual(acts, ["heard", "late"]);
});

it("abortable takes what comes first, and lets no rejection go unheard", async () => {
  const reason = new Error("stop");
  const abort = new AbortController();
  assert.equal(await abortable(Promise.resolve(5), abort.signal), 5);
  await assert.rejects(abortable(Promise.reject(new Error("own")), abort.signal), /own/);
  const waiting = abortable(never, abort.signal);
  abort.abort(reason);
  await assert.rejects(waiting, reason);
  await assert.rejects(abortable(Promise.reject(new Error("own")), abort.signal), reason);
});

it("delay ends with its time or its signal", async () => {
  await delay(1, new AbortController().signal);
  const reason = new Error("stop");
  await assert.rejects(delay(60_000, AbortSignal.abort(reason)), reason);
});

it("settlesWithin tells whether work settled, well or not, in its time", async () => {
  assert.equal(await settlesWithin(Promise.resolve(), 60_000), true);
  assert.equal(await settlesWithin(Promise.reject(new Error("x")), 60_000), true);
  assert.equal(await settlesWithin(never, 1), false);
});

it("deadline tells its own end from that of others", async () => {
  const outerController = new AbortController();
  const late = deadline(1, outerController.signal);
  await new Promise<void>((resolve) => void onAbort(late.signal, resolve));
  assert.ok(late.expired);
  const early = deadline(60_000, outerController.signal);
  outerController.abort(new Error("stop"));
  assert.ok(early.signal.aborted && !early.expired);
  early.clear();
});

it("a task set waits for what is added meanwhile, and no longer than it may", async () => {
  const tasks = new TaskSet();
  let ended = false;
  void tasks.add(
    delay(1, new AbortController().signal).then(() => {
      void tasks.add(delay(1, new AbortController().signal).then(() => (ended = true)));
    }),
  );
  await tasks.settled();
  assert.ok(ended);
  void tasks.add(never);
  await tasks.settled(1);
});

/** A signal that counts its listeners. */
function counted(): { signal: AbortSignal; listening: () => number; added: () => number; abort(reason: Error): void } {
  const controller = new AbortController();
  const { signal } = controller;
  let added = 0;
  const listen = signal.addEventListener.bind(signal) as AbortSignal["addEventListener"];
  signal.addEventListener = ((...args: Parameters<typeof listen>) => {
    added += 1;
    listen(...args);
  }) as typeof listen;
  return {
    signal,
    added: () => added,
    listening: () => getEventListeners(signal, "abort").length,
    abort: (reason) => controller.abort(reason),
  };
}

async function* upTo(count: number, last?: Promise<never>): AsyncGenerator<number, void, undefined> {
  for (let n = 0; n < count; n += 1) yield n;
  if (last) await last;
}

it("takeEach hands over every value with one listener for all, and leaves none behind", async () => {
  const { signal, added, listening } = counted();
  const taken: number[] = [];
  await takeEach(upTo(1000), signal, (n) => {
    taken.push(n);
    assert.equal(listening(), 1);
    return undefined;
  });
  assert.equal(taken.length, 1000);
  assert.deepEqual([added(), listening()], [1, 0]);
});

it("takeEach asks for the next value when what it handed over is done", async () => {
  let requestCount = 0;
  const values: AsyncIterator<number> = {
    next: () =>
      Promise.resolve(
        (requestCount += 1) > 2 ? { value: undefined, done: true } : { value: requestCount, done: false },
      ),
  };
  let done: () => void = () => undefined;
  const all = takeEach(values, new AbortController().signal, () => new Promise<void>((resolve) => (done = resolve)));
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(requestCount, 1);
  done();
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(requestCount, 2);
  done();
  await all;
});

it("takeEach rejects as the iterator, as the taker and as what the taker waits for", async () => {
  const { signal, listening } = counted();
  const iteratorFailure = Promise.reject(new Error("iterator"));
  await assert.rejects(
    takeEach(upTo(1, iteratorFailure), signal, () => undefined),
    /iterator/,
  );
  await assert.rejects(
    takeEach(upTo(1), signal, () => {
      throw new Error("taker");
    }),
    /taker/,
  );
  await assert.rejects(
    takeEach(upTo(1), signal, () => Promise.reject(new Error("waited for"))),
    /waited for/,
  );
  assert.equal(listening(), 0);
});

it("takeEach ends at once when its signal aborts: before, in the middle, and while a value is waited for", async () => {
  const reason = new Error("stop");
  let requestCount = 0;
  const values: AsyncIterator<number> = {
    next: () => Promise.resolve({ value: (requestCount += 1), done: false as const }),
  };
  await assert.rejects(
    takeEach(values, AbortSignal.abort(reason), () => undefined),
    reason,
  );
  assert.equal(requestCount, 0);
  const taken: number[] = [];
  const middle = counted();
  await assert.rejects(
    takeEach(values, middle.signal, (n) => {
      taken.push(n);
      if (n === 3) middle.abort(reason);
      return undefined;
    }),
    reason,
  );
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([taken, requestCount, middle.listening()], [[1, 2, 3], 3, 0]);
  const waiting = counted();
  const silent = takeEach(upTo(1, never), waiting.signal, (n) => void taken.push(n));
  await new Promise((resolve) => setImmediate(resolve));
  waiting.abort(reason);
  await assert.rejects(silent, reason);
  assert.equal(waiting.listening(), 0);
});

it("takeEach hands nothing over that comes after an abort", async () => {
  const reason = new Error("stop");
  const abort = new AbortController();
  let come: (value: IteratorResult<number>) => void = () => undefined;
  const late: AsyncIterator<number> = { next: () => new Promise((resolve) => (come = resolve)) };
  const taken: number[] = [];
  const all = takeEach(late, abort.signal, (n) => void taken.push(n));
  abort.abort(reason);
  await assert.rejects(all, reason);
  come({ value: 1, done: false });
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(taken, []);
});
