// Several servers on one store, like in a team. CLIENTS, TURNS, EVERY (minimum ms between kills), ROUNDS and SEED
// extend and repeat the test.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { textStep } from "../../helpers/fake-model-server.js";
import { runPrompt, startModelServer, pause, fetchMessages, waitUntil } from "../../helpers/server-runs.js";
import { createRandom, readSeed } from "../../helpers/random.js";
import { checkLoad, createLoadModel, runLoad } from "../../helpers/replica-load.js";
import {
  TRANSPORT_SCENARIOS,
  TRANSPORT_SCENARIOS_CONFIG,
  STALLED_ANSWER,
  watchDuringKills,
} from "../../helpers/replica-scenarios.js";
import { Replicas, SHARED_STORES } from "../../helpers/replicas.js";

const CLIENT_COUNT = Number(process.env["CLIENTS"] ?? 8);
const TURN_COUNT = Number(process.env["TURNS"] ?? 4);
const KILL_INTERVAL_MS = Number(process.env["EVERY"] ?? 0);
const ROUND_COUNT = Number(process.env["ROUNDS"] ?? 2);

for (const [name, skip, openStore] of SHARED_STORES)
  describe(`replicas on ${name}`, { concurrency: true, skip }, () => {
    for (const signal of ["SIGKILL", "SIGTERM"] as const)
      it(`lose no acknowledged turn while the replicas end by ${signal} one after the other, and clients complete all turns by retries`, async (t) => {
        const seed = readSeed();
        const random = createRandom(seed);
        const models = await startModelServer(t, { fallback: createLoadModel(signal === "SIGKILL" ? 20 : 60) });
        const replicas = await Replicas.start(t, await openStore(), models);
        const balancer = await replicas.startBalancer();
        let turnCount = 0;
        const onTurn = (count: number) => (turnCount = count);
        const load = runLoad({ url: () => balancer.url, clients: CLIENT_COUNT, turns: TURN_COUNT, random, onTurn });
        let isOver = false;
        const killReplicas = async () => {
          for (let n = 0; ; n += 1) {
            // Waits until some turns have ended, so that the test also ends on a slow machine.
            const turnsBefore = turnCount;
            // Time: EVERY sets the interval between kills of a soak test.
            if (KILL_INTERVAL_MS > 0) await pause(KILL_INTERVAL_MS);
            await waitUntil(() => isOver || turnCount >= turnsBefore + CLIENT_COUNT / 2);
            if (isOver) return;
            await replicas.stopReplica(n % replicas.count, signal);
            await replicas.startReplica(n % replicas.count);
          }
        };
        const killLoop = killReplicas();
        const report = await load.finally(() => (isOver = true));
        await killLoop;
        const { faults, ...counts } = await checkLoad(balancer.url, report);
        const { turns, recoveredTurns, retries, recoveryMs } = report;
        const errors = Object.fromEntries(report.errors);
        const longestMs = recoveryMs.at(-1) ?? 0;
        t.diagnostic(
          JSON.stringify({
            seed,
            ...replicas.counts,
            turns,
            recoveredTurns,
            retries,
            errors,
            longestRecoveryMs: longestMs,
            ...counts,
          }),
        );
        assert.deepEqual([...report.faults, ...faults, ...models.violations], []);
        assert.equal(turns, CLIENT_COUNT * TURN_COUNT);
        assert.ok(replicas.counts.kills + replicas.counts.drains > 0);
        assert.doesNotMatch(replicas.stderr, / error /);
      });

    it("send a watcher each message of runs on other replicas once, while one of those replicas is killed", async (t) => {
      const seed = readSeed();
      const models = await startModelServer(t);
      const replicas = await Replicas.start(t, await openStore(), models);
      const { faults, ...counts } = await watchDuringKills(replicas, models, ROUND_COUNT, createRandom(seed));
      t.diagnostic(JSON.stringify({ seed, ...counts }));
      assert.deepEqual(faults, []);
    });

    it("apply a cancel, delete, answer or steer to a run on another replica", async (t) => {
      const models = await startModelServer(t);
      const replicas = await Replicas.start(t, await openStore(), models, { config: TRANSPORT_SCENARIOS_CONFIG });
      for (const [scenarioName, measureScenario] of Object.entries(TRANSPORT_SCENARIOS))
        t.diagnostic(`${scenarioName}: ${await measureScenario(replicas, models)} ms`);
      assert.doesNotMatch(replicas.stderr, / error /);
    });

    it("run the prompt of an idempotency key on another replica when the first replica drains", async (t) => {
      const models = await startModelServer(t, { fallback: textStep("Yes.") });
      const replicas = await Replicas.start(t, await openStore(), models);
      const balancer = await replicas.startBalancer();
      const headers = { "idempotency-key": "drained" };
      const body = { message: "think" };
      models.enqueue(STALLED_ANSWER);
      const firstRun = runPrompt(replicas.getServer(0), body, headers);
      let sessionId = "";
      await waitUntil(async () => {
        const response = await replicas.getServer(1).fetch("/api/runs");
        const { runs } = (await response.json()) as { runs: { session_id: string }[] };
        sessionId = runs[0]?.session_id ?? "";
        return sessionId !== "" && (await fetchMessages(replicas.getServer(1), sessionId)).length > 1;
      });
      // Requests that wait on other replicas receive the answer of the continued run.
      const joinedRuns = Promise.all([1, 2].map((n) => runPrompt(replicas.getServer(n), body, headers)));
      const exit = await replicas.stopReplica(0, "SIGTERM");
      assert.deepEqual(exit, { code: 0, signal: null });
      assert.deepEqual(await firstRun, {
        status: 503,
        sessionId,
        output: "",
        error: "server shutting down",
      });
      for (const answer of [
        ...(await joinedRuns),
        await runPrompt({ fetch: createFetch(balancer.url) }, body, headers),
      ])
        assert.deepEqual(answer, { status: 200, sessionId, output: "Yes.", error: "" });
      const { runs } = (await (await replicas.getServer(2).fetch("/api/runs")).json()) as { runs: { state: string }[] };
      assert.deepEqual(
        runs.map(({ state }) => state),
        ["finished"],
      );
      assert.deepEqual(models.violations, []);
    });
  });

function createFetch(origin: string) {
  return (path: string, init?: RequestInit) => fetch(new URL(path, origin), init);
}
