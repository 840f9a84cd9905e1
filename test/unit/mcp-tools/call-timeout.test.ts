import assert from "node:assert/strict";
import { it } from "node:test";
import { CallTimeout } from "../../../adapters/mcp-tools/call-timeout.js";

it("CallTimeout aborts a call that reports progress without end, after 30 times its timeout", (t) => {
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

it("CallTimeout does not count the time in which it is paused", (t) => {
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
