import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { it } from "node:test";
import { abortable, deadline, delay, onAbort, settlesWithin, takeEach } from "../../../src/base/abort.js";
import { TaskSet } from "../../../src/base/task-set.js";

const never = new Promise<never>(() => undefined);

it("onAbort calls its function once, at once if the signal has aborted, and never after its removal", () => {
  const abort = new AbortController();
  const calls: string[] = [];
  const removeListener = onAbort(abort.signal, () => calls.push("removed"));
  onAbort(abort.signal, () => calls.push("called"));
  removeListener();
  abort.abort();
  abort.abort();
  onAbort(abort.signal, () => calls.push("late"));
  assert.deepEqual(calls, ["called", "late"]);
});

it("abortable settles like the promise, or rejects with the abort reason if the abort comes first", async () => {
  const reason = new Error("stop");
  const abort = new AbortController();
  assert.equal(await abortable(Promise.resolve(5), abort.signal), 5);
  await assert.rejects(abortable(Promise.reject(new Error("own")), abort.signal), /own/);
  const pending = abortable(never, abort.signal);
  abort.abort(reason);
  await assert.rejects(pending, reason);
  await assert.rejects(abortable(Promise.reject(new Error("own")), abort.signal), reason);
});

it("delay resolves after its time, or rejects with the reason of its signal", async () => {
  await delay(1, new AbortController().signal);
  const reason = new Error("stop");
  await assert.rejects(delay(60_000, AbortSignal.abort(reason)), reason);
});

it("settlesWithin returns true for work that resolves or rejects in time, and false otherwise", async () => {
  assert.equal(await settlesWithin(Promise.resolve(), 60_000), true);
  assert.equal(await settlesWithin(Promise.reject(new Error("x")), 60_000), true);
  assert.equal(await settlesWithin(never, 1), false);
});

it("deadline reports `expired` after its own time limit, and not after the abort of another signal", async () => {
  const outerController = new AbortController();
  const expiredDeadline = deadline(1, outerController.signal);
  await new Promise<void>((resolve) => void onAbort(expiredDeadline.signal, resolve));
  assert.ok(expiredDeadline.expired);
  const abortedDeadline = deadline(60_000, outerController.signal);
  outerController.abort(new Error("stop"));
  assert.ok(abortedDeadline.signal.aborted && !abortedDeadline.expired);
  abortedDeadline.clear();
});

it("TaskSet.settled waits for tasks that a task adds, but not longer than its time limit", async () => {
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
function countingSignal(): {
  signal: AbortSignal;
  listening: () => number;
  added: () => number;
  abort(reason: Error): void;
} {
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

it("takeEach passes on 1,000 values with one abort listener, and removes the listener at the end", async () => {
  const { signal, added, listening } = countingSignal();
  const takenValues: number[] = [];
  await takeEach(upTo(1000), signal, (n) => {
    takenValues.push(n);
    assert.equal(listening(), 1);
    return undefined;
  });
  assert.equal(takenValues.length, 1000);
  assert.deepEqual([added(), listening()], [1, 0]);
});

it("takeEach requests the next value only after the promise for the current value has resolved", async () => {
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

it("takeEach rejects if the iterator rejects, the callback throws or the callback's promise rejects", async () => {
  const { signal, listening } = countingSignal();
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
  const middleSignal = countingSignal();
  await assert.rejects(
    takeEach(values, middleSignal.signal, (n) => {
      takenValues.push(n);
      if (n === 3) middleSignal.abort(reason);
      return undefined;
    }),
    reason,
  );
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([takenValues, requestCount, middleSignal.listening()], [[1, 2, 3], 3, 0]);
  const waitingSignal = countingSignal();
  const silent = takeEach(upTo(1, never), waitingSignal.signal, (n) => void takenValues.push(n));
  await new Promise((resolve) => setImmediate(resolve));
  waitingSignal.abort(reason);
  await assert.rejects(silent, reason);
  assert.equal(waitingSignal.listening(), 0);
});

it("takeEach ignores a value that arrives after the abort", async () => {
  const reason = new Error("stop");
  const abort = new AbortController();
  let resolveValue: (value: IteratorResult<number>) => void = () => undefined;
  const expiredDeadline: AsyncIterator<number> = { next: () => new Promise((resolve) => (resolveValue = resolve)) };
  const takenValues: number[] = [];
  const all = takeEach(expiredDeadline, abort.signal, (n) => void takenValues.push(n));
  abort.abort(reason);
  await assert.rejects(all, reason);
  resolveValue({ value: 1, done: false });
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(takenValues, []);
});
