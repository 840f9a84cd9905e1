// Replicas whose database becomes unreachable under load. DOWN (seconds), CUTS, CLIENTS, TURNS and SEED extend and
// repeat the test.
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { startModelServer, pause, waitUntil } from "../../helpers/server-runs.js";
import { runAsAdmin, NO_POSTGRES, startPrivateServer, type PrivateServer } from "../../helpers/postgres.js";
import { createRandom, readSeed } from "../../helpers/random.js";
import { checkLoad, createLoadModel, runLoad, type LoadReport } from "../../helpers/replica-load.js";
import { createPostgresStore, Replicas } from "../../helpers/replicas.js";

const OUTAGE_SECONDS = Number(process.env["DOWN"] ?? 0);
const CUT_COUNT = Number(process.env["CUTS"] ?? 20);
const CLIENT_COUNT = Number(process.env["CLIENTS"] ?? 6);
const TURN_COUNT = Number(process.env["TURNS"] ?? 5);

async function startReplicas(t: TestContext) {
  const seed = readSeed();
  const models = await startModelServer(t, { fallback: createLoadModel(20) });
  const databaseServer = await startPrivateServer(t);
  const { session } = await createPostgresStore(databaseServer.url);
  const store = {
    name: "postgres",
    session: { ...session, pool: { connect_timeout: 2 } },
    close: () => Promise.resolve(),
  };
  const replicas = await Replicas.start(t, store, models);
  const balancer = await replicas.startBalancer();
  const random = createRandom(seed);
  const startLoad = (turns: number, onTurn?: (count: number) => void) =>
    runLoad({ url: () => balancer.url, clients: CLIENT_COUNT, turns, random, ...(onTurn && { onTurn }) });
  const checkReport = async (report: LoadReport) => {
    const { faults, ...counts } = await checkLoad(balancer.url, report);
    const { turns, recoveredTurns, retries, recoveryMs } = report;
    const errors = Object.fromEntries(report.errors);
    const memory = (await replicas.readMemoryBytes()).map((bytes) => `${Math.round(bytes / 1e6)} MB`);
    t.diagnostic(
      JSON.stringify({
        seed,
        turns,
        recoveredTurns,
        retries,
        errors,
        longestRecoveryMs: recoveryMs.at(-1) ?? 0,
        ...counts,
        memory,
      }),
    );
    assert.deepEqual([...report.faults, ...faults, ...models.violations], []);
    for (let n = 0; n < replicas.count; n += 1)
      assert.equal(replicas.getServer(n).hasEnded, false, replicas.getServer(n).stderr);
  };
  return { databaseServer, replicas, random, startLoad, checkReport };
}

/** Terminates `CUT_COUNT` connections of other clients. */
async function cutConnections(databaseServer: PrivateServer, random: () => number): Promise<void> {
  // Time: the other connections are used during each random pause.
  for (let cutCount = 0; cutCount < CUT_COUNT; await pause(random() * 100)) {
    const [row] = await runAsAdmin(
      databaseServer.url,
      `SELECT count(pg_terminate_backend(pid))::int AS cut FROM (
         SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
         ORDER BY random() LIMIT 1
       ) AS one`,
    );
    cutCount += Number(row?.["cut"]);
  }
}

describe("replicas whose database is unavailable", { skip: NO_POSTGRES, concurrency: true }, () => {
  it("return 503 during the outage, lose no turn, and become ready again afterwards", async (t) => {
    const { databaseServer, replicas, startLoad, checkReport } = await startReplicas(t);
    let turnCount = 0;
    const reportPromise = startLoad(TURN_COUNT, (count) => (turnCount = count));
    // After these turns, nearly every client has started a turn.
    await waitUntil(() => turnCount >= CLIENT_COUNT / 2);
    await databaseServer.stop();
    const responses = replicas.urls.map(async (url) => {
      const body = JSON.stringify({ message: "turn away plain" });
      const response = await fetch(`${url}/api/run`, { method: "POST", body });
      return [response.status, response.headers.get("retry-after"), await response.json()];
    });
    const expectedResponse = [503, "1", { error: "session store unavailable", code: "store_unavailable" }];
    for (const response of await Promise.all(responses)) assert.deepEqual(response, expectedResponse);
    for (const url of replicas.urls) assert.equal((await fetch(`${url}/api/health`)).status, 200);
    // Time: DOWN extends the outage.
    if (OUTAGE_SECONDS > 0) await pause(OUTAGE_SECONDS * 1000);
    await databaseServer.start();
    for (const url of replicas.urls) await waitUntil(async () => (await fetch(`${url}/api/ready`)).status === 200);
    const report = await reportPromise;
    assert.equal(report.turns, CLIENT_COUNT * TURN_COUNT);
    await checkReport(report);
  });

  it("lose no turn while their database connections are terminated repeatedly", async (t) => {
    const { databaseServer, random, startLoad, checkReport } = await startReplicas(t);
    let isOver = false;
    const cutLoop = cutConnections(databaseServer, random).finally(() => (isOver = true));
    do {
      const report = await startLoad(TURN_COUNT);
      await checkReport(report);
    } while (!isOver);
    await cutLoop;
  });
});
