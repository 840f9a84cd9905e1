import assert from "node:assert/strict";
import { it } from "node:test";
import { CallTimeout } from "../../../adapters/mcp-tools/call-timeout.js";

it("a call that tells of progress for ever ends all the same", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let now = 0;
  t.mock.method(performance, "now", () => now);
  const time = new CallTimeout(20, new AbortController().signal);
  for (let ms = 0; ms < 600; ms += 10) {
    assert.ok(!time.signal.aborted, `${ms} ms`);
    time.restart();
    now += 10;
    t.mock.timers.tick(10);
  }
  time.restart();
  t.mock.timers.tick(1);
  assert.ok(time.isOver && time.signal.aborted);
  time.end();
});

it("a person's time does not count", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let now = 0;
  t.mock.method(performance, "now", () => now);
  const pass = (ms: number): void => {
    now += ms;
    t.mock.timers.tick(ms);
  };
  const time = new CallTimeout(20, new AbortController().signal);
  pass(19);
  time.pause();
  pass(100_000);
  assert.ok(!time.isOver);
  time.restart();
  pass(19);
  assert.ok(!time.isOver);
  pass(1);
  assert.ok(time.isOver);
  time.end();
});
