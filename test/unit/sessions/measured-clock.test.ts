import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { describe, it } from "node:test";
import { FileSystemClock, MeasuredClock } from "gantry/plugin";
import { tempDir } from "../../helpers/temp-dir.js";

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

describe("FileSystemClock", () => {
  it("follows the time of files when the clock of the process is set, and leaves no file", async (t) => {
    const folder = await tempDir(t);
    const clock = new FileSystemClock(folder.at("clock-"));
    assert.equal(clock.offsetMs, 0);
    const { now } = Date;
    t.after(() => (Date.now = now));
    Date.now = () => now() + 5_400_000;
    assert.ok(Math.abs(clock.offsetMs + 5_400_000) < 1_000, `${clock.offsetMs}`);
    assert.deepEqual(await readdir(folder.path), []);
  });

  it("keeps the last offset while no file can be created", async (t) => {
    const folder = await tempDir(t);
    assert.equal(new FileSystemClock(folder.at("missing/clock-")).offsetMs, 0);
  });
});
