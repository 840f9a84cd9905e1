// Background runs after the end of their client or server. The variable KEYS sets the number of idempotency keys.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { textStep, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { readSessionEvents } from "../../helpers/event-page.js";
import {
  runPrompt,
  startModelServer,
  createServerConfig,
  fetchMessages,
  waitUntil,
} from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { SERVER_STORES, createSessionConfig } from "../../helpers/server-stores.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

const KEY_COUNT = Number(process.env["KEYS"] ?? 5);
/** SQLite by default, because the driver checks prove that all drivers behave alike. `STORES` adds other drivers. */
const STORES = process.env["STORES"] ? SERVER_STORES : ["sqlite"];
const STALLED_ANSWER = { say: [{ text: "Hm" }, { stall: true as const }] };

interface Setup {
  modelServer: FakeModelServer;
  /** Starts one more server on the store. */
  serve(): Promise<GantryServer>;
}

async function createSetup(hooks: Hooks, driver: string): Promise<Setup> {
  const modelServer = await startModelServer(hooks, { fallback: textStep("Yes.") });
  const home = await tempDir(hooks);
  const project = await tempDir(hooks);
  const options = {
    config: createServerConfig(modelServer, { session: await createSessionConfig(driver) }),
    home: home.path,
    projectDir: project.path,
  };
  return { modelServer, serve: () => startServer(hooks, options) };
}

const post = (server: GantryServer, path: string, body: object, headers: Record<string, string> = {}) =>
  server.fetch(path, { method: "POST", body: JSON.stringify(body), headers });

/** Starts a background run whose model sends one word and then stalls. */
async function startStalledRun(
  server: GantryServer,
  modelServer: FakeModelServer,
): Promise<{ runId: string; sessionId: string }> {
  modelServer.enqueue(STALLED_ANSWER);
  const startResponse = await post(server, "/api/run", { message: "think", background: true });
  assert.equal(startResponse.status, 202);
  const { run_id: runId, session_id: sessionId } = (await startResponse.json()) as {
    run_id: string;
    session_id: string;
  };
  await waitUntil(async () => (await fetchMessages(server, sessionId)).length > 1);
  return { runId, sessionId };
}

async function readRun(server: GantryServer, id: string): Promise<{ state: string; session_id: string }> {
  const runResponse = await server.fetch(`/api/runs/${id}`);
  assert.equal(runResponse.status, 200);
  return (await runResponse.json()) as { state: string; session_id: string };
}

describe("a background run", { concurrency: true }, () => {
  for (const driver of STORES)
    it(`${driver}: is interrupted after a SIGKILL and restart of its server, and its session accepts a new prompt`, async (t) => {
      const { modelServer, serve } = await createSetup(t, driver);
      const firstServer = await serve();
      const { runId, sessionId } = await startStalledRun(firstServer, modelServer);
      assert.equal((await readRun(firstServer, runId)).state, "running");
      await firstServer.stop("SIGKILL");
      const secondServer = await serve();
      assert.equal((await readRun(secondServer, runId)).state, "interrupted");
      const { runs } = (await (await secondServer.fetch("/api/runs?state=interrupted")).json()) as {
        runs: { id: string }[];
      };
      assert.deepEqual(
        runs.map(({ id }) => id),
        [runId],
      );
      const nextAnswer = await runPrompt(secondServer, { message: "go on", session_id: sessionId });
      assert.deepEqual([nextAnswer.status, nextAnswer.output], [200, "Yes."], nextAnswer.error);
      assert.equal((await readRun(secondServer, runId)).state, "interrupted");
      assert.deepEqual(modelServer.violations, []);
    });

  for (const driver of STORES)
    it(`${driver}: is reported as interrupted to a watcher in another process when its server is killed`, async (t) => {
      const { modelServer, serve } = await createSetup(t, driver);
      const [runServer, otherServer] = await Promise.all([serve(), serve()]);
      const { runId, sessionId } = await startStalledRun(runServer, modelServer);
      const states: string[] = [];
      for await (const { type, data } of readSessionEvents(`${otherServer.url}/api/sessions/${sessionId}/events`)) {
        if (type !== "state") continue;
        const { id, state } = (data as { run: { id: string; state: string } }).run;
        assert.equal(id, runId);
        states.push(state);
        if (states.length === 1) await runServer.stop("SIGKILL");
        if (state === "interrupted") break;
      }
      assert.deepEqual(states, ["running", "interrupted"]);
    });

  for (const driver of STORES)
    it(`${driver}: is cancelled through another server when its own server resumes, and interrupted if its own server is dead`, async (t) => {
      const { modelServer, serve } = await createSetup(t, driver);
      const [runServer, otherServer] = await Promise.all([serve(), serve()]);
      const { runId } = await startStalledRun(runServer, modelServer);
      runServer.child.kill("SIGSTOP");
      const cancelResponse = await post(otherServer, `/api/runs/${runId}/cancel`, {});
      assert.deepEqual(
        [cancelResponse.status, ((await cancelResponse.json()) as { state: string }).state],
        [200, "running"],
      );
      runServer.child.kill("SIGCONT");
      await waitUntil(async () => (await readRun(otherServer, runId)).state === "cancelled");

      const secondRun = await startStalledRun(runServer, modelServer);
      await runServer.stop("SIGKILL");
      const deadServerResponse = await post(otherServer, `/api/runs/${secondRun.runId}/cancel`, {});
      assert.deepEqual(
        [deadServerResponse.status, ((await deadServerResponse.json()) as { state: string }).state],
        [200, "interrupted"],
      );
      const sessionCancelResponse = await post(otherServer, `/api/sessions/${secondRun.sessionId}/cancel`, {});
      assert.deepEqual([sessionCancelResponse.status, await sessionCancelResponse.json()], [200, { run: null }]);
    });
});

