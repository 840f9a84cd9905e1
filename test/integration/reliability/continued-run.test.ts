// Kills a server with SIGKILL at random places of a run with an idempotency key, and repeats the request each time.
// TRIALS and SEED extend and repeat the test.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { FakeRequest, FakeStep } from "../../helpers/fake-model-server.js";
import { createRandom, readSeed } from "../../helpers/random.js";
import { createServerConfig, fetchMessages, startModelServer, waitUntil } from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { createSessionConfig, SERVER_STORES } from "../../helpers/server-stores.js";
import { tempDir } from "../../helpers/temp-dir.js";

const TRIAL_COUNT = Number(process.env["TRIALS"] ?? 1);
const KILLS_PER_TRIAL = 3;
const CALL_COUNT = 4;
const MAX_DELAY_MS = 60;

const ANSWER_PIECES = Array.from({ length: 60 }, (_, n) => `${n};`);
/** JSON driver: started alone, because its servers cannot be combined with `SERVER_STORES`. */
const STORES = process.env["STORES"] ? SERVER_STORES : ["sqlite", "json"];

/** Returns the numbers of the calls whose result the model has got, and whose command has run. */
function findFinishedCalls({ body }: Pick<FakeRequest, "body">): number[] {
  return [...JSON.stringify(body).matchAll(/call-(\d+)-done/g)].map(([, n]) => Number(n));
}

/** Requests the next command, or answers after the last one. A command prints its mark only when it has finished. */
function answerNext(request: FakeRequest): FakeStep {
  const next = new Set(findFinishedCalls(request)).size;
  if (next < CALL_COUNT) {
    const command = `echo ${next} >> calls.txt; printf 'call-%s-done' ${next}`;
    return { say: [{ text: `Call ${next}.` }, { call: { name: "bash", arguments: { command } } }] };
  }
  // Time: the pace leaves places for a kill between the batches of the answer.
  return { say: [{ text: ANSWER_PIECES }], pace: 4 };
}

interface RepeatedRequest {
  readonly key: string;
  readonly message: string;
}

async function sendRequest(server: GantryServer, { key, message }: RepeatedRequest) {
  const response = await server.fetch("/api/run", {
    method: "POST",
    body: JSON.stringify({ message }),
    headers: { "idempotency-key": key },
  });
  const { output } = (await response.json()) as { output?: string };
  const runId = response.headers.get("x-run-id") ?? "";
  return { status: response.status, sessionId: response.headers.get("x-session-id") ?? "", runId, output };
}

describe("a run with an idempotency key whose server is killed", { concurrency: true }, () => {
  for (const driver of STORES) {
    it(`${driver}: continues in place with each repeat: one prompt, each finished call once, the whole answer`, async (t) => {
      const seed = readSeed();
      t.diagnostic(`SEED=${seed} TRIALS=${TRIAL_COUNT}`);
      const random = createRandom(seed);
      const modelServer = await startModelServer(t);
      modelServer.fallback = answerNext;
      const home = await tempDir(t);
      const project = await tempDir(t);
      const config = createServerConfig(modelServer, { session: await createSessionConfig(driver) });
      const start = () => startServer(t, { config, home: home.path, projectDir: project.path });
      let killCount = 0;
      let server = await start();
      for (let trial = 0; trial < TRIAL_COUNT; trial += 1) {
        const request = { key: `key-${trial}`, message: `count-to-the-end ${trial}` };
        for (let kill = 0; kill < KILLS_PER_TRIAL; kill += 1) {
          const firstRequest = modelServer.requests.length;
          const response = sendRequest(server, request).catch(() => undefined);
          const requestCount = 1 + Math.floor(random() * (CALL_COUNT + 1 - kill));
          let hasEnded = false;
          void response.then(() => (hasEnded = true));
          await waitUntil(() => hasEnded || modelServer.requests.length >= firstRequest + requestCount);
          // Time: a kill between two events.
          await sleep(random() * MAX_DELAY_MS);
          await server.stop("SIGKILL");
          killCount += 1;
          await response;
          server = await start();
        }
        const { status, sessionId, runId, output } = await sendRequest(server, request);
        assert.deepEqual([status, output], [200, ANSWER_PIECES.join("")]);
        const messages = await fetchMessages(server, sessionId);
        assert.equal(messages.filter(({ role }) => role === "user").length, 1, "the prompt is stored once");
        const finishedCalls = messages.flatMap(({ role, content }) =>
          role === "tool" ? [...(/call-(\d+)-done/.exec(content)?.slice(1) ?? [])] : [],
        );
        assert.deepEqual(finishedCalls, ["0", "1", "2", "3"], "each finished call has one result");
        assert.equal(messages.at(-1)?.content, ANSWER_PIECES.join(""));
        const { runs } = (await (await server.fetch(`/api/runs?session_id=${sessionId}`)).json()) as {
          runs: { id: string; state: string }[];
        };
        assert.deepEqual(
          runs.map(({ id, state }) => [id, state]),
          [[runId, "finished"]],
        );
        const repeated = await sendRequest(server, request);
        assert.deepEqual([repeated.runId, repeated.output], [runId, output]);
      }
      // A command of an interrupted call can run again, a finished one cannot.
      const executions = (await readFile(project.at("calls.txt"), "utf8")).trim().split("\n").length;
      t.diagnostic(`${killCount} kills, ${executions} commands for ${TRIAL_COUNT * CALL_COUNT} calls`);
      assert.ok(executions <= TRIAL_COUNT * CALL_COUNT + killCount);
      assert.deepEqual(modelServer.violations, []);
    });
  }
});
