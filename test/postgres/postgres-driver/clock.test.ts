import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { aHolder, aRun, aSession, change, acquireLease, findRun } from "../../../src/testing/session-driver/rule.js";
import { until } from "../../helpers/lab.js";
import { NO_POSTGRES, postgresSchema } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";

const HOUR = 3_600_000;

describe("the expiry of a lease", { skip: NO_POSTGRES }, () => {
  for (const [direction, offset] of [
    ["ahead", HOUR],
    ["behind", -HOUR],
  ] as const)
    it(`follows the server's clock if the clock of the client is an hour ${direction}`, async (t) => {
      const ends: (() => unknown)[] = [];
      const place = await postgresSchema({ after: (end) => void ends.push(end) });
      const driver = new PostgresDriver(postgresOptions(place));
      const { now } = Date;
      t.after(async () => {
        Date.now = now;
        await driver.close();
        for (const end of ends) await end();
      });
      await driver.open();
      for (const id of ["a", "b"]) await driver.create({ session: aSession(id) });
      const { fence } = await acquireLease(driver, "a", "h1", 60_000);
      await driver.write("a", change({ fence, runs: [aRun("r", "a")] }));

      Date.now = () => now() + offset;
      const rival = await driver.lease("a", aHolder("h2"), 60_000);
      assert.ok("heldBy" in rival, "taken before its time");
      assert.deepEqual((await findRun(driver, "r"))?.holder, aHolder("h1"));
      const short = await acquireLease(driver, "b", "h1", 100);
      const reportedMs = Date.parse(short.expiresAt) - now();
      assert.ok(Math.abs(reportedMs) < HOUR / 2, `it says that it ends ${reportedMs} ms from now`);
      // The lease passes to another holder when it has run out.
      await until(async () => "fence" in (await driver.lease("b", aHolder("h2"), 60_000)));
    });
});
