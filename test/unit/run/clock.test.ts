import assert from "node:assert/strict";
import { it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { RunClock } from "../../../src/run/clock.js";

it("does not go while it stands, and has what was left then", async () => {
  let ended = false;
  const clock = new RunClock(0.1, () => (ended = true));
  clock.go();
  clock.stand();
  await sleep(200);
  assert.equal(ended, false);
  // Of pieces that are each too short.
  for (let i = 0; i < 40 && !ended; i += 1) {
    clock.go();
    await sleep(20);
    clock.stand();
  }
  assert.equal(ended, true);
});
