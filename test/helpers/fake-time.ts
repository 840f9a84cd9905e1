import type { TestContext } from "node:test";

/**
 * Stops the clocks and timers of this process until the test ends. `pass` advances them by `ms` and runs due timers.
 * Imports of `node:timers/promises` stay real. Not for concurrent tests (`concurrency`).
 */
export function fakeTime(t: TestContext): { pass: (ms: number) => void } {
  const [uptime, now] = [process.uptime(), performance.now()];
  let passed = 0;
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"], now: Date.now() });
  t.mock.method(process, "uptime", () => uptime + passed / 1000);
  t.mock.method(performance, "now", () => now + passed);
  return {
    pass: (ms) => {
      passed += ms;
      t.mock.timers.tick(ms);
    },
  };
}

/** Waits several turns of the event loop: work that needs neither a timer nor the network completes in that time. */
export async function turns(count = 20): Promise<void> {
  for (let n = 0; n < count; n += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** Like `until` of lab.ts, for tests with stopped timers: it checks the condition in each turn of the event loop. */
export async function untilTurn(condition: () => boolean): Promise<void> {
  const [begin] = process.hrtime();
  while (!condition()) {
    if (process.hrtime()[0] - begin > 120) throw new Error(`not within 120 s: ${condition.toString()}`);
    await turns(1);
  }
}
