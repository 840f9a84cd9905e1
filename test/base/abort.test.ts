import assert from "node:assert/strict";
import { it } from "node:test";
import { abortable, deadline, delay, onAbort, settlesWithin } from "../../src/base/abort.js";
import { TaskSet } from "../../src/base/task-set.js";

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
  const others = new AbortController();
  const late = deadline(1, others.signal);
  await new Promise<void>((resolve) => void onAbort(late.signal, resolve));
  assert.ok(late.expired);
  const early = deadline(60_000, others.signal);
  others.abort(new Error("stop"));
  assert.ok(early.signal.aborted && !early.expired);
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
