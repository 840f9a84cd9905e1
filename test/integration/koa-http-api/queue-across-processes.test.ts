import assert from "node:assert/strict";
import { it } from "node:test";
import { sseEvents } from "../../helpers/http.js";
import { lab, labConfig, stored, until } from "../../helpers/lab.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { SERVER_STORES, sessionOn } from "../../helpers/server-stores.js";
import { makeTempDir } from "../../helpers/temp.js";

/** SQLite by default, because the driver checks prove that the drivers behave alike. `STORES` adds the others. */
const STORES = process.env["STORES"] ? SERVER_STORES : ["sqlite"];

for (const driver of STORES)
  it(`a queue of two servers continues after one of them is killed (${driver})`, async (t) => {
    const models = await lab(t);
    models.enqueue({ say: [{ gate: "never" }, { text: "never" }] });
    const home = await makeTempDir();
    t.after(() => home.remove());
    const config = labConfig(models, { session: await sessionOn(driver) });
    const [a, b] = await Promise.all([
      startServer(t, { home: home.path, config }),
      startServer(t, { home: home.path, config }),
    ]);
    const background = async (server: GantryServer, message: string, session_id?: string) => {
      const body = JSON.stringify({ message, background: true, queue: true, session_id });
      const response = await server.fetch("/api/run", { method: "POST", body });
      assert.equal(response.status, 202);
      return (await response.json()) as { run_id: string; session_id: string };
    };
    const stateOf = async (id: string): Promise<string> => {
      const { state } = (await (await b.fetch(`/api/runs/${id}`)).json()) as { state: string };
      return state;
    };
    const current = await background(a, "under way");
    const { session_id: session } = current;
    await models.request(1);
    const queuedRunIds = [
      await background(a, "a1", session),
      await background(b, "b1", session),
      await background(a, "a2", session),
      await background(b, "b2", session),
    ].map(({ run_id }) => run_id);
    assert.deepEqual(await Promise.all(queuedRunIds.map(stateOf)), Array(4).fill("queued"));
    await a.stop("SIGKILL");
    // A reader sees the end at once.
    assert.deepEqual(
      await Promise.all([current.run_id, queuedRunIds[0]!, queuedRunIds[2]!].map(stateOf)),
      Array(3).fill("interrupted"),
    );
    await until(async () => (await stateOf(queuedRunIds[3]!)) === "finished");
    assert.equal(await stateOf(queuedRunIds[1]!), "finished");
    const prompts = (await stored(b, session)).filter(({ role }) => role === "user").map(({ content }) => content);
    assert.deepEqual(prompts, ["under way", "b1", "b2"]);
    // The runs of the dead process are stored as interrupted, and no run is queued.
    const { runs } = (await (await b.fetch("/api/runs?state=queued")).json()) as { runs: unknown[] };
    assert.deepEqual(runs, []);
  });

it("a client that joined a run gets run_interrupted when the run's server is killed, and can retry its key", async (t) => {
  const models = await lab(t);
  models.enqueue({ say: [{ gate: "never" }, { text: "never" }] });
  const home = await makeTempDir();
  t.after(() => home.remove());
  const config = labConfig(models);
  const [a, b] = await Promise.all([
    startServer(t, { home: home.path, config }),
    startServer(t, { home: home.path, config }),
  ]);
  const ask = (server: GantryServer) =>
    server.fetch("/api/run", {
      method: "POST",
      headers: { "idempotency-key": "k" },
      body: JSON.stringify({ message: "once", stream: true }),
    });
  const first = await ask(a);
  await models.request(1);
  const joined = await ask(b);
  assert.equal(joined.headers.get("x-run-id"), first.headers.get("x-run-id"));
  await a.stop("SIGKILL");
  await assert.rejects(first.text());
  const joinedEvents = sseEvents(await joined.text());
  assert.deepEqual(joinedEvents, [{ event: "error", data: { error: "run interrupted", code: "run_interrupted" } }]);
  const retried = await ask(b);
  assert.match(await retried.text(), /event: done/);
  assert.equal(retried.headers.get("x-session-id"), first.headers.get("x-session-id"));
});
