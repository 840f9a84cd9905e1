// Runs whose client or server has gone. KEYS extends the race for a key.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { say, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { eventsOf } from "../../helpers/event-page.js";
import { ask, lab, labConfig, stored, until } from "../../helpers/lab.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { SERVER_STORES, sessionOn } from "../../helpers/server-stores.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

const KEYS = Number(process.env["KEYS"] ?? 5);
/** SQLite by default, because the driver checks prove that the drivers behave alike. `STORES` adds the others. */
const STORES = process.env["STORES"] ? SERVER_STORES : ["sqlite"];
const STALLED_ANSWER = { say: [{ text: "Hm" }, { stall: true as const }] };

interface Setup {
  models: FakeModelServer;
  /** Starts one more server on the store. */
  serve(): Promise<GantryServer>;
}

async function setUp(hooks: Hooks, driver: string): Promise<Setup> {
  const models = await lab(hooks, { fallback: say("Yes.") });
  const home = await tempDir(hooks);
  const project = await tempDir(hooks);
  const options = {
    config: labConfig(models, { session: await sessionOn(driver) }),
    home: home.path,
    projectDir: project.path,
  };
  return { models, serve: () => startServer(hooks, options) };
}

const post = (server: GantryServer, path: string, body: object, headers: Record<string, string> = {}) =>
  server.fetch(path, { method: "POST", body: JSON.stringify(body), headers });

/** Starts a background run whose model sends one word and then stalls. */
async function startStalledRun(
  server: GantryServer,
  models: FakeModelServer,
): Promise<{ run: string; session: string }> {
  models.enqueue(STALLED_ANSWER);
  const answer = await post(server, "/api/run", { message: "think", background: true });
  assert.equal(answer.status, 202);
  const { run_id: run, session_id: session } = (await answer.json()) as { run_id: string; session_id: string };
  await until(async () => (await stored(server, session)).length > 1);
  return { run, session };
}

async function runOf(server: GantryServer, id: string): Promise<{ state: string; session_id: string }> {
  const answer = await server.fetch(`/api/runs/${id}`);
  assert.equal(answer.status, 200);
  return (await answer.json()) as { state: string; session_id: string };
}

describe("a background run", { concurrency: true }, () => {
  for (const driver of STORES)
    it(`${driver}: is interrupted after a SIGKILL and restart of its server, and its session accepts a new prompt`, async (t) => {
      const { models, serve } = await setUp(t, driver);
      const first = await serve();
      const { run, session } = await startStalledRun(first, models);
      assert.equal((await runOf(first, run)).state, "running");
      await first.stop("SIGKILL");
      const second = await serve();
      assert.equal((await runOf(second, run)).state, "interrupted");
      const { runs } = (await (await second.fetch("/api/runs?state=interrupted")).json()) as { runs: { id: string }[] };
      assert.deepEqual(
        runs.map(({ id }) => id),
        [run],
      );
      const next = await ask(second, { message: "go on", session_id: session });
      assert.deepEqual([next.status, next.output], [200, "Yes."], next.error);
      assert.equal((await runOf(second, run)).state, "interrupted");
      assert.deepEqual(models.violations, []);
    });

  for (const driver of STORES)
    it(`${driver}: is reported as interrupted to a watcher in another process when its server is killed`, async (t) => {
      const { models, serve } = await setUp(t, driver);
      const [holder, otherServer] = await Promise.all([serve(), serve()]);
      const { run, session } = await startStalledRun(holder, models);
      const states: string[] = [];
      for await (const { type, data } of eventsOf(`${otherServer.url}/api/sessions/${session}/events`)) {
        if (type !== "state") continue;
        const { id, state } = (data as { run: { id: string; state: string } }).run;
        assert.equal(id, run);
        states.push(state);
        if (states.length === 1) await holder.stop("SIGKILL");
        if (state === "interrupted") break;
      }
      assert.deepEqual(states, ["running", "interrupted"]);
    });

  for (const driver of STORES)
    it(`${driver}: is cancelled via another server once its own resumes, or interrupted if its own is dead`, async (t) => {
      const { models, serve } = await setUp(t, driver);
      const [holder, otherServer] = await Promise.all([serve(), serve()]);
      const { run } = await startStalledRun(holder, models);
      holder.child.kill("SIGSTOP");
      const answer = await post(otherServer, `/api/runs/${run}/cancel`, {});
      assert.deepEqual([answer.status, ((await answer.json()) as { state: string }).state], [200, "running"]);
      holder.child.kill("SIGCONT");
      await until(async () => (await runOf(otherServer, run)).state === "cancelled");

      const secondRun = await startStalledRun(holder, models);
      await holder.stop("SIGKILL");
      const late = await post(otherServer, `/api/runs/${secondRun.run}/cancel`, {});
      assert.deepEqual([late.status, ((await late.json()) as { state: string }).state], [200, "interrupted"]);
      const sessionCancel = await post(otherServer, `/api/sessions/${secondRun.session}/cancel`, {});
      assert.deepEqual([sessionCancel.status, await sessionCancel.json()], [200, { run: null }]);
    });
});

