import assert from "node:assert/strict";
import { it } from "node:test";
import { CooperativeScheduler } from "../../../src/base/cooperative-scheduler.js";

/** Runs steps until `shouldStop` returns true. Records each step, and then waits for the scheduler. */
async function runWorker(
  scheduler: CooperativeScheduler,
  name: string,
  steps: string[],
  shouldStop: () => boolean,
): Promise<void> {
  while (!shouldStop()) {
    steps.push(name);
    const turn = scheduler.waitForTurn();
    if (turn) await turn;
    else await Promise.resolve();
  }
}

it("CooperativeScheduler lets a single task continue at once", () => {
  assert.equal(new CooperativeScheduler().waitForTurn(), undefined);
});

it("CooperativeScheduler shares the event loop between endless tasks and with other callbacks", async () => {
  const scheduler = new CooperativeScheduler();
  const steps: string[] = [];
  let turnCount = 0;
  const names = ["a", "b", "c"];
  // The test never ends if the event loop gets no turn between steps, or if one worker makes no step.
  const shouldStop = () => turnCount >= 3 && names.every((name) => steps.includes(name));
  const countTurn = () => {
    turnCount += 1;
    if (!shouldStop()) setImmediate(countTurn);
  };
  setImmediate(countTurn);
  await Promise.all(names.map((name) => runWorker(scheduler, name, steps, shouldStop)));
  assert.ok(turnCount >= 3);
});

it("CooperativeScheduler releases waiting tasks in order of arrival", async () => {
  const scheduler = new CooperativeScheduler();
  const releasedTasks: number[] = [];
  // Uses up the time slice of this turn.
  let firstTurn = scheduler.waitForTurn();
  while (firstTurn === undefined) firstTurn = scheduler.waitForTurn();
  const workers = Array.from({ length: 20 }, async (_, n) => {
    await scheduler.waitForTurn();
    releasedTasks.push(n);
  });
  await firstTurn;
  assert.deepEqual(releasedTasks, []);
  await Promise.all(workers);
  assert.deepEqual(
    releasedTasks,
    Array.from({ length: 20 }, (_, n) => n),
  );
});

it("CooperativeScheduler completes all tasks when each step is longer than the time slice", async () => {
  const scheduler = new CooperativeScheduler();
  const endedTasks: number[] = [];
  const blockEventLoop = (durationMs: number) => {
    const endMs = performance.now() + durationMs;
    while (performance.now() < endMs);
  };
  await Promise.all(
    [1, 2, 3].map(async (n) => {
      for (let step = 0; step < 3; step += 1) {
        // Longer than the time slice of the scheduler.
        blockEventLoop(12);
        await scheduler.waitForTurn();
      }
      endedTasks.push(n);
    }),
  );
  assert.deepEqual(endedTasks, [1, 2, 3]);
});
