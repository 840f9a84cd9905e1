import assert from "node:assert/strict";
import { it } from "node:test";
import { CooperativeScheduler } from "../../../src/base/cooperative-scheduler.js";

/** Works until `stop` returns true, and asks the scheduler before each step. Records its steps. */
async function worker(share: CooperativeScheduler, name: string, steps: string[], stop: () => boolean): Promise<void> {
  while (!stop()) {
    steps.push(name);
    const turn = share.turn();
    if (turn) await turn;
    else await Promise.resolve();
  }
}

it("CooperativeScheduler lets a single task continue at once", () => {
  assert.equal(new CooperativeScheduler().turn(), undefined);
});

it("CooperativeScheduler shares the event loop between endless tasks and with other callbacks", async () => {
  const share = new CooperativeScheduler();
  const steps: string[] = [];
  let turns = 0;
  const names = ["a", "b", "c"];
  // This never ends if the event loop gets no turn between steps, or if one worker starves.
  const stop = () => turns >= 3 && names.every((name) => steps.includes(name));
  const count = () => {
    turns += 1;
    if (!stop()) setImmediate(count);
  };
  setImmediate(count);
  await Promise.all(names.map((name) => worker(share, name, steps, stop)));
  assert.ok(turns >= 3);
});

it("CooperativeScheduler releases waiting tasks in order of arrival", async () => {
  const share = new CooperativeScheduler();
  const order: number[] = [];
  // Uses up the time slice of this turn.
  let first = share.turn();
  while (first === undefined) first = share.turn();
  const workers = Array.from({ length: 20 }, async (_, n) => {
    await share.turn();
    order.push(n);
  });
  await first;
  assert.deepEqual(order, []);
  await Promise.all(workers);
  assert.deepEqual(
    order,
    Array.from({ length: 20 }, (_, n) => n),
  );
});

it("CooperativeScheduler completes all tasks when each step is longer than the time slice", async () => {
  const share = new CooperativeScheduler();
  const endedTasks: number[] = [];
  const busy = (ms: number) => {
    const until = performance.now() + ms;
    while (performance.now() < until);
  };
  await Promise.all(
    [1, 2, 3].map(async (n) => {
      for (let step = 0; step < 3; step += 1) {
        busy(12);
        await share.turn();
      }
      endedTasks.push(n);
    }),
  );
  assert.deepEqual(endedTasks, [1, 2, 3]);
});
