// Servers on one store whose hosts cannot see each other's processes. LEASES=1 waits until a lease expires.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { currentHolder } from "gantry/plugin";
import { HttpPeer } from "../../helpers/acp-http.js";
import { say } from "../../helpers/fake-model-server.js";
import { ask, lab, stored, until } from "../../helpers/lab.js";
import { otherHost, withoutFolder } from "../../helpers/namespaces.js";
import { STUCK } from "../../helpers/replica-scenarios.js";
import { driverOf, Replicas, SHARED_STORES, type SharedStore } from "../../helpers/replicas.js";
import { tempDir } from "../../helpers/temp.js";

const hosts = await Promise.all(["host-a", "host-b"].map(otherHost));
const noHosts = hosts.find((host) => typeof host === "string") ?? false;

/** Lets the lease of a chain expire. */
async function endLease(store: SharedStore, session: string): Promise<void> {
  const driver = await driverOf(store);
  try {
    const held = await driver.lease(session, currentHolder("probe"), 1);
    assert.ok("heldBy" in held, "the dead one's lease went to another before its time");
    // Renews the lease as its holder, for 1 ms.
    await driver.lease(session, held.heldBy.holder, 1);
  } finally {
    await driver.close();
  }
}

for (const [name, skip, open] of SHARED_STORES)
  describe(`replicas on separate hosts with ${name}`, { skip: skip || noHosts }, () => {
    it("reject runs and loads of a session whose folder is missing on their host, and store nothing", async (t) => {
      const shared = await tempDir(t, { "project/a.txt": "a" });
      const project = shared.at("project");
      const otherFolder = await tempDir(t);
      const through = await withoutFolder(shared.path);
      if (typeof through === "string") return t.skip(through);
      const models = await lab(t, { fallback: say("Yes.") });
      const config = { server: { transports: ["koa-http-api", "acp-http-sse-ws"] } };
      const replicas = await Replicas.start(t, await open(), models, {
        count: 2,
        config,
        each: (n) => (n === 0 ? { projectDir: project } : { projectDir: otherFolder.path, through }),
      });
      const [has, lacks] = [replicas.at(0), replicas.at(1)];
      const { sessionId } = await ask(has, { message: "begin" });
      const before = await stored(lacks, sessionId);
      assert.equal(before.length, 2, "what was said is read anywhere");

      const body = { message: "go on", session_id: sessionId };
      const key = { "idempotency-key": "anywhere" };
      for (const fields of [{}, { stream: true }, { background: true }, { queue: true }]) {
        const init = { method: "POST", headers: key, body: JSON.stringify({ ...body, ...fields }) };
        const refused = await lacks.fetch("/api/run", init);
        const refusal = [refused.status, await refused.json()];
        assert.deepEqual(refusal, [400, { error: "project folder not found", code: "project_folder" }]);
      }
      const peer = new HttpPeer(`${lacks.url}/acp`);
      await peer.open();
      const reading = await peer.stream();
      const loaded = await peer.call("session/load", { sessionId, cwd: project, mcpServers: [] });
      assert.deepEqual(loaded.error, {
        code: -32602,
        message: "invalid params: cwd: expected the absolute path of an existing folder",
        data: { field: "cwd" },
      });
      peer.assertClean();
      reading.close();
      await peer.remove();

      assert.deepEqual(await stored(lacks, sessionId), before, "nothing is stored");
      assert.deepEqual(await ask(has, body, key), { status: 200, sessionId, output: "Yes.", error: "" });
      const { runs } = (await (await has.fetch("/api/runs")).json()) as { runs: { state: string }[] };
      assert.deepEqual(
        runs.map(({ state }) => state),
        ["finished", "finished"],
      );
      assert.doesNotMatch(replicas.stderr, / error /);
    });

    it("take over a session only when the lease of a dead holder expires, and then run queued prompts", async (t) => {
      const models = await lab(t, { fallback: say("Yes.") });
      const store = await open();
      const replicas = await Replicas.start(t, store, models, {
        count: 2,
        each: (n) => ({ through: hosts[n] as readonly string[] }),
      });
      const [a, b] = [replicas.at(0), replicas.at(1)];
      const key = { "idempotency-key": "once" };
      models.enqueue(say("Before."), STUCK);
      const { sessionId } = await ask(a, { message: "begin" });
      const body = { message: "think", session_id: sessionId };
      const patient = { ...body, queue: true };
      const broken = assert.rejects(ask(a, patient, key));
      await until(async () => (await stored(b, sessionId)).at(-1)?.content === "Hm");
      await replicas.down(0, "SIGKILL");
      await broken;

      const refused = await b.fetch("/api/run", { method: "POST", body: JSON.stringify(body) });
      assert.deepEqual(
        [refused.status, await refused.json()],
        [409, { error: "session is busy", code: "session_busy" }],
      );
      assert.equal(refused.headers.get("retry-after"), "1");
      const order: string[] = [];
      const again = ask(b, patient, key).finally(() => order.push("again"));
      const inLine = ask(b, { message: "and then", session_id: sessionId, queue: true }).finally(() =>
        order.push("line"),
      );
      // The runs are queued, and the dead process still holds the lease. Its end below proves this.
      await until(async () => {
        const { runs } = (await (await b.fetch("/api/runs")).json()) as { runs: { state: string }[] };
        return order.length > 0 || runs.some(({ state }) => state === "queued");
      });
      assert.deepEqual(order, [], "nobody can know that it is dead");
      if (process.env["LEASES"] !== "1") await endLease(store, sessionId);
      for (const answer of await Promise.all([again, inLine]))
        assert.deepEqual(answer, { status: 200, sessionId, output: "Yes.", error: "" });
      t.diagnostic(order.join(" before "));
      const messages = await stored(b, sessionId);
      assert.deepEqual(
        messages.slice(0, 4).map(({ content }) => content),
        ["begin", "Before.", "think", "Hm"],
      );
      assert.deepEqual(
        messages
          .slice(4)
          .map(({ content }) => content)
          .sort(),
        ["Yes.", "Yes.", "and then", "think"],
      );
      assert.deepEqual(models.violations, []);
    });
  });
