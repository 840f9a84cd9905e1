import assert from "node:assert/strict";
import { it } from "node:test";
import { RunClock } from "../../../../src/run/budget/limits.js";
import { mockTime } from "../../../helpers/fake-time.js";

it("RunClock stops while it is paused, and continues with the remaining time", (t) => {
  const time = mockTime(t);
  let endCount = 0;
  const clock = new RunClock(0.1, () => (endCount += 1));
  clock.start();
  time.advance(30);
  clock.pause();
  time.advance(1_000);
  clock.start();
  time.advance(30);
  clock.pause();
  time.advance(1_000);
  assert.equal(endCount, 0);
  // Each running period is shorter than the limit. Together they exceed it.
  clock.start();
  time.advance(39);
  assert.equal(endCount, 0);
  time.advance(2);
  assert.equal(endCount, 1);
});
