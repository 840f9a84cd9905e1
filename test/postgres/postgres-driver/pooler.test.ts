import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Logger } from "gantry";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { sessionDriverChecks } from "gantry/testing";
import { waitUntil } from "../../helpers/server-runs.js";
import { NO_PGBOUNCER, startPgbouncer } from "../../helpers/pgbouncer.js";
import { NO_POSTGRES, createPostgresSchema, getPostgresUrl } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";
import type { Hooks } from "../../helpers/temp-dir.js";
import { Connections } from "../../../adapters/postgres-driver/connections.js";
import { PostgresNotifier } from "../../../adapters/postgres-driver/listener.js";
import { parseAddress } from "../../../adapters/postgres-driver/address.js";
import { CommitBlocker } from "./hold.js";

const needsServers = { skip: NO_POSTGRES || NO_PGBOUNCER };
const POOL = { size: 8, connectTimeout: 120, idleTimeout: 30, statementTimeout: 120 };

it("Connections runs and cancels statements through PgBouncer", needsServers, async (t) => {
  const url = await startPgbouncer(t, await getPostgresUrl());
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

it("PostgresNotifier logs once that PgBouncer delivers no messages, and polls for changes", needsServers, async (t) => {
  const directUrl = await getPostgresUrl();
  const url = await startPgbouncer(t, directUrl);
  const connections = new Connections({ url, pool: POOL });
  await connections.open(() => Promise.resolve());
  const logMessages: string[] = [];
  const log = (message: string): void => void logMessages.push(message);
  const logger: Logger = { debug: log, info: log, warn: log, error: log };
  let state = 0;
  const readStates = () => Promise.resolve(new Map([["root", `${state++}`]]));
  const notifier = new PostgresNotifier(connections, "pooled", {
    address: connections.address,
    readStates: readStates,
    logger,
  });
  t.after(async () => {
    await notifier.close();
    await connections.close();
  });
  let notificationCount = 0;
  notifier.subscribe("root", () => notificationCount++);
  await waitUntil(() => logMessages.length > 0 && notificationCount >= 5);
  assert.match(logMessages[0]!, /session\.pool\.listen_url/);
  assert.equal(logMessages.length, 1);
  // A direct connection that bypasses the pooler receives notifications.
  const directNotifier = new PostgresNotifier(connections, "pooled", {
    address: parseAddress(directUrl),
    readStates: readStates,
    logger,
  });
  t.after(() => directNotifier.close());
  directNotifier.subscribe("root", () => undefined);
  const listenerQuery = "SELECT 1 FROM pg_stat_activity WHERE query = 'LISTEN \"pooled\"'";
  await waitUntil(async () => (await connections.query(listenerQuery, [], "read")).length > 0);
  assert.equal(logMessages.length, 1);
});

describe("the SessionDriver contract of PostgresDriver through PgBouncer", needsServers, () => {
  let pooledAddress = { url: "", schema: "" };
  let directAddress = pooledAddress;
  const cleanups: (() => unknown)[] = [];
  const serverHooks: Hooks = { after: (cleanup) => void cleanups.push(cleanup) };
  let commitBlocker = new CommitBlocker(pooledAddress);
  const openDriver = async (): Promise<PostgresDriver> => {
    const driver = new PostgresDriver(postgresOptions(pooledAddress, { durability: "normal" }));
    await driver.open();
    return driver;
  };
  before(async () => {
    directAddress = await createPostgresSchema(serverHooks);
    pooledAddress = { ...directAddress, url: await startPgbouncer(serverHooks, directAddress.url, 8) };
    commitBlocker = new CommitBlocker(directAddress);
  });
  after(async () => {
    await commitBlocker.close();
    for (const cleanup of cleanups) await cleanup();
  });
  const checks = sessionDriverChecks({
    create: openDriver,
    second: openDriver,
    reopen: openDriver,
    clean: () => commitBlocker.empty(),
    hold: (part) => commitBlocker.hold(part),
  });
  // The database functions decide the order of concurrent calls, with or without a pooler.
  for (const check of checks)
    if (process.env["STORES"] === "all" || !check.name.startsWith("race:")) it(check.name, () => check.run());
});
