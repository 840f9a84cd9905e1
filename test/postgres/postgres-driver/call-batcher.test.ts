import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Client } from "pg";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { acquireLease, readSeqs } from "../../../src/testing/session-driver/driver-calls.js";
import { aMessage, aSession, change } from "../../../src/testing/session-driver/records.js";
import { runAsAdmin, NO_POSTGRES, createPostgresSchema } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";
import type { Hooks } from "../../helpers/temp-dir.js";

const CALL_COUNT = 300;
/** Calls with these numbers are rejected: one kind writes with a wrong fence, the other with a `seq` that is taken. */
const hasWrongFence = (n: number): boolean => n % 50 === 7;
const hasTakenSeq = (n: number): boolean => n % 50 === 9;
const LOCKED_SESSION = 42;
const settleCalls = <T>(startCall: (n: number) => Promise<T>): Promise<PromiseSettledResult<T>[]> =>
  Promise.allSettled(Array.from({ length: CALL_COUNT }, (_, n) => startCall(n)));

async function openStore(hooks: Hooks): Promise<{ driver: PostgresDriver; url: string; schema: string }> {
  const cleanups: (() => Promise<void> | void)[] = [];
  const address = await createPostgresSchema({ after: (cleanup) => void cleanups.push(cleanup) });
  const driver = new PostgresDriver(postgresOptions(address));
  await driver.open();
  hooks.after(async () => {
    await driver.close();
    for (const cleanup of cleanups) await cleanup();
  });
  return { driver, ...address };
}

describe("concurrent calls of PostgresDriver", { skip: NO_POSTGRES }, () => {
  it("share transactions, and a rejected call does not affect the others", async (t) => {
    const { driver, url, schema } = await openStore(t);
    const createOutcomes = await settleCalls((n) =>
      driver.create({ session: aSession(`s${n}`), messages: [aMessage(`s${n}`, 1)] }),
    );
    assert.ok(createOutcomes.every(({ status }) => status === "fulfilled"));
    const leases = await Promise.all(
      Array.from({ length: CALL_COUNT }, (_, n) => acquireLease(driver, `s${n}`, `h${n}`)),
    );
    // Leases lock only their own chain. Creations on two connections may wait for the same total, and are then sent alone.
    const [{ transactionCount } = {}] = await runAsAdmin(
      url,
      `SELECT count(DISTINCT xmin::text)::int AS "transactionCount" FROM ${schema}.chains WHERE holder_id <> ''`,
    );
    assert.ok(Number(transactionCount) > 0);
    assert.ok(
      Number(transactionCount) < CALL_COUNT / 5,
      `${String(transactionCount)} transactions for ${CALL_COUNT} leases`,
    );
    const writeOutcomes = await settleCalls((n) => {
      const fence = leases[n]!.fence + (hasWrongFence(n) ? 1 : 0);
      return driver.write(`s${n}`, change({ fence, sync: true, add: [aMessage(`s${n}`, hasTakenSeq(n) ? 1 : 2)] }));
    });
    for (const [n, { status, ...outcome }] of writeOutcomes.entries()) {
      const code = hasWrongFence(n) ? "lease_lost" : hasTakenSeq(n) ? "seq_taken" : undefined;
      assert.equal(
        "reason" in outcome ? (outcome.reason as { code: string }).code : undefined,
        code,
        `${n}: ${status}`,
      );
      assert.deepEqual(await readSeqs(driver, `s${n}`), code ? [1] : [1, 2]);
    }
    const readOutcomes = await settleCalls((n) => driver.get(`s${n}`));
    for (const [n, outcome] of readOutcomes.entries()) assert.equal("value" in outcome && outcome.value?.id, `s${n}`);
  });

  it("do not wait for a call whose chain is locked; that call completes after the unlock", async (t) => {
    const { driver, url, schema } = await openStore(t);
    await settleCalls((n) => driver.create({ session: aSession(`s${n}`) }));
    const lockingClient = new Client({ connectionString: url });
    await lockingClient.connect();
    try {
      await lockingClient.query(`BEGIN; SELECT FROM ${schema}.chains WHERE root = 's${LOCKED_SESSION}' FOR UPDATE`);
      let isWriteComplete = false;
      const blockedWrites: Promise<unknown>[] = [];
      const otherWrites: Promise<unknown>[] = [];
      for (let n = 0; n < CALL_COUNT; n++) {
        const writeResult = driver.write(`s${n}`, change({ add: [aMessage(`s${n}`, 1)] }));
        if (n === LOCKED_SESSION) blockedWrites.push(writeResult.then(() => (isWriteComplete = true)));
        else otherWrites.push(writeResult);
      }
      await Promise.all(otherWrites);
      assert.equal(isWriteComplete, false);
      await lockingClient.query("COMMIT");
      await Promise.all(blockedWrites);
      assert.deepEqual(await readSeqs(driver, `s${LOCKED_SESSION}`), [1]);
    } finally {
      await lockingClient.end();
    }
  });

  it("take effect in call order on one chain, whichever session id of the chain they use", async (t) => {
    const { driver } = await openStore(t);
    const calls: Promise<unknown>[] = [driver.create({ session: aSession("a") })];
    calls.push(driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }) }));
    for (let n = 1; n <= 60; n++) {
      const set = { title: `${n}` };
      calls.push(driver.write(n % 2 ? "a" : "a1", change({ add: [aMessage("a", n)], set, sync: n % 3 === 0 })));
    }
    await Promise.all(calls);
    assert.equal((await driver.get("a"))?.title, "60");
    assert.equal((await driver.messages("a", { scope: "chain" })).length, 60);
  });
});
