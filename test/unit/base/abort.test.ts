import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { it } from "node:test";
import { abortable, createDeadline, delay, onAbort, settlesWithin, takeEach } from "../../../src/base/abort.js";
import { TaskSet } from "../../../src/base/task-set.js";

const neverPromise = new Promise<never>(() => undefined);

it("onAbort calls its function once, at once if the signal has aborted, and never after its removal", () => {
  const controller = new AbortController();
  const calls: string[] = [];
  const removeListener = onAbort(controller.signal, () => calls.push("removed"));
  onAbort(controller.signal, () => calls.push("called"));
  removeListener();
  controller.abort();
  controller.abort();
  onAbort(controller.signal, () => calls.push("late"));
  assert.deepEqual(calls, ["called", "late"]);
});

it("abortable settles like the promise, or rejects with the abort reason if the abort comes first", async () => {
  const reason = new Error("stop");
  const controller = new AbortController();
  assert.equal(await abortable(Promise.resolve(5), controller.signal), 5);
  await assert.rejects(abortable(Promise.reject(new Error("own")), controller.signal), /own/);
  const pendingPromise = abortable(neverPromise, controller.signal);
  controller.abort(reason);
  await assert.rejects(pendingPromise, reason);
  await assert.rejects(abortable(Promise.reject(new Error("own")), controller.signal), reason);
});

it("delay resolves after its time, or rejects with the reason of its signal", async () => {
  await delay(1, new AbortController().signal);
  const reason = new Error("stop");
  await assert.rejects(delay(60_000, AbortSignal.abort(reason)), reason);
});

it("settlesWithin returns true for work that resolves or rejects in time, and false otherwise", async () => {
  assert.equal(await settlesWithin(Promise.resolve(), 60_000), true);
  assert.equal(await settlesWithin(Promise.reject(new Error("x")), 60_000), true);
  assert.equal(await settlesWithin(neverPromise, 1), false);
});

it("createDeadline() reports `hasExpired` after its own time limit, and not after the abort of another signal", async () => {
  const outerController = new AbortController();
  const expiredDeadline = createDeadline(1, outerController.signal);
  await new Promise<void>((resolve) => void onAbort(expiredDeadline.signal, resolve));
  assert.ok(expiredDeadline.hasExpired);
  const abortedDeadline = createDeadline(60_000, outerController.signal);
  outerController.abort(new Error("stop"));
  assert.ok(abortedDeadline.signal.aborted && !abortedDeadline.hasExpired);
  abortedDeadline.clear();
});

it("TaskSet.settled waits for tasks that a task adds, but not longer than its time limit", async () => {
  const tasks = new TaskSet();
  let hasEnded = false;
  void tasks.add(
    delay(1, new AbortController().signal).then(() => {
      void tasks.add(delay(1, new AbortController().signal).then(() => (hasEnded = true)));
    }),
  );
  await tasks.settled();
  assert.ok(hasEnded);
  void tasks.add(neverPromise);
  await tasks.settled(1);
});

/** Returns a signal, and functions that count its current listeners and all added listeners. */
function createCountingSignal(): {
  signal: AbortSignal;
  getListenerCount: () => number;
  getAddedCount: () => number;
  abort(reason: Error): void;
} {
  const controller = new AbortController();
  const { signal } = controller;
  let addedCount = 0;
  const addListener = signal.addEventListener.bind(signal) as AbortSignal["addEventListener"];
  signal.addEventListener = ((...args: Parameters<typeof addListener>) => {
    addedCount += 1;
    addListener(...args);
  }) as typeof addListener;
  return {
    signal,
    getAddedCount: () => addedCount,
    getListenerCount: () => getEventListeners(signal, "abort").length,
    abort: (reason) => controller.abort(reason),
  };
}

async function* countTo(count: number, finalPromise?: Promise<never>): AsyncGenerator<number, void, undefined> {
  for (let n = 0; n < count; n += 1) yield n;
  if (finalPromise) await finalPromise;
}

it("takeEach passes on 1,000 values with one abort listener, and removes the listener at the end", async () => {
  const { signal, getAddedCount, getListenerCount } = createCountingSignal();
  const takenValues: number[] = [];
  await takeEach(countTo(1000), signal, (n) => {
    takenValues.push(n);
    assert.equal(getListenerCount(), 1);
    return undefined;
  });
  assert.equal(takenValues.length, 1000);
  assert.deepEqual([getAddedCount(), getListenerCount()], [1, 0]);
});

it("takeEach requests the next value only after the promise for the current value has resolved", async () => {
  let requestCount = 0;
  const values: AsyncIterator<number> = {
    next: () =>
      Promise.resolve(
        (requestCount += 1) > 2 ? { value: undefined, done: true } : { value: requestCount, done: false },
      ),
  };
  let resolveCurrent: () => void = () => undefined;
  const completion = takeEach(
    values,
    new AbortController().signal,
    () => new Promise<void>((resolve) => (resolveCurrent = resolve)),
  );
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(requestCount, 1);
  resolveCurrent();
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(requestCount, 2);
  resolveCurrent();
  await completion;
});

it("takeEach rejects if the iterator rejects, the callback throws or the callback's promise rejects", async () => {
  const { signal, getListenerCount } = createCountingSignal();
  const iteratorFailure = Promise.reject(new Error("iterator"));
  await assert.rejects(
    takeEach(countTo(1, iteratorFailure), signal, () => undefined),
    /iterator/,
  );
  await assert.rejects(
    takeEach(countTo(1), signal, () => {
      throw new Error("taker");
    }),
    /taker/,
  );
  await assert.rejects(
    takeEach(countTo(1), signal, () => Promise.reject(new Error("waited for"))),
    /waited for/,
  );
  assert.equal(getListenerCount(), 0);
});

it("takeEach rejects on an abort before the first value, in the callback and while a value is pending", async () => {
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
  const takenValues: number[] = [];
  const middleSignal = createCountingSignal();
  await assert.rejects(
    takeEach(values, middleSignal.signal, (n) => {
      takenValues.push(n);
      if (n === 3) middleSignal.abort(reason);
      return undefined;
    }),
    reason,
  );
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([takenValues, requestCount, middleSignal.getListenerCount()], [[1, 2, 3], 3, 0]);
  const waitingSignal = createCountingSignal();
  const pendingTake = takeEach(countTo(1, neverPromise), waitingSignal.signal, (n) => void takenValues.push(n));
  await new Promise((resolve) => setImmediate(resolve));
  waitingSignal.abort(reason);
  await assert.rejects(pendingTake, reason);
  assert.equal(waitingSignal.getListenerCount(), 0);
});

it("takeEach ignores a value that arrives after the abort", async () => {
  const reason = new Error("stop");
  const controller = new AbortController();
  let resolveValue: (value: IteratorResult<number>) => void = () => undefined;
  const lateIterator: AsyncIterator<number> = { next: () => new Promise((resolve) => (resolveValue = resolve)) };
  const takenValues: number[] = [];
  const completion = takeEach(lateIterator, controller.signal, (n) => void takenValues.push(n));
  controller.abort(reason);
  await assert.rejects(completion, reason);
  resolveValue({ value: 1, done: false });
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(takenValues, []);
});
