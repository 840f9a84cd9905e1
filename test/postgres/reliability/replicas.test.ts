// Several servers on one store, like in a team. CLIENTS, TURNS, EVERY (minimum ms between kills), ROUNDS and SEED
// extend and repeat the test.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { say } from "../../helpers/fake-model-server.js";
import { ask, lab, pause, stored, until } from "../../helpers/lab.js";
import { randomOf, seedOf } from "../../helpers/random.js";
import { checkLoad, loadModel, runLoad } from "../../helpers/replica-load.js";
import {
  TRANSPORT_SCENARIOS,
  TRANSPORT_SCENARIOS_CONFIG,
  STUCK,
  watchWhileKilled,
} from "../../helpers/replica-scenarios.js";
import { Replicas, SHARED_STORES } from "../../helpers/replicas.js";

const CLIENTS = Number(process.env["CLIENTS"] ?? 8);
const TURNS = Number(process.env["TURNS"] ?? 4);
const EVERY = Number(process.env["EVERY"] ?? 0);
const ROUNDS = Number(process.env["ROUNDS"] ?? 2);

for (const [name, skip, open] of SHARED_STORES)
  describe(`replicas on ${name}`, { concurrency: true, skip }, () => {
    for (const signal of ["SIGKILL", "SIGTERM"] as const)
      it(`lose no acknowledged turn while each ends by ${signal} in turn, and clients complete all turns by retries`, async (t) => {
        const seed = seedOf();
        const random = randomOf(seed);
        const models = await lab(t, { fallback: loadModel(signal === "SIGKILL" ? 20 : 60) });
        const replicas = await Replicas.start(t, await open(), models);
        const balancer = await replicas.balancer();
        let answered = 0;
        const onTurn = (count: number) => (answered = count);
        const load = runLoad({ url: () => balancer.url, clients: CLIENTS, turns: TURNS, random, onTurn });
        let over = false;
        const killing = async () => {
          for (let n = 0; ; n += 1) {
            // Some turns end between two kills, so that the test also ends on a slow machine. Other turns are active.
            const before = answered;
            // Time: the soak kills at an interval.
            if (EVERY > 0) await pause(EVERY);
            await until(() => over || answered >= before + CLIENTS / 2);
            if (over) return;
            await replicas.down(n % replicas.count, signal);
            await replicas.up(n % replicas.count);
          }
        };
        const killed = killing();
        const report = await load.finally(() => (over = true));
        await killed;
        const { faults, ...counts } = await checkLoad(balancer.url, report);
        const { turns, healed, retries, healingMs } = report;
        const errors = Object.fromEntries(report.errors);
        const longest = healingMs.at(-1) ?? 0;
        t.diagnostic(JSON.stringify({ seed, ...replicas.counts, turns, healed, retries, errors, longest, ...counts }));
        assert.deepEqual([...report.faults, ...faults, ...models.violations], []);
        assert.equal(turns, CLIENTS * TURNS);
        assert.ok(replicas.counts.kills + replicas.counts.drains > 0);
        assert.doesNotMatch(replicas.stderr, / error /);
      });

    it("send a watcher each message of runs on other replicas once, while one of these is killed", async (t) => {
      const seed = seedOf();
      const models = await lab(t);
      const replicas = await Replicas.start(t, await open(), models);
      const { faults, ...counts } = await watchWhileKilled(replicas, models, ROUNDS, randomOf(seed));
      t.diagnostic(JSON.stringify({ seed, ...counts }));
      assert.deepEqual(faults, []);
    });

    it("apply a cancel, delete, answer or steer to a run on another replica", async (t) => {
      const models = await lab(t);
      const replicas = await Replicas.start(t, await open(), models, { config: TRANSPORT_SCENARIOS_CONFIG });
      for (const [door, through] of Object.entries(TRANSPORT_SCENARIOS))
        t.diagnostic(`${door}: ${await through(replicas, models)} ms`);
      assert.doesNotMatch(replicas.stderr, / error /);
    });

    it("run the prompt of an idempotency key on another replica when the first one drains", async (t) => {
      const models = await lab(t, { fallback: say("Yes.") });
      const replicas = await Replicas.start(t, await open(), models);
      const balancer = await replicas.balancer();
      const headers = { "idempotency-key": "drained" };
      const body = { message: "think" };
      models.enqueue(STUCK);
      const first = ask(replicas.at(0), body, headers);
      let session = "";
      await until(async () => {
        const answer = await replicas.at(1).fetch("/api/runs");
        const { runs } = (await answer.json()) as { runs: { session_id: string }[] };
        session = runs[0]?.session_id ?? "";
        return session !== "" && (await stored(replicas.at(1), session)).length > 1;
      });
      // A request that waits on another server receives the answer of the run that replaces the first.
      const joined = Promise.all([1, 2].map((n) => ask(replicas.at(n), body, headers)));
      const exit = await replicas.down(0, "SIGTERM");
      assert.deepEqual(exit, { code: 0, signal: null });
      assert.deepEqual(await first, { status: 503, sessionId: session, output: "", error: "server shutting down" });
      for (const answer of [...(await joined), await ask({ fetch: fetchAt(balancer.url) }, body, headers)])
        assert.deepEqual(answer, { status: 200, sessionId: session, output: "Yes.", error: "" });
      const { runs } = (await (await replicas.at(2).fetch("/api/runs")).json()) as { runs: { state: string }[] };
      assert.deepEqual(
        runs.map(({ state }) => state),
        ["finished", "cancelled"],
      );
      assert.deepEqual(models.violations, []);
    });
  });

function fetchAt(origin: string) {
  return (path: string, init?: RequestInit) => fetch(new URL(path, origin), init);
}
