import assert from "node:assert/strict";
import { it } from "node:test";
import { parseSseEvents } from "../../helpers/raw-http.js";
import { startModelServer, createServerConfig, fetchMessages, waitUntil } from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { SERVER_STORES, createSessionConfig } from "../../helpers/server-stores.js";
import { makeTempDir } from "../../helpers/temp-dir.js";

/** SQLite by default, because the driver checks prove that all drivers behave alike. `STORES` adds other drivers. */
const STORES = process.env["STORES"] ? SERVER_STORES : ["sqlite"];

for (const driver of STORES)
  it(`a queue of two servers continues after one server is killed (${driver})`, async (t) => {
    const modelServer = await startModelServer(t);
    modelServer.enqueue({ say: [{ gate: "never" }, { text: "never" }] });
    const home = await makeTempDir();
    t.after(() => home.remove());
    const config = createServerConfig(modelServer, { session: await createSessionConfig(driver) });
    const [serverA, serverB] = await Promise.all([
      startServer(t, { home: home.path, config }),
      startServer(t, { home: home.path, config }),
    ]);
    const startBackgroundRun = async (server: GantryServer, message: string, session_id?: string) => {
      const body = JSON.stringify({ message, background: true, queue: true, session_id });
      const response = await server.fetch("/api/run", { method: "POST", body });
      assert.equal(response.status, 202);
      return (await response.json()) as { run_id: string; session_id: string };
    };
    const readRunState = async (id: string): Promise<string> => {
      const { state } = (await (await serverB.fetch(`/api/runs/${id}`)).json()) as { state: string };
      return state;
    };
    const activeRun = await startBackgroundRun(serverA, "under way");
    const { session_id: sessionId } = activeRun;
    await modelServer.waitForRequest(1);
    const queuedRunIds = [
      await startBackgroundRun(serverA, "a1", sessionId),
      await startBackgroundRun(serverB, "b1", sessionId),
      await startBackgroundRun(serverA, "a2", sessionId),
      await startBackgroundRun(serverB, "b2", sessionId),
    ].map(({ run_id }) => run_id);
    assert.deepEqual(await Promise.all(queuedRunIds.map(readRunState)), Array(4).fill("queued"));
    await serverA.stop("SIGKILL");
    // The surviving server reports the interruption at once.
    assert.deepEqual(
      await Promise.all([activeRun.run_id, queuedRunIds[0]!, queuedRunIds[2]!].map(readRunState)),
      Array(3).fill("interrupted"),
    );
    await waitUntil(async () => (await readRunState(queuedRunIds[3]!)) === "finished");
    assert.equal(await readRunState(queuedRunIds[1]!), "finished");
    const prompts = (await fetchMessages(serverB, sessionId))
      .filter(({ role }) => role === "user")
      .map(({ content }) => content);
    assert.deepEqual(prompts, ["under way", "b1", "b2"]);
    // The runs of the killed process are stored as interrupted, and no run is queued.
    const { runs } = (await (await serverB.fetch("/api/runs?state=queued")).json()) as { runs: unknown[] };
    assert.deepEqual(runs, []);
  });

it("a client that joined a run receives run_interrupted when the run's server is killed, and can retry the idempotency key", async (t) => {
  const modelServer = await startModelServer(t);
  modelServer.enqueue({ say: [{ gate: "never" }, { text: "never" }] });
  const home = await makeTempDir();
  t.after(() => home.remove());
  const config = createServerConfig(modelServer);
  const [serverA, serverB] = await Promise.all([
    startServer(t, { home: home.path, config }),
    startServer(t, { home: home.path, config }),
  ]);
  const sendRequest = (server: GantryServer) =>
    server.fetch("/api/run", {
      method: "POST",
      headers: { "idempotency-key": "k" },
      body: JSON.stringify({ message: "once", stream: true }),
    });
  const firstResponse = await sendRequest(serverA);
  await modelServer.waitForRequest(1);
  const joinedResponse = await sendRequest(serverB);
  assert.equal(joinedResponse.headers.get("x-run-id"), firstResponse.headers.get("x-run-id"));
  await serverA.stop("SIGKILL");
  await assert.rejects(firstResponse.text());
  const joinedEvents = parseSseEvents(await joinedResponse.text());
  assert.deepEqual(joinedEvents, [{ event: "error", data: { error: "run interrupted", code: "run_interrupted" } }]);
  const retryResponse = await sendRequest(serverB);
  assert.match(await retryResponse.text(), /event: done/);
  assert.equal(retryResponse.headers.get("x-session-id"), firstResponse.headers.get("x-session-id"));
});
