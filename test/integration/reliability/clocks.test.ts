// Servers whose clocks differ by hours share a store.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createServerConfig, fetchMessages, startModelServer, waitUntil } from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { createSessionConfig, SERVER_STORES } from "../../helpers/server-stores.js";
import { skewedClock } from "../../helpers/skewed-clock.js";
import { tempDir } from "../../helpers/temp-dir.js";

const FAST_MS = 5_400_000;
const SLOW_MS = -3_600_000;

interface RunReference {
  run_id: string;
  session_id: string;
}

async function startRun(server: GantryServer, body: object, headers: Record<string, string> = {}) {
  const init = { method: "POST", body: JSON.stringify({ background: true, ...body }), headers };
  const response = await server.fetch("/api/run", init);
  assert.equal(response.status, 202, await response.clone().text());
  return (await response.json()) as RunReference;
}

async function get<T>(server: GantryServer, path: string): Promise<T> {
  return (await (await server.fetch(path)).json()) as T;
}

const readState = async (server: GantryServer, { run_id }: RunReference): Promise<string> =>
  (await get<{ state: string }>(server, `/api/runs/${run_id}`)).state;

/** Returns the run in the state with which a watcher of the session starts. */
async function readWatchedRun(server: GantryServer, sessionId: string): Promise<{ id: string; state: string }> {
  const abort = new AbortController();
  const response = await server.fetch(`/api/sessions/${sessionId}/events`, { signal: abort.signal });
  let text = "";
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    const [, data] = /^event: state\n(?:id: .*\n)?data: (.*)\n/m.exec(text) ?? [];
    if (data === undefined) continue;
    abort.abort();
    return (JSON.parse(data) as { run: { id: string; state: string } }).run;
  }
  throw new Error(`no state in ${text}`);
}

describe("servers with different clocks on one store", { concurrency: true }, () => {
  for (const driver of SERVER_STORES) {
    it(`${driver}: agree on the state and the order of runs, sessions and keys`, async (t) => {
      const modelServer = await startModelServer(t);
      const home = await tempDir(t);
      const config = createServerConfig(modelServer, { session: await createSessionConfig(driver) });
      const options = { config, home: home.path };
      const [fast, slow] = await Promise.all([
        startServer(t, { ...options, env: skewedClock(FAST_MS) }),
        startServer(t, { ...options, env: skewedClock(SLOW_MS) }),
      ]);
      const servers = [fast, slow];
      const first = await startRun(fast, { message: "first" });
      const { session_id: sessionId } = first;
      await waitUntil(async () => (await readState(fast, first)) === "finished");

      modelServer.enqueue({ say: [{ gate: "second" }, { text: "second answer" }] });
      const requestCount = modelServer.requests.length;
      const key = { "idempotency-key": "k" };
      const body = { message: "second", session_id: sessionId };
      const second = await startRun(slow, body, key);
      await modelServer.waitForRequest(requestCount + 1);
      const third = await startRun(fast, { message: "third", session_id: sessionId, queue: true });
      const fourth = await startRun(slow, { message: "fourth", session_id: sessionId, queue: true });
      for (const server of servers) {
        assert.deepEqual(
          [await readState(server, second), await readState(server, third), await readState(server, fourth)],
          ["running", "queued", "queued"],
        );
        const { id, state } = await readWatchedRun(server, sessionId);
        assert.deepEqual([id, state], [second.run_id, "running"]);
        assert.equal((await startRun(server, body, key)).run_id, second.run_id, "the key finds the active run");
      }
      modelServer.openGate("second");
      await waitUntil(async () => (await readState(slow, fourth)) === "finished");
      const prompts = (await fetchMessages(fast, sessionId)).filter(({ role }) => role === "user");
      assert.deepEqual(
        prompts.map(({ content }) => content),
        ["first", "second", "third", "fourth"],
      );
      const newest = await startRun(slow, { message: "newest" });
      await waitUntil(async () => (await readState(slow, newest)) === "finished");
      for (const server of servers) {
        const { runs } = await get<{ runs: { id: string }[] }>(server, `/api/runs?session_id=${sessionId}`);
        assert.deepEqual(
          runs.map(({ id }) => id),
          [fourth, third, second, first].map(({ run_id }) => run_id),
        );
        const { id, state } = await readWatchedRun(server, sessionId);
        assert.deepEqual([id, state], [fourth.run_id, "finished"]);
        const { sessions } = await get<{ sessions: { id: string }[] }>(server, "/api/sessions");
        assert.deepEqual(
          sessions.map((session) => session.id),
          [newest.session_id, sessionId],
        );
      }
    });
  }
});
