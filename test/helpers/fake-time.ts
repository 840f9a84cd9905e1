import type { TestContext } from "node:test";

/**
 * Stops the clocks and timers of this process until the test ends. `pass` advances them by `ms` and runs due timers.
 * Imports of `node:timers/promises` stay real. Not for concurrent tests (`concurrency`).
 */
export function mockTime(t: TestContext): { advance: (ms: number) => void } {
  const [uptime, startNow] = [process.uptime(), performance.now()];
  let passedMs = 0;
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"], now: Date.now() });
  t.mock.method(process, "uptime", () => uptime + passedMs / 1000);
  t.mock.method(performance, "now", () => startNow + passedMs);
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

/** Like `waitUntil` of server-runs.ts, for tests with stopped timers: it checks the condition in each turn of the event loop. */
export async function waitForTurn(condition: () => boolean): Promise<void> {
  const [startSeconds] = process.hrtime();
  while (!condition()) {
    if (process.hrtime()[0] - startSeconds > 120) throw new Error(`not within 120 s: ${condition.toString()}`);
    await waitTurns(1);
  }
}
