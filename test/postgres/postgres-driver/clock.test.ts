import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { acquireLease, findRun } from "../../../src/testing/session-driver/driver-calls.js";
import { aHolder, aRun, aSession, change } from "../../../src/testing/session-driver/records.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { NO_POSTGRES, createPostgresSchema } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";

const HOUR_MS = 3_600_000;

describe("the expiry of a lease", { skip: NO_POSTGRES }, () => {
  for (const [direction, offsetMs] of [
    ["ahead", HOUR_MS],
    ["behind", -HOUR_MS],
  ] as const)
    it(`follows the server's clock if the clock of the client is an hour ${direction}`, async (t) => {
      const cleanups: (() => unknown)[] = [];
      const address = await createPostgresSchema({ after: (cleanup) => void cleanups.push(cleanup) });
      const driver = new PostgresDriver(postgresOptions(address));
      const { now: realNow } = Date;
      t.after(async () => {
        Date.now = realNow;
        await driver.close();
        for (const cleanup of cleanups) await cleanup();
      });
      await driver.open();
      for (const id of ["a", "b"]) await driver.create({ session: aSession(id) });
      const { fence } = await acquireLease(driver, "a", "h1", 60_000);
      await driver.write("a", change({ fence, runs: [aRun("r", "a")] }));

      Date.now = () => realNow() + offsetMs;
      const rivalLease = await driver.lease("a", aHolder("h2"), 60_000);
      assert.ok("heldBy" in rivalLease, "the lease was granted before it expired");
      assert.deepEqual((await findRun(driver, "r"))?.holder, aHolder("h1"));
      const shortLease = await acquireLease(driver, "b", "h1", 100);
      const remainingMs = Date.parse(shortLease.expiresAt) - realNow();
      assert.ok(Math.abs(remainingMs) < HOUR_MS / 2, `the lease expires ${remainingMs} ms from now`);
      // Another holder can acquire the lease after it has expired.
      await waitUntil(async () => "fence" in (await driver.lease("b", aHolder("h2"), 60_000)));
    });
});
