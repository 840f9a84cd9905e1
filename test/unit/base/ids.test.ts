import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { newId, randomBytes } from "../../../src/base/ids.js";
import { tempDir } from "../../helpers/temp-dir.js";

describe("newId", () => {
  it("returns UUIDs of version 7 that contain the time of creation", () => {
    const readTimeMs = (id: string): number => parseInt(id.replace("-", "").slice(0, 12), 16);
    // Another test of this process may have set the clock ahead. The time of an id never goes back.
    const previousMs = readTimeMs(newId());
    const startMs = Date.now();
    const id = newId();
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const createdAtMs = readTimeMs(id);
    assert.ok(createdAtMs >= startMs, `${createdAtMs} is before ${startMs}`);
    assert.ok(createdAtMs <= Math.max(Date.now(), previousMs + 1), `${createdAtMs} is later than now`);
  });

  it("returns 20,000 ids in ascending order and without duplicates", () => {
    const ids = Array.from({ length: 20_000 }, newId);
    assert.deepEqual([...ids].sort(), ids);
    assert.equal(new Set(ids).size, ids.length);
  });

  it("returns ids in ascending order after the clock is set back", (t) => {
    const firstId = newId();
    t.mock.timers.enable({ apis: ["Date"], now: Date.now() - 60_000 });
    const laterIds = [newId(), newId()];
    assert.deepEqual([firstId, ...laterIds].sort(), [firstId, ...laterIds]);
  });

  it("returns ids that differ in their last 12 digits", () => {
    const endings = Array.from({ length: 1_000 }, () => newId().slice(-12));
    assert.equal(new Set(endings).size, endings.length);
  });
});

describe("randomBytes", () => {
  it("returns 32 random bytes, also if the source is missing, too short or a folder", async (t) => {
    const folder = await tempDir(t);
    writeFileSync(folder.at("short"), "abc");
    for (const source of [undefined, folder.at("none"), folder.at("short"), folder.path]) {
      const [firstBytes, secondBytes] = [randomBytes(32, source), randomBytes(32, source)];
      assert.equal(firstBytes.length, 32);
      assert.notDeepEqual(firstBytes, secondBytes);
      assert.ok(new Set(firstBytes).size > 8, "the 32 bytes have more than 8 different values");
    }
  });
});
