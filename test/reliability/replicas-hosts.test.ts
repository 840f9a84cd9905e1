// Servers on one store whose hosts know nothing of each other's processes. LEASES=1 waits for a lease to end by itself.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { thisHolder } from "gantry";
import { say } from "../helpers/fake-model-server.js";
import { ask, lab, pause, stored, until } from "../helpers/lab.js";
import { otherHost } from "../helpers/namespaces.js";
import { STUCK } from "../helpers/replica-scenarios.js";
import { driverOf, Replicas, SHARED_STORES, type SharedStore } from "../helpers/replicas.js";
import type { Hooks } from "../helpers/temp.js";

const hosts = await Promise.all(["host-a", "host-b"].map(otherHost));
const noHosts = hosts.find((host) => typeof host === "string") ?? false;

/** Have the time of a chain's lease run out. */
async function endLease(hooks: Hooks, store: SharedStore, session: string): Promise<void> {
  const driver = await driverOf(hooks, store);
  const held = await driver.lease(session, thisHolder("probe"), 1);
  assert.ok("heldBy" in held, "the dead one's lease went to another before its time");
  // Renewed in its name, for no time.
  await driver.lease(session, held.heldBy.holder, 1);
}

for (const [name, skip, open] of SHARED_STORES)
  describe(`replicas on hosts of their own, on ${name}`, { skip: skip || noHosts }, () => {
    it("take a session over when the lease of a dead one ends, and not before; whoever waits is served then", async (t) => {
      const models = await lab(t, { fallback: say("Yes.") });
      const store = await open(t);
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
      const since = Date.now();
      const order: string[] = [];
      const again = ask(b, patient, key).finally(() => order.push("again"));
      const inLine = ask(b, { message: "and then", session_id: sessionId, queue: true }).finally(() =>
        order.push("line"),
      );
      await pause(300);
      assert.deepEqual(order, [], "nobody can know that it is dead");
      if (process.env["LEASES"] !== "1") await endLease(t, store, sessionId);
      for (const answer of await Promise.all([again, inLine]))
        assert.deepEqual(answer, { status: 200, sessionId, output: "Yes.", error: "" });
      t.diagnostic(`${Date.now() - since} ms after the kill, ${order.join(" before ")}`);
      const said = await stored(b, sessionId);
      assert.deepEqual(
        said.slice(0, 4).map(({ content }) => content),
        ["begin", "Before.", "think", "Hm"],
      );
      assert.deepEqual(
        said
          .slice(4)
          .map(({ content }) => content)
          .sort(),
        ["Yes.", "Yes.", "and then", "think"],
      );
      assert.deepEqual(models.violations, []);
    });
  });
