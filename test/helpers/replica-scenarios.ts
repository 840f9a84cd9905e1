import assert from "node:assert/strict";
import { HttpPeer } from "./acp-http.js";
import type { FakeModelServer, FakeStep } from "./fake-model-server.js";
import { HttpWatcher } from "./http-watcher.js";
import { findStoredHistoryFaults } from "./replica-load.js";
import {
  runPrompt,
  countProcesses,
  startStreamedRun,
  pickUniqueSeconds,
  waitUntil,
  type StreamedRun,
} from "./server-runs.js";
import type { Replicas } from "./replicas.js";
import type { GantryServer } from "./server.js";

/** Chunks of an answer. */
const createWords = (name: string, count: number) => Array.from({ length: count }, (_, n) => `${name}${n} `);
const post = (server: GantryServer, path: string, body: object = {}, headers: Record<string, string> = {}) =>
  server.fetch(path, { method: "POST", body: JSON.stringify(body), headers });

/** Starts a streamed run, again after each 503: on a busy machine the database does not always answer in time. */
async function startWhenAvailable(server: GantryServer, body: object): Promise<StreamedRun> {
  let run: StreamedRun | undefined;
  await waitUntil(async () => {
    run = await startStreamedRun(server, body).catch((error: unknown) => {
      if (error instanceof Error && /^503: .*"store_unavailable"/.test(error.message)) return undefined;
      throw error;
    });
    return run !== undefined;
  });
  return run!;
}

interface ListedRun {
  id: string;
  state: string;
}

async function waitForRunState(server: GantryServer, runId: string, state: string): Promise<void> {
  await waitUntil(async () => ((await (await server.fetch(`/api/runs/${runId}`)).json()) as ListedRun).state === state);
}

/**
 * One client watches at the first replica. In each of `rounds` rounds, the second replica runs the session and is
 * killed during an answer, and the third replica continues. Another watcher's connection drops randomly and reconnects
 * at any replica. Resolves with the events of the first watcher, the connections of the second watcher, and faults of
 * both.
 */
export async function watchDuringKills(
  replicas: Replicas,
  models: FakeModelServer,
  rounds: number,
  random: () => number,
): Promise<{ events: number; connections: number; faults: string[] }> {
  const [firstReplica, thirdReplica] = [replicas.getServer(0), replicas.getServer(2)];
  models.enqueue({ say: [{ text: "First." }] });
  const { sessionId } = await runPrompt(thirdReplica, { message: "begin" });
  const path = `/api/sessions/${sessionId}`;
  // Stays connected to one server.
  const steadyWatcher = new HttpWatcher(
    `${path}/events`,
    () => firstReplica.url,
    () => 0.1,
  );
  const restlessWatcher = new HttpWatcher(
    `${path}/events`,
    () => replicas.urls[Math.floor(random() * replicas.count)],
    random,
  );
  try {
    for (let round = 0; round < rounds; round += 1) {
      const reasoning = { reasoning: createWords("why", 3) };
      const call = { call: { name: "glob", arguments: { pattern: "*" } } };
      models.enqueue(
        { say: [reasoning, { text: "Let me look. " }, call] },
        { say: [{ text: createWords("lost", 400) }], pace: 5 },
        { say: [reasoning, { text: createWords("kept", 20) }, call], pace: 2 },
        { say: [{ text: createWords("end", 20) }], pace: 2 },
      );
      const interruptedRun = await startWhenAvailable(replicas.getServer(1), {
        message: `round ${round}`,
        session_id: sessionId,
      });
      await interruptedRun.waitForCharacters(60 + Math.floor(random() * 200));
      await replicas.stopReplica(1, "SIGKILL");
      await interruptedRun.ended;
      const nextRun = await runPrompt(thirdReplica, { message: `go on ${round}`, session_id: sessionId });
      assert.deepEqual([nextRun.status, nextRun.error], [200, ""]);
      await replicas.startReplica(1);
    }
    let expectedText = "";
    const isComplete = ({ page }: HttpWatcher) => JSON.stringify({ messages: page.messages }) === expectedText;
    // Compares twice: a late or repeated event arrives before the events of the last answer.
    for (let round = 0; round < 2; round += 1) {
      if (round > 0) models.enqueue({ say: [{ text: "Last." }] });
      if (round > 0)
        assert.equal((await runPrompt(thirdReplica, { message: "end", session_id: sessionId })).output, "Last.");
      expectedText = await (await thirdReplica.fetch(`${path}/messages`)).text();
      // The checks below report which watcher differs.
      await waitUntil(() => [steadyWatcher, restlessWatcher].every(isComplete)).catch(() => undefined);
    }
    const faults = [steadyWatcher, restlessWatcher].flatMap((watcher, n) => [
      ...watcher.page.faults,
      ...(isComplete(watcher) ? [] : [`watcher ${n} differs from the stored messages`]),
      ...(watcher.page.repeatedMessages > 0
        ? [`watcher ${n} received ${watcher.page.repeatedMessages} messages twice`]
        : []),
    ]);
    const { messages } = JSON.parse(expectedText) as { messages: Parameters<typeof findStoredHistoryFaults>[0] };
    faults.push(...findStoredHistoryFaults(messages), ...models.violations);
    return { events: steadyWatcher.page.events, connections: restlessWatcher.connections, faults };
  } finally {
    await Promise.all([steadyWatcher.end(), restlessWatcher.end()]);
  }
}