describe("an idempotency key", { concurrency: true }, () => {
  for (const driver of STORES)
    it(`${driver}: creates one run when two servers receive it at the same time`, async (t) => {
      const { models, serve } = await setUp(t, driver);
      let answers = 0;
      models.fallback = () => say(`Answer ${(answers += 1)}.`);
      const servers = await Promise.all([serve(), serve()]);
      const seen = new Set<string>();
      for (let n = 0; n < KEYS; n += 1) {
        const answers = await Promise.all(
          servers.map(async (server) => {
            const answer = await post(server, "/api/run", { message: `ask ${n}` }, { "idempotency-key": `key-${n}` });
            const [run, session] = ["x-run-id", "x-session-id"].map((name) => answer.headers.get(name));
            return { status: answer.status, run, session, body: await answer.text() };
          }),
        );
        assert.deepEqual(answers[0], answers[1]);
        assert.equal(answers[0]?.status, 200, answers[0]?.body);
        seen.add(
          `${answers[0].run} ${answers[0].session} ${(JSON.parse(answers[0].body) as { output: string }).output}`,
        );
      }
      assert.equal(seen.size, KEYS);
      assert.equal(answers, KEYS);
      const { runs } = (await (await servers[0].fetch("/api/runs?size=1000")).json()) as { runs: unknown[] };
      assert.equal(runs.length, Math.min(KEYS, 100));
      const { total } = (await (await servers[1].fetch("/api/sessions?size=1")).json()) as { total: number };
      assert.equal(total, KEYS);
      t.diagnostic(`${KEYS} keys, ${seen.size} runs, ${answers} answers of the model`);
    });

  for (const driver of STORES)
    it(`${driver}: starts one new run in the same session if the server of the first run was killed`, async (t) => {
      const { models, serve } = await setUp(t, driver);
      const [holder, otherServer] = await Promise.all([serve(), serve()]);
      models.enqueue(STALLED_ANSWER);
      const headers = { "idempotency-key": "heal" };
      const body = { message: "think" };
      const brokenRequest = assert.rejects(post(holder, "/api/run", body, headers).then((answer) => answer.text()));
      let first: { id: string; session_id: string } | undefined;
      await until(async () => {
        const { runs } = (await (await otherServer.fetch("/api/runs")).json()) as { runs: (typeof first)[] };
        [first] = runs;
        return first !== undefined && (await stored(otherServer, first.session_id)).length > 1;
      });
      await holder.stop("SIGKILL");
      await brokenRequest;
      const again = await post(otherServer, "/api/run", body, headers);
      assert.equal(again.status, 200);
      assert.equal(again.headers.get("x-session-id"), first?.session_id);
      assert.notEqual(again.headers.get("x-run-id"), first?.id);
      const text = await again.text();
      assert.equal((JSON.parse(text) as { output: string }).output, "Yes.");
      const third = await post(await serve(), "/api/run", body, headers);
      assert.deepEqual(
        [third.headers.get("x-run-id"), await third.text()],
        [again.headers.get("x-run-id"), text],
        "the answer of before",
      );
      assert.deepEqual(models.violations, []);
    });
});
