import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import type { Logger } from "gantry";
import { EventLoopLoad } from "../../../src/http/event-loop-load.js";
import { mockTime } from "../../helpers/fake-time.js";

const SAMPLE_INTERVAL_MS = 500;

function createLoad(t: TestContext, limitMs: number) {
  const logLines: string[] = [];
  const log = (message: string) => void logLines.push(message);
  const logger: Logger = { debug: log, info: log, warn: log, error: log };
  const { advance } = mockTime(t);
  const load = new EventLoopLoad(limitMs, logger);
  /** Adds samples with these delays in ms. Returns the states after each. */
  const addSamples = (...delaysMs: readonly number[]): boolean[] =>
    delaysMs.map((delayMs) => {
      advance(SAMPLE_INTERVAL_MS + delayMs);
      return load.isOverloaded();
    });
  return { load, logLines, advance, addSamples };
}

it("three consecutive delays above the limit mean overload; two below half of it end the overload", (t) => {
  const { load, logLines, addSamples } = createLoad(t, 100);
  assert.equal(load.isOverloaded(), false);
  assert.deepEqual(addSamples(101, 101, 101), [false, false, true]);
  // Between the two limits the state stays.
  assert.deepEqual(addSamples(99, 50, 0, 60, 0, 0), [true, true, true, true, true, false]);
  assert.deepEqual(addSamples(99, 99, 99, 99), [false, false, false, false]);
  assert.deepEqual(logLines, [
    "the event loop is overloaded; requests that start work are refused",
    "the event loop is no longer overloaded; requests are accepted again",
  ]);
});

it("no delay at the limit, and no single or repeated pause, means overload", (t) => {
  const { load, logLines, addSamples } = createLoad(t, 100);
  load.isOverloaded();
  const states = addSamples(100, 100, 100, 100, 3_600_000, 0, 3_600_000, 5_000, 0, 101, 101, 100, 101, 101, 0);
  assert.deepEqual(new Set(states), new Set([false]));
  assert.deepEqual(logLines, []);
});

it("nothing is measured before the first call, nor a minute after the last one", (t) => {
  const { load, advance } = createLoad(t, 100);
  const { setTimeout: startTimer } = globalThis;
  let timerCount = 0;
  t.mock.method(globalThis, "setTimeout", (...args: Parameters<typeof startTimer>) => {
    timerCount += 1;
    return startTimer(...args);
  });
  advance(10_000);
  assert.equal(timerCount, 0);
  load.isOverloaded();
  for (let i = 0; i < 1_000; i++) advance(SAMPLE_INTERVAL_MS);
  assert.ok(timerCount > 100 && timerCount < 130, String(timerCount));
});