/** Starts a run at the first replica whose tool sleeps in a shell. `waitForSleepEnd` waits until the sleep has ended. */
async function startSleepingRun(replicas: Replicas, models: FakeModelServer) {
  const seconds = pickUniqueSeconds();
  models.enqueue({
    say: [{ call: { name: "bash", arguments: { command: `sleep ${seconds} & wait`, timeout: 600 } } }],
  });
  const response = await post(replicas.getServer(0), "/api/run", { message: "sleep", background: true });
  const { run_id: runId, session_id: sessionId } = (await response.json()) as { run_id: string; session_id: string };
  const countSleepers = () => countProcesses(`sleep ${seconds}`);
  await waitUntil(async () => (await countSleepers()) > 0);
  const waitForSleepEnd = () => waitUntil(async () => (await countSleepers()) === 0);
  return { runId, sessionId, waitForSleepEnd };
}

/**
 * Requests for a run that are sent to another replica. Each resolves with the time until the request took effect, in
 * ms.
 */
export const TRANSPORT_SCENARIOS: Readonly<
  Record<string, (replicas: Replicas, models: FakeModelServer) => Promise<number>>
> = {
  "a cancel ends the run, and its tool's processes": async (replicas, models) => {
    const { runId, waitForSleepEnd } = await startSleepingRun(replicas, models);
    const startMs = Date.now();
    assert.equal((await post(replicas.getServer(1), `/api/runs/${runId}/cancel`)).status, 200);
    await Promise.all([waitForSleepEnd(), waitForRunState(replicas.getServer(2), runId, "cancelled")]);
    return Date.now() - startMs;
  },
  "a delete ends the run, and its tool's processes": async (replicas, models) => {
    const { sessionId, waitForSleepEnd } = await startSleepingRun(replicas, models);
    const startMs = Date.now();
    const path = `/api/sessions/${sessionId}`;
    assert.equal((await replicas.getServer(1).fetch(path, { method: "DELETE" })).status, 200);
    await waitForSleepEnd();
    assert.equal((await replicas.getServer(0).fetch(path)).status, 404);
    return Date.now() - startMs;
  },
  "an answer to a question lets its tool run": async (replicas, models) => {
    models.enqueue(
      { say: [{ call: { name: "write", arguments: { path: "asked.txt", content: "yes" } } }] },
      { say: [{ text: "Written." }] },
    );
    const responsePromise = post(replicas.getServer(0), "/api/run", { message: "write", mode: "ask" });
    let asks: { id: string; title: string }[] = [];
    await waitUntil(async () => {
      ({ asks } = (await (await replicas.getServer(1).fetch("/api/asks")).json()) as { asks: typeof asks });
      return asks.length > 0;
    });
    const startMs = Date.now();
    const answeringReplica = replicas.getServer(1);
    const path = `/api/asks/${asks[0]!.id}`;
    assert.equal((await post(answeringReplica, path, { choice: "allow" }, answeringReplica.personHeaders)).status, 200);
    assert.equal(((await (await responsePromise).json()) as { output: string }).output, "Written.");
    return Date.now() - startMs;
  },
  "a steer is accepted while a tool runs": async (replicas, models) => {
    const { runId, sessionId, waitForSleepEnd } = await startSleepingRun(replicas, models);
    const startMs = Date.now();
    const steerResponse = await post(replicas.getServer(1), `/api/sessions/${sessionId}/steer`, {
      message: "to the left",
    });
    assert.equal(steerResponse.status, 200);
    const durationMs = Date.now() - startMs;
    // The instruction waits for the model's next request, which comes when the tool has ended: here by a cancel.
    assert.equal((await post(replicas.getServer(2), `/api/runs/${runId}/cancel`)).status, 200);
    await waitForSleepEnd();
    return durationMs;
  },
  "a session/cancel of an ACP client ends the run": async (replicas, models) => {
    const { runId, sessionId, waitForSleepEnd } = await startSleepingRun(replicas, models);
    const peer = new HttpPeer(`${replicas.urls[1]}/acp`);
    await peer.open();
    const eventStream = await peer.openStream();
    await peer.request("session/load", { sessionId, cwd: replicas.projectDir, mcpServers: [] });
    const startMs = Date.now();
    peer.notify("session/cancel", { sessionId });
    await Promise.all([waitForSleepEnd(), waitForRunState(replicas.getServer(2), runId, "cancelled")]);
    const durationMs = Date.now() - startMs;
    eventStream.close();
    await peer.closeConnection();
    peer.assertNoValidationErrors();
    return durationMs;
  },
};

/** Config of the replicas for TRANSPORT_SCENARIOS. */
export const TRANSPORT_SCENARIOS_CONFIG = {
  server: { transports: ["koa-http-api", "acp-http-sse-ws"] },
  permissions: { unattended: "wait", timeout: 60 },
};

/** An answer that stalls after its first text. */
export const STALLED_ANSWER: FakeStep = { say: [{ text: "Hm" }, { stall: true }] };
