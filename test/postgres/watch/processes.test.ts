// A watcher over HTTP receives all stored messages while servers, connections and the session fail or change. SCHEDULES,
// STEPS and SEED (the seed of the first schedule) extend and repeat the test.
import { describe, it } from "node:test";
import { ServerGroup } from "../../helpers/server-group.js";
import { startModelServer } from "../../helpers/server-runs.js";
import {
  createRandomProvider,
  runSchedule,
  createRandomStep,
  type ScheduleCounts,
} from "../../helpers/watch-schedule.js";
import { createRandom, readSeed } from "../../helpers/random.js";

const SCHEDULE_COUNT = Number(process.env["SCHEDULES"] ?? 1);
const STEP_COUNT = Number(process.env["STEPS"] ?? 5);

describe("a watcher of a session over HTTP", { concurrency: true }, () => {
  it("receives each stored message once through drops, kills, restarts, other processes, reverts and compactions", async (t) => {
    const firstSeed = readSeed();
    t.diagnostic(`SEED=${firstSeed} SCHEDULES=${SCHEDULE_COUNT} STEPS=${STEP_COUNT}`);
    const random = { wire: createRandom(firstSeed), model: createRandom(firstSeed + 1) };
    const models = await startModelServer(t, { fallback: () => createRandomStep(random.wire) });
    const serverGroup = await ServerGroup.start(t, models, () => createRandomProvider(() => random.model()));
    const totalCounts: Partial<Record<keyof ScheduleCounts, number>> = {};
    for (let seed = firstSeed; seed < firstSeed + SCHEDULE_COUNT; seed += 1) {
      [random.wire, random.model] = [createRandom(seed), createRandom(seed + 1)];
      try {
        const counts = await runSchedule(serverGroup, seed, STEP_COUNT);
        for (const [name, count] of Object.entries(counts) as [keyof ScheduleCounts, number][])
          totalCounts[name] = (totalCounts[name] ?? 0) + count;
      } catch (error) {
        const reason = error instanceof Error ? (error.stack ?? "") : String(error);
        throw new Error(`SEED=${seed} SCHEDULES=1 STEPS=${STEP_COUNT}: ${reason}`, { cause: error });
      }
    }
    t.diagnostic(JSON.stringify({ ...totalCounts, ...serverGroup.counts }));
  });
});
