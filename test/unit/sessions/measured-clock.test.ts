import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MeasuredClock } from "gantry/plugin";

describe("MeasuredClock", () => {
  it("has the difference of the store's time, and 0 for a difference within the duration of the measurement", () => {
    const clock = new MeasuredClock();
    assert.deepEqual([clock.offsetMs, clock.isOutdated], [0, true]);
    const now = Date.now();
    clock.update(now + 3_600_000, now);
    assert.ok(Math.abs(clock.offsetMs - 3_600_000) < 1_000, `${clock.offsetMs}`);
    assert.equal(clock.isOutdated, false);
    clock.update(now - 900, now - 1_000);
    assert.equal(clock.offsetMs, 0);
  });

  it("is outdated after the clock of the process was set", (t) => {
    const clock = new MeasuredClock();
    clock.update(Date.now(), Date.now());
    const { now } = Date;
    t.after(() => (Date.now = now));
    Date.now = () => now() - 5_000;
    assert.equal(clock.isOutdated, true);
  });
});
