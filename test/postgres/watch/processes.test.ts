// A watcher over HTTP sees everything that is stored, whatever happens to servers, connections and the session.
// SCHEDULES, SEED (of the first) and STEPS extend and repeat the test.
import { describe, it } from "node:test";
import { Fleet } from "../../helpers/fleet.js";
import { lab } from "../../helpers/lab.js";
import { localModel, runSchedule, wireAnswer, type Tally } from "../../helpers/live-schedule.js";
import { randomOf, seedOf } from "../../helpers/random.js";

const SCHEDULES = Number(process.env["SCHEDULES"] ?? 1);
const STEPS = Number(process.env["STEPS"] ?? 5);

describe("a watcher of a session over HTTP", { concurrency: true }, () => {
  it("receives each stored message once through drops, kills, restarts, other processes, reverts and compactions", async (t) => {
    const first = seedOf();
    t.diagnostic(`SEED=${first} SCHEDULES=${SCHEDULES} STEPS=${STEPS}`);
    const random = { wire: randomOf(first), model: randomOf(first + 1) };
    const models = await lab(t, { fallback: () => wireAnswer(random.wire) });
    const fleet = await Fleet.start(t, models, () => localModel(() => random.model()));
    const sum: Partial<Record<keyof Tally, number>> = {};
    for (let seed = first; seed < first + SCHEDULES; seed += 1) {
      [random.wire, random.model] = [randomOf(seed), randomOf(seed + 1)];
      try {
        const tally = await runSchedule(fleet, seed, STEPS);
        for (const [name, count] of Object.entries(tally) as [keyof Tally, number][])
          sum[name] = (sum[name] ?? 0) + count;
      } catch (error) {
        const why = error instanceof Error ? (error.stack ?? "") : String(error);
        throw new Error(`SEED=${seed} SCHEDULES=1 STEPS=${STEPS}: ${why}`, { cause: error });
      }
    }
    t.diagnostic(JSON.stringify({ ...sum, ...fleet.counts }));
  });
});
