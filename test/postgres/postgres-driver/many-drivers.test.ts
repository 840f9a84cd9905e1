import assert from "node:assert/strict";
import { it } from "node:test";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { aMessage, aSession, change } from "../../../src/testing/session-driver/records.js";
import { pause } from "../../helpers/server-runs.js";
import { findPostgres } from "../../helpers/postgres-binaries.js";
import { NO_POSTGRES, startPrivateServer, createPostgresDatabase } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";

const needsPrivateServer = { skip: NO_POSTGRES || (findPostgres() ? false : "no PostgreSQL server is installed here") };
/** More drivers than the server has connections. The environment variable CROWD overrides the number. */
const DRIVER_COUNT = Number(process.env["CROWD"] ?? 24);
const MESSAGES_PER_DRIVER = 5;

it("PostgresDriver stores all writes of more drivers than there are connections", needsPrivateServer, async (t) => {
  const server = await startPrivateServer(t, { max_connections: "20" });
  const address = { url: await createPostgresDatabase(t, server), schema: "gantry" };
  // Each driver has a pool and a listener, like a process. The idle timeout is longer than the test.
  const pool = { size: 10, connectTimeout: 800, idleTimeout: 3600, statementTimeout: 800, listenUrl: "" };
  const drivers = Array.from({ length: DRIVER_COUNT }, () => new PostgresDriver(postgresOptions(address, { pool })));
  t.after(() => Promise.all(drivers.map((driver) => driver.close())).then(() => undefined));
  const sharedId = "shared";
  const counts = await Promise.all(
    drivers.map(async (driver, n) => {
      await driver.open();
      const id = `session ${n}`;
      const unsubscribe = driver.notifier.subscribe(id, () => undefined);
      await driver.create({ session: aSession(id) });
      for (let seq = 1; seq <= MESSAGES_PER_DRIVER; seq++) {
        await Promise.all([
          driver.write(id, change({ add: [aMessage(id, seq)] })),
          driver.get(sharedId),
          driver.list({ limit: 1 }),
        ]);
        driver.notifier.publish(id);
        // Time: a model call takes a while, during which the connections of a process are idle.
        await pause(20);
      }
      unsubscribe();
      return (await driver.messages(id)).length;
    }),
  );
  assert.deepEqual(
    counts,
    Array.from({ length: DRIVER_COUNT }, () => MESSAGES_PER_DRIVER),
  );
});
