import type { TestContext } from "node:test";

const MAX_WAIT_SECONDS = 120;

/**
 * Stops the clocks and timers of this process until the test ends. `advance` moves the clocks by `ms` and runs due
 * timers. Imports of `node:timers/promises` and `process.hrtime` stay real. Not for concurrent tests (`concurrency`).
 */
export function mockTime(t: TestContext): { advance: (ms: number) => void } {
  const [uptimeSeconds, startMs] = [process.uptime(), performance.now()];
  let passedMs = 0;
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"], now: Date.now() });
  t.mock.method(process, "uptime", () => uptimeSeconds + passedMs / 1000);
  t.mock.method(performance, "now", () => startMs + passedMs);
  return {
    advance: (ms) => {
      passedMs += ms;
      t.mock.timers.tick(ms);
    },
  };
}

/** Waits several turns of the event loop: work that needs neither a timer nor the network completes in that time. */
export async function waitTurns(count = 20): Promise<void> {
  for (let i = 0; i < count; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

/**
 * Waits for a condition in tests with stopped timers: checks the condition in each turn of the event loop. Rejects
 * after 120 s of real time.
 */
export async function waitForConditionInTurns(condition: () => boolean): Promise<void> {
  const [startSeconds] = process.hrtime();
  while (!condition()) {
    if (process.hrtime()[0] - startSeconds > MAX_WAIT_SECONDS)
      throw new Error(`not within ${MAX_WAIT_SECONDS} s: ${condition.toString()}`);
    await waitTurns(1);
  }
}
