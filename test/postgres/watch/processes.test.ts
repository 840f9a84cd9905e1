// A watcher over HTTP receives all stored messages while servers, connections, disks and the session fail or change.
// STORES selects the stores as in other tests. SCHEDULES, STEPS and SEED (the seed of the first schedule) extend and
// repeat the test. SERVER_GROUPS: number of groups of servers for each store, each with its own schedules. LEASES=1 also
// suspends servers for longer than a lease.
import { describe, it, type TestContext } from "node:test";
import { NO_POSTGRES } from "../../helpers/postgres.js";
import { createRandom, readSeed } from "../../helpers/random.js";
import { createRandomStep } from "../../helpers/random-answers.js";
import { ServerGroup } from "../../helpers/server-group.js";
import { startModelServer } from "../../helpers/server-runs.js";
import { Schedule, type ScheduleCounts } from "../../helpers/watch-schedule.js";

const SCHEDULE_COUNT = Number(process.env["SCHEDULES"] ?? 1);
const STEP_COUNT = Number(process.env["STEPS"] ?? 5);
const GROUP_COUNT = Number(process.env["SERVER_GROUPS"] ?? 1);
const expiresLeases = process.env["LEASES"] === "1";
const { STORES: selection = "all" } = process.env;

/** Runs schedules one after another on a group of servers. */
async function runSchedules(t: TestContext, driver: string, firstSeed: number): Promise<void> {
  const options = `STORES=${driver} STEPS=${STEP_COUNT}`;
  t.diagnostic(`${options} SEED=${firstSeed} SCHEDULES=${SCHEDULE_COUNT}`);
  let random = createRandom(firstSeed);
  const models = await startModelServer(t, { fallback: () => createRandomStep(random) });
  const group = await ServerGroup.start(t, driver, models);
  if (!group.store.disk) t.diagnostic("full disks are left out: this machine permits no mounts");
  const totalCounts: Partial<Record<keyof ScheduleCounts, number>> = {};
  for (let seed = firstSeed; seed < firstSeed + SCHEDULE_COUNT; seed += 1) {
    random = createRandom(seed);
    try {
      const counts = await new Schedule(group, { seed, steps: STEP_COUNT, expiresLeases }).run();
      for (const [name, count] of Object.entries(counts) as [keyof ScheduleCounts, number][])
        totalCounts[name] = (totalCounts[name] ?? 0) + count;
    } catch (error) {
      const reason = error instanceof Error ? (error.stack ?? "") : String(error);
      throw new Error(`${options} SEED=${seed}: ${reason}`, { cause: error });
    }
  }
  t.diagnostic(JSON.stringify({ ...totalCounts, ...group.counts }));
}

describe("a watcher of a session over HTTP", { concurrency: 1_000 }, () => {
  for (const driver of ["sqlite", "json", "postgres"].filter((name) => selection === "all" || selection === name)) {
    const skip = driver === "postgres" && NO_POSTGRES;
    for (let n = 0; n < GROUP_COUNT; n += 1) {
      const title = `${driver}, group ${n}: receives each stored message once, and only true states, through faults`;
      it(title, { skip }, (t) => runSchedules(t, driver, readSeed() + n * SCHEDULE_COUNT));
    }
  }
});
