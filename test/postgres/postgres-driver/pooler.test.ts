import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Logger } from "gantry";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { sessionDriverChecks } from "gantry/testing";
import { until } from "../../helpers/lab.js";
import { NO_PGBOUNCER, pgbouncer } from "../../helpers/pgbouncer.js";
import { NO_POSTGRES, postgresSchema, postgresUrl } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";
import type { Hooks } from "../../helpers/temp.js";
import { Connections } from "../../../adapters/postgres-driver/connections.js";
import { PostgresNotifier } from "../../../adapters/postgres-driver/listener.js";
import { parseAddress } from "../../../adapters/postgres-driver/address.js";
import { Holds } from "./hold.js";

const real = { skip: NO_POSTGRES || NO_PGBOUNCER };
const POOL = { size: 8, connectTimeout: 120, idleTimeout: 30, statementTimeout: 120 };

it("Connections runs and cancels statements through PgBouncer", real, async (t) => {
  const url = await pgbouncer(t, await postgresUrl());
  const connections = new Connections({ url, pool: POOL });
  t.after(() => connections.close());
  await connections.open(async (query) => {
    await query("BEGIN; SELECT pg_advisory_xact_lock(1)");
    await query("COMMIT");
  });
  const rows = await Promise.all(
    Array.from({ length: 30 }, (_, n) => connections.query("SELECT $1::int AS n", [n], "read")),
  );
  assert.deepEqual(
    rows.flat().map((row) => (row as { n: number }).n),
    Array.from({ length: 30 }, (_, n) => n),
  );
  await assert.rejects(connections.query("SELECT pg_sleep(60)", [], "read", { timeoutSeconds: 0.3 }), /within 0.3 s/);
  assert.deepEqual(await connections.query("SELECT 1 AS one", [], "read"), [{ one: 1 }]);
});

it("PostgresNotifier logs once that PgBouncer delivers no messages, and polls for changes", real, async (t) => {
  const direct = await postgresUrl();
  const url = await pgbouncer(t, direct);
  const connections = new Connections({ url, pool: POOL });
  await connections.open(() => Promise.resolve());
  const logMessages: string[] = [];
  const log = (message: string): void => void logMessages.push(message);
  const logger: Logger = { debug: log, info: log, warn: log, error: log };
  let state = 0;
  const states = () => Promise.resolve(new Map([["root", `${state++}`]]));
  const notifier = new PostgresNotifier(connections, "pooled", {
    address: connections.address,
    readStates: states,
    logger,
  });
  t.after(async () => {
    await notifier.close();
    await connections.close();
  });
  let hints = 0;
  notifier.subscribe("root", () => hints++);
  await until(() => logMessages.length > 0 && hints >= 5);
  assert.match(logMessages[0]!, /session\.pool\.listen_url/);
  assert.equal(logMessages.length, 1);
  // A direct connection that bypasses the pooler receives notifications.
  const past = new PostgresNotifier(connections, "pooled", {
    address: parseAddress(direct),
    readStates: states,
    logger,
  });
  t.after(() => past.close());
  past.subscribe("root", () => undefined);
  const listeners = "SELECT 1 FROM pg_stat_activity WHERE query = 'LISTEN \"pooled\"'";
  await until(async () => (await connections.query(listeners, [], "read")).length > 0);
  assert.equal(logMessages.length, 1);
});

describe("the SessionDriver contract of PostgresDriver through PgBouncer", real, () => {
  let place = { url: "", schema: "" };
  let direct = place;
  const ends: (() => unknown)[] = [];
  const later: Hooks = { after: (end) => void ends.push(end) };
  let holds = new Holds(place);
  const opened = async (): Promise<PostgresDriver> => {
    const driver = new PostgresDriver(postgresOptions(place, { durability: "normal" }));
    await driver.open();
    return driver;
  };
  before(async () => {
    direct = await postgresSchema(later);
    place = { ...direct, url: await pgbouncer(later, direct.url, 8) };
    holds = new Holds(direct);
  });
  after(async () => {
    await holds.close();
    for (const end of ends) await end();
  });
  const checks = sessionDriverChecks({
    create: opened,
    second: opened,
    reopen: opened,
    clean: () => holds.empty(),
    hold: (part) => holds.hold(part),
  });
  // The database functions decide the order of concurrent calls, with or without a pooler.
  for (const check of checks)
    if (process.env["STORES"] === "all" || !check.name.startsWith("race:")) it(check.name, () => check.run());
});