describe("an idempotency key", { concurrency: true }, () => {
  for (const driver of STORES)
    it(`${driver}: creates one run when two servers receive it at the same time`, async (t) => {
      const { modelServer, serve } = await createSetup(t, driver);
      let answerCount = 0;
      modelServer.fallback = () => textStep(`Answer ${(answerCount += 1)}.`);
      const servers = await Promise.all([serve(), serve()]);
      const distinctResponses = new Set<string>();
      for (let n = 0; n < KEY_COUNT; n += 1) {
        const responses = await Promise.all(
          servers.map(async (server) => {
            const response = await post(server, "/api/run", { message: `ask ${n}` }, { "idempotency-key": `key-${n}` });
            const [run, session] = ["x-run-id", "x-session-id"].map((name) => response.headers.get(name));
            return { status: response.status, run, session, body: await response.text() };
          }),
        );
        assert.deepEqual(responses[0], responses[1]);
        assert.equal(responses[0]?.status, 200, responses[0]?.body);
        distinctResponses.add(
          `${responses[0].run} ${responses[0].session} ${(JSON.parse(responses[0].body) as { output: string }).output}`,
        );
      }
      assert.equal(distinctResponses.size, KEY_COUNT);
      assert.equal(answerCount, KEY_COUNT);
      const { runs } = (await (await servers[0].fetch("/api/runs?size=1000")).json()) as { runs: unknown[] };
      // A page has at most 100 runs.
      assert.equal(runs.length, Math.min(KEY_COUNT, 100));
      const { total } = (await (await servers[1].fetch("/api/sessions?size=1")).json()) as { total: number };
      assert.equal(total, KEY_COUNT);
      t.diagnostic(`${KEY_COUNT} keys, ${distinctResponses.size} runs, ${answerCount} answers of the model`);
    });

  for (const driver of STORES)
    it(`${driver}: continues in place if the server of the run was killed`, async (t) => {
      const { modelServer, serve } = await createSetup(t, driver);
      const [runServer, otherServer] = await Promise.all([serve(), serve()]);
      modelServer.enqueue(STALLED_ANSWER);
      const headers = { "idempotency-key": "heal" };
      const body = { message: "think" };
      const brokenRequest = assert.rejects(
        post(runServer, "/api/run", body, headers).then((response) => response.text()),
      );
      let firstRun: { id: string; session_id: string } | undefined;
      await waitUntil(async () => {
        const { runs } = (await (await otherServer.fetch("/api/runs")).json()) as { runs: (typeof firstRun)[] };
        [firstRun] = runs;
        return firstRun !== undefined && (await fetchMessages(otherServer, firstRun.session_id)).length > 1;
      });
      await runServer.stop("SIGKILL");
      await brokenRequest;
      const retryResponse = await post(otherServer, "/api/run", body, headers);
      assert.equal(retryResponse.status, 200);
      assert.equal(retryResponse.headers.get("x-session-id"), firstRun?.session_id);
      assert.equal(retryResponse.headers.get("x-run-id"), firstRun?.id);
      const messages = await fetchMessages(otherServer, firstRun?.session_id ?? "");
      assert.deepEqual(
        messages.map(({ role }) => role),
        ["user", "assistant"],
      );
      const retryText = await retryResponse.text();
      assert.equal((JSON.parse(retryText) as { output: string }).output, "Yes.");
      const thirdResponse = await post(await serve(), "/api/run", body, headers);
      assert.deepEqual(
        [thirdResponse.headers.get("x-run-id"), await thirdResponse.text()],
        [retryResponse.headers.get("x-run-id"), retryText],
        "a third request repeats the answer of the second",
      );
      assert.deepEqual(modelServer.violations, []);
    });
});
