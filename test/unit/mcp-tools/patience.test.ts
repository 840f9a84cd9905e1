import assert from "node:assert/strict";
import { it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Patience } from "../../../adapters/mcp-tools/patience.js";

it("a call that tells of progress for ever ends all the same", async () => {
  const time = new Patience(20, new AbortController().signal);
  for (let i = 0; !time.signal.aborted; i++) {
    assert.ok(i < 100_000);
    time.again();
    await sleep(1);
  }
  assert.ok(time.isOver);
  time.end();
});

it("a person's time does not count", async () => {
  const time = new Patience(1, new AbortController().signal);
  time.hold();
  await sleep(60);
  assert.ok(!time.isOver);
  time.end();
});
