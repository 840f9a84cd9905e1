// Replicas whose database becomes unreachable under load. DOWN (seconds), CUTS, CLIENTS, TURNS and SEED extend and
// repeat the test.
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { lab, pause, until } from "../../helpers/lab.js";
import { asAdmin, NO_POSTGRES, ownServer, type OwnServer } from "../../helpers/postgres.js";
import { randomOf, seedOf } from "../../helpers/random.js";
import { checkLoad, loadModel, runLoad, type LoadReport } from "../../helpers/replica-load.js";
import { postgresStore, Replicas } from "../../helpers/replicas.js";

const DOWN = Number(process.env["DOWN"] ?? 0);
const CUTS = Number(process.env["CUTS"] ?? 20);
const CLIENTS = Number(process.env["CLIENTS"] ?? 6);
const TURNS = Number(process.env["TURNS"] ?? 5);

async function place(t: TestContext) {
  const seed = seedOf();
  const models = await lab(t, { fallback: loadModel(20) });
  const databaseServer = await ownServer(t);
  const { session } = await postgresStore(databaseServer.url);
  const store = {
    name: "postgres",
    session: { ...session, pool: { connect_timeout: 2 } },
    close: () => Promise.resolve(),
  };
  const replicas = await Replicas.start(t, store, models);
  const balancer = await replicas.balancer();
  const random = randomOf(seed);
  const load = (turns: number, onTurn?: (count: number) => void) =>
    runLoad({ url: () => balancer.url, clients: CLIENTS, turns, random, ...(onTurn && { onTurn }) });
  const check = async (report: LoadReport) => {
    const { faults, ...counts } = await checkLoad(balancer.url, report);
    const { turns, healed, retries, healingMs } = report;
    const errors = Object.fromEntries(report.errors);
    const memory = (await replicas.memory()).map((bytes) => `${Math.round(bytes / 1e6)} MB`);
    t.diagnostic(
      JSON.stringify({ seed, turns, healed, retries, errors, longest: healingMs.at(-1) ?? 0, ...counts, memory }),
    );
    assert.deepEqual([...report.faults, ...faults, ...models.violations], []);
    for (let n = 0; n < replicas.count; n += 1) assert.equal(replicas.at(n).ended, false, replicas.at(n).stderr);
  };
  return { own: databaseServer, replicas, random, load, check };
}

/**
 * Cuts `CUTS` connections of other clients. Time: one at each random interval, in which the other connections are used.
 */
async function cut(databaseServer: OwnServer, random: () => number): Promise<void> {
  for (let done = 0; done < CUTS; await pause(random() * 100)) {
    const [row] = await asAdmin(
      databaseServer.url,
      `SELECT count(pg_terminate_backend(pid))::int AS cut FROM (
         SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
         ORDER BY random() LIMIT 1
       ) AS one`,
    );
    done += Number(row?.["cut"]);
  }
}

describe("replicas whose database is unavailable", { skip: NO_POSTGRES, concurrency: true }, () => {
  it("return 503 during the outage, lose no turn, and become ready again afterwards", async (t) => {
    const { own: databaseServer, replicas, load, check } = await place(t);
    let answered = 0;
    const loaded = load(TURNS, (count) => (answered = count));
    // By now nearly every client is in the middle of a turn.
    await until(() => answered >= CLIENTS / 2);
    await databaseServer.stop();
    const answers = replicas.urls.map(async (url) => {
      const body = JSON.stringify({ message: "turn away plain" });
      const answer = await fetch(`${url}/api/run`, { method: "POST", body });
      return [answer.status, answer.headers.get("retry-after"), await answer.json()];
    });
    const expected = [503, "1", { error: "session store unavailable", code: "store_unavailable" }];
    for (const answer of await Promise.all(answers)) assert.deepEqual(answer, expected);
    for (const url of replicas.urls) assert.equal((await fetch(`${url}/api/health`)).status, 200);
    // Time: the outage lasts longer.
    if (DOWN > 0) await pause(DOWN * 1000);
    await databaseServer.start();
    for (const url of replicas.urls) await until(async () => (await fetch(`${url}/api/ready`)).status === 200);
    const report = await loaded;
    assert.equal(report.turns, CLIENTS * TURNS);
    await check(report);
  });

  it("lose no turn while their database connections are terminated repeatedly", async (t) => {
    const { own: databaseServer, random, load, check } = await place(t);
    let over = false;
    const cutting = cut(databaseServer, random).finally(() => (over = true));
    do {
      const report = await load(TURNS);
      await check(report);
    } while (!over);
    await cutting;
  });
});
