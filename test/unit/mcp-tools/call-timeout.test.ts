import assert from "node:assert/strict";
import { it } from "node:test";
import { CallTimeout } from "../../../adapters/mcp-tools/call-timeout.js";

it("CallTimeout aborts a call that reports progress without end, after 30 times its timeout", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let nowMs = 0;
  t.mock.method(performance, "now", () => nowMs);
  const timeout = new CallTimeout(20, new AbortController().signal);
  for (let elapsedMs = 0; elapsedMs < 600; elapsedMs += 10) {
    assert.ok(!timeout.signal.aborted, `${elapsedMs} ms`);
    timeout.restart();
    nowMs += 10;
    t.mock.timers.tick(10);
  }
  timeout.restart();
  t.mock.timers.tick(1);
  assert.ok(timeout.hasTimedOut && timeout.signal.aborted);
  timeout.end();
});

it("CallTimeout does not count the time in which it is paused", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let nowMs = 0;
  t.mock.method(performance, "now", () => nowMs);
  const advance = (ms: number): void => {
    nowMs += ms;
    t.mock.timers.tick(ms);
  };
  const timeout = new CallTimeout(20, new AbortController().signal);
  advance(19);
  timeout.pause();
  advance(100_000);
  assert.ok(!timeout.hasTimedOut);
  timeout.restart();
  advance(19);
  assert.ok(!timeout.hasTimedOut);
  advance(1);
  assert.ok(timeout.hasTimedOut);
  timeout.end();
});
