import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Client } from "pg";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { aMessage, aSession, change, acquireLease, readSeqs } from "../../../src/testing/session-driver/rule.js";
import { asAdmin, NO_POSTGRES, postgresSchema } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";
import type { Hooks } from "../../helpers/temp.js";

const COUNT = 300;
const all = <T>(work: (n: number) => Promise<T>): Promise<PromiseSettledResult<T>[]> =>
  Promise.allSettled(Array.from({ length: COUNT }, (_, n) => work(n)));

async function store(hooks: Hooks): Promise<{ driver: PostgresDriver; url: string; schema: string }> {
  const ends: (() => Promise<void> | void)[] = [];
  const place = await postgresSchema({ after: (end) => void ends.push(end) });
  const driver = new PostgresDriver(postgresOptions(place));
  await driver.open();
  hooks.after(async () => {
    await driver.close();
    for (const end of ends) await end();
  });
  return { driver, ...place };
}

describe("concurrent calls of PostgresDriver", { skip: NO_POSTGRES }, () => {
  it("share transactions, and a rejected call does not affect the others", async (t) => {
    const { driver, url, schema } = await store(t);
    const creations = await all((n) => driver.create({ session: aSession(`s${n}`), messages: [aMessage(`s${n}`, 1)] }));
    assert.ok(creations.every(({ status }) => status === "fulfilled"));
    const leases = await Promise.all(Array.from({ length: COUNT }, (_, n) => acquireLease(driver, `s${n}`, `h${n}`)));
    const written = await all((n) => {
      const fence = leases[n]!.fence + (n % 50 === 7 ? 1 : 0);
      return driver.write(`s${n}`, change({ fence, sync: true, add: [aMessage(`s${n}`, n % 50 === 9 ? 1 : 2)] }));
    });
    for (const [n, { status, ...outcome }] of written.entries()) {
      const code = n % 50 === 7 ? "lease_lost" : n % 50 === 9 ? "seq_taken" : undefined;
      assert.equal(
        "reason" in outcome ? (outcome.reason as { code: string }).code : undefined,
        code,
        `${n}: ${status}`,
      );
      assert.deepEqual(await readSeqs(driver, `s${n}`), code ? [1] : [1, 2]);
    }
    const read = await all((n) => driver.get(`s${n}`));
    for (const [n, outcome] of read.entries()) assert.equal("value" in outcome && outcome.value?.id, `s${n}`);
    const [{ created, leased } = {}] = await asAdmin(
      url,
      `SELECT (SELECT count(DISTINCT xmin::text)::int FROM ${schema}.names) AS created,
         (SELECT count(DISTINCT xmin::text)::int FROM ${schema}.chains WHERE holder_id IN ('h7', 'h57', 'h107')) AS leased`,
    );
    assert.ok(Number(created) < COUNT / 5, `${String(created)} transactions for ${COUNT} sessions`);
    assert.ok(Number(leased) > 0);
  });

  it("do not wait for a call whose chain is locked; that call completes after the unlock", async (t) => {
    const { driver, url, schema } = await store(t);
    await all((n) => driver.create({ session: aSession(`s${n}`) }));
    const lockingClient = new Client({ connectionString: url });
    await lockingClient.connect();
    try {
      await lockingClient.query(`BEGIN; SELECT FROM ${schema}.chains WHERE root = 's42' FOR UPDATE`);
      let done = false;
      const held: Promise<unknown>[] = [];
      const free: Promise<unknown>[] = [];
      for (let n = 0; n < COUNT; n++) {
        const write = driver.write(`s${n}`, change({ add: [aMessage(`s${n}`, 1)] }));
        if (n === 42) held.push(write.then(() => (done = true)));
        else free.push(write);
      }
      await Promise.all(free);
      assert.equal(done, false);
      await lockingClient.query("COMMIT");
      await Promise.all(held);
      assert.deepEqual(await readSeqs(driver, "s42"), [1]);
    } finally {
      await lockingClient.end();
    }
  });

  it("take effect in call order on one chain, whichever of its session ids they use", async (t) => {
    const { driver } = await store(t);
    const steps: Promise<unknown>[] = [driver.create({ session: aSession("a") })];
    steps.push(driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }) }));
    for (let n = 1; n <= 60; n++) {
      const set = { title: `${n}` };
      steps.push(driver.write(n % 2 ? "a" : "a1", change({ add: [aMessage("a", n)], set, sync: n % 3 === 0 })));
    }
    await Promise.all(steps);
    assert.equal((await driver.get("a"))?.title, "60");
    assert.equal((await driver.messages("a", { scope: "chain" })).length, 60);
  });
});
