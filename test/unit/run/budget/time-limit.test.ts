import assert from "node:assert/strict";
import { it } from "node:test";
import { RunClock } from "../../../../src/run/budget/time-limit.js";
import { fakeTime } from "../../../helpers/fake-time.js";

it("RunClock stops while it is paused, and continues with the remaining time", (t) => {
  const { pass } = fakeTime(t);
  let ends = 0;
  const clock = new RunClock(0.1, () => (ends += 1));
  clock.start();
  pass(30);
  clock.pause();
  pass(1_000);
  clock.start();
  pass(30);
  clock.pause();
  pass(1_000);
  assert.equal(ends, 0);
  // Each running period is shorter than the limit. Together they exceed it.
  clock.start();
  pass(39);
  assert.equal(ends, 0);
  pass(2);
  assert.equal(ends, 1);
});
