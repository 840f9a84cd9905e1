import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { createServer, connect, type Socket } from "node:net";
import { once } from "node:events";
import { it } from "node:test";
import { StoreError } from "gantry";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { Client } from "pg";
import { aSession } from "../../../src/testing/session-driver/records.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { findPostgres } from "../../helpers/postgres-binaries.js";
import {
  NO_POSTGRES,
  runAsAdmin,
  startPrivateServer,
  createPostgresSchema,
  getPostgresUrl,
} from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";
import type { Hooks } from "../../helpers/temp-dir.js";
import { Connections } from "../../../adapters/postgres-driver/connections.js";

const needsPostgres = { skip: NO_POSTGRES };
const needsPrivateServer = { skip: NO_POSTGRES || (findPostgres() ? false : "no PostgreSQL server is installed here") };
/** Limits that are reached only if a server hangs. */
const POOL = { size: 4, connectTimeout: 120, idleTimeout: 3600, statementTimeout: 120 };

/** A pool whose connections have a unique application name, and separate connections for the test. */
class PoolTest {
  readonly name = `pool-${randomBytes(6).toString("hex")}`;
  readonly #admin: Client;
  /**
   * Holds the locks. The admin connection cannot hold them, because within a transaction it would not see changes of
   * other backends.
   */
  readonly #lockClient: Client;
  readonly connections: Connections;

  private constructor(admin: Client, lockClient: Client, url: string, pool: Partial<typeof POOL>) {
    this.#admin = admin;
    this.#lockClient = lockClient;
    this.connections = new Connections({ url: this.addName(url), pool: { ...POOL, ...pool } });
  }

  static async open(hooks: Hooks, pool: Partial<typeof POOL> = {}, url?: string): Promise<PoolTest> {
    const server = await getPostgresUrl();
    const [admin, lockClient] = [new Client(server), new Client(server)];
    await Promise.all([admin.connect(), lockClient.connect()]);
    const test = new PoolTest(admin, lockClient, url ?? server, pool);
    hooks.after(async () => {
      // Releases the statements that wait for the lock.
      await test.unlock();
      await test.connections.close();
      await Promise.all([admin.end(), lockClient.end()]);
    });
    await test.connections.open(() => Promise.resolve());
    return test;
  }

  /** Returns the URL with the application name of this test. */
  addName(url: string): string {
    const namedUrl = new URL(url);
    namedUrl.searchParams.set("application_name", this.name);
    return namedUrl.href;
  }

  /** Returns the process ids of the pool's backends, optionally only in one state. */
  async readPids(state?: "active" | "idle"): Promise<number[]> {
    const { rows } = await this.#admin.query<{ pid: number }>(
      "SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND ($2::text IS NULL OR state = $2)",
      [this.name, state ?? null],
    );
    return rows.map(({ pid }) => pid);
  }

  /** Counts the pool's statements that wait for a lock of the test. */
  async countBlocked(): Promise<number> {
    const { rows } = await this.#admin.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM pg_stat_activity
         WHERE application_name = $1 AND $2::int = ANY (pg_blocking_pids(pid))`,
      [this.name, (this.#lockClient as unknown as { processID: number }).processID],
    );
    return rows[0]?.n ?? 0;
  }

  async lockTable(table: string): Promise<void> {
    await this.#lockClient.query(`BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
  }

  async lock(): Promise<void> {
    await this.#lockClient.query("SELECT pg_advisory_lock(hashtext($1))", [this.name]);
  }

  async unlock(): Promise<void> {
    await this.#lockClient.query("ROLLBACK; SELECT pg_advisory_unlock_all()");
  }

  /** Runs a statement that ends after `unlock`. */
  query(): Promise<{ pid: number }[]> {
    const text = "SELECT pg_backend_pid() AS pid, pg_advisory_xact_lock_shared(hashtext($1))";
    return this.connections.query<{ pid: number }>(text, [this.name], "read");
  }

  /** Opens `count` connections, which are idle afterwards. */
  async openIdle(count: number): Promise<void> {
    await this.lock();
    const queries = Promise.all(Array.from({ length: count }, () => this.query()));
    await waitUntil(async () => (await this.countBlocked()) === count);
    await this.unlock();
    await queries;
    await waitUntil(async () => (await this.readPids("idle")).length === count);
  }

  async terminate(pids: readonly number[]): Promise<void> {
    await this.#admin.query("SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid", [pids]);
  }
}

it("Connections.close waits for a running statement, and closes idle connections at once", needsPostgres, async (t) => {
  const test = await PoolTest.open(t, { size: 3 });
  await test.openIdle(3);
  await test.lock();
  const order: string[] = [];
  const runningQuery = test.query().then(() => order.push("statement"));
  await waitUntil(async () => (await test.countBlocked()) === 1);
  const closeCall = test.connections.close().then(() => order.push("close"));
  // The idle connections are closed while the statement still runs.
  await waitUntil(async () => (await test.readPids()).length === 1);
  await assert.rejects(test.connections.query("SELECT 1", [], "read"), /it (is|was) closed/);
  assert.deepEqual(order, []);
  await test.unlock();
  await Promise.all([runningQuery, closeCall]);
  assert.deepEqual(order, ["statement", "close"]);
  await waitUntil(async () => (await test.readPids()).length === 0);
});

it(
  "Connections.close rejects calls that wait for a connection while a statement still runs",
  needsPostgres,
  async (t) => {
    const test = await PoolTest.open(t, { size: 1 });
    await test.lock();
    const runningQuery = test.query();
    await waitUntil(async () => (await test.countBlocked()) === 1);
    const waitingQueries = Array.from({ length: 5 }, () => test.query());
    const rejections = Promise.all(waitingQueries.map((call) => assert.rejects(call, /it (is|was) closed/)));
    const closeCall = test.connections.close();
    await rejections;
    assert.equal(await test.countBlocked(), 1);
    await test.unlock();
    await runningQuery;
    await closeCall;
  },
);

it("PostgresDriver.close waits for a write that a table lock blocks", needsPostgres, async (t) => {
  const test = await PoolTest.open(t);
  const cleanups: (() => unknown)[] = [];
  const address = await createPostgresSchema({ after: (cleanup) => void cleanups.push(cleanup) });
  const driver = new PostgresDriver(postgresOptions({ ...address, url: test.addName(address.url) }));
  t.after(async () => {
    await driver.close();
    for (const cleanup of cleanups) await cleanup();
  });
  await driver.open();
  await driver.create({ session: aSession("before") });
  await test.lockTable(`${address.schema}.sessions`);
  const order: string[] = [];
  const writeCall = driver.create({ session: aSession("held") }).then(() => order.push("write"));
  await waitUntil(async () => (await test.countBlocked()) === 1);
  const closeCall = driver.close().then(() => order.push("close"));
  assert.equal(await test.countBlocked(), 1);
  await assert.rejects(driver.get("before"), /not open/);
  assert.deepEqual(order, []);
  await test.unlock();
  await Promise.all([writeCall, closeCall]);
  assert.deepEqual(order, ["write", "close"]);
  await driver.open();
  assert.equal((await driver.get("held"))?.id, "held");
});

it("Connections replaces idle and busy connections that the server terminated", needsPostgres, async (t) => {
  const test = await PoolTest.open(t);
  await test.openIdle(4);
  const oldPids = await test.readPids();
  // An error of an idle connection without a handler ends the process.
  await test.terminate(oldPids);
  await waitUntil(async () => (await test.readPids()).length === 0);
  await test.openIdle(4);
  await test.lock();
  const runningQuery = test.query();
  await waitUntil(async () => (await test.countBlocked()) === 1);
  const [busyPid] = await test.readPids("active");
  await test.terminate([busyPid!]);
  await waitUntil(async () => (await test.countBlocked()) === 1 && !(await test.readPids()).includes(busyPid!));
  await test.unlock();
  const [row] = await runningQuery;
  assert.ok(row && ![busyPid, ...oldPids].includes(row.pid));
});

it("Connections rejects a call after connectTimeout while all connections are in use", needsPostgres, async (t) => {
  const test = await PoolTest.open(t, { size: 1, connectTimeout: 3 });
  await test.lock();
  const runningQuery = test.query();
  await waitUntil(async () => (await test.countBlocked()) === 1);
  await assert.rejects(
    test.query(),
    (error) =>
      error instanceof StoreError &&
      error.isUnavailable === true &&
      /: all 1 connections are in use \(session\.pool\.size\)$/.test(error.message),
  );
  await test.unlock();
  await runningQuery;
  assert.equal((await test.query()).length, 1);
});

it("Connections rejects a call if the values of waiting calls are too large (80 MiB)", needsPostgres, async (t) => {
  const test = await PoolTest.open(t, { size: 1 });
  await test.lock();
  const runningQuery = test.query();
  await waitUntil(async () => (await test.countBlocked()) === 1);
  const text = "x".repeat(40 * 1024 * 1024);
  const sendText = () => test.connections.query("SELECT length($1::text) AS length", [text], "read");
  const waitingCall = sendText();
  await assert.rejects(
    sendText(),
    (error) => error instanceof StoreError && /: too many calls wait; /.test(error.message),
  );
  await test.unlock();
  await runningQuery;
  assert.deepEqual(await waitingCall, [{ length: text.length }]);
});

it(
  "Connections closes connections after idleTimeout, and opens new connections for later calls",
  needsPostgres,
  async (t) => {
    const test = await PoolTest.open(t, { idleTimeout: 0.2 });
    await test.lock();
    const runningQueries = Promise.all(Array.from({ length: 4 }, () => test.query()));
    await waitUntil(async () => (await test.countBlocked()) === 4);
    await test.unlock();
    await runningQueries;
    await waitUntil(async () => (await test.readPids()).length === 0);
    assert.equal((await test.query()).length, 1);
  },
);

it(
  "Connections.close gives up idle connections of a hanging server sooner than busy connections",
  needsPrivateServer,
  async (t) => {
    const server = await startPrivateServer(t);
    const [idlePool, busyPool] = [1, 2].map(() => new Connections({ url: server.url, pool: POOL })) as [
      Connections,
      Connections,
    ];
    await Promise.all([idlePool, busyPool].map((connections) => connections.open(() => Promise.resolve())));
    const runningQuery = assert.rejects(busyPool.query("SELECT pg_sleep(3600)", [], "read"), /it (is|was) closed/);
    const sleepingQuery =
      "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT pg_sleep(' || '3600)'";
    await waitUntil(async () => (await runAsAdmin(server.url, sleepingQuery)).length === 1);
    await server.pause();
    const order: string[] = [];
    await Promise.all([
      busyPool.close().then(() => order.push("busy")),
      idlePool.close().then(() => order.push("idle")),
    ]);
    await runningQuery;
    await server.resume();
    assert.deepEqual(order, ["idle", "busy"]);
  },
);

/** A TCP proxy that can refuse connections. `refuse` closes all connections, and each new connection at once. */
class RefusingProxy {
  readonly #server = createServer();
  readonly #sockets = new Set<Socket>();
  isRefusing = false;
  refusedCount = 0;

  static async start(hooks: Hooks, url: string): Promise<{ proxy: RefusingProxy; url: string }> {
    const proxy = new RefusingProxy();
    const target = new URL(url);
    const { hostname, port } = target;
    proxy.#server.on("connection", (client) => {
      if (proxy.isRefusing) {
        proxy.refusedCount++;
        client.destroy();
        return;
      }
      const server = connect(Number(port), hostname);
      for (const socket of [client, server]) {
        proxy.#sockets.add(socket);
        socket.on("error", () => undefined).on("close", () => (client.destroy(), server.destroy()));
      }
      client.pipe(server).pipe(client);
    });
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    hooks.after(() => {
      proxy.#server.close();
      for (const socket of proxy.#sockets) socket.destroy();
    });
    target.port = String((proxy.#server.address() as { port: number }).port);
    return { proxy, url: target.href };
  }

  refuse(): void {
    this.isRefusing = true;
    for (const socket of this.#sockets) socket.destroy();
  }
}

it(
  "Connections makes fewer than 30 connection attempts for 200 calls while the server refuses connections",
  needsPostgres,
  async (t) => {
    const { proxy, url } = await RefusingProxy.start(t, await getPostgresUrl());
    const test = await PoolTest.open(t, { size: 4 }, url);
    await test.lock();
    const calls = Array.from({ length: 200 }, () => test.query());
    const outcomes = Promise.allSettled(calls);
    await waitUntil(async () => (await test.countBlocked()) === 4);
    proxy.refuse();
    // The pool rejects the calls after the server has been unreachable for two seconds.
    await outcomes;
    t.diagnostic(`${proxy.refusedCount} attempts`);
    assert.ok(proxy.refusedCount < 30, `${proxy.refusedCount} attempts for 200 calls`);
  },
);

it("Connections with sslmode=prefer reconnects after an outage", needsPostgres, async (t) => {
  const { proxy, url } = await RefusingProxy.start(t, await getPostgresUrl());
  const test = await PoolTest.open(t, {}, `${url}?sslmode=prefer`);
  proxy.refuse();
  const call = test.query();
  await waitUntil(() => proxy.refusedCount > 1);
  proxy.isRefusing = false;
  assert.equal((await call).length, 1);
});

it("Connections.open reports a server that accepts connections but sends nothing as not answering", async (t) => {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => void sockets.add(socket)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const url = `postgres://a:b@127.0.0.1:${port}/c`;
  const connections = new Connections({ url, pool: { ...POOL, connectTimeout: 0.3 } });
  t.after(async () => {
    await connections.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  await assert.rejects(
    connections.open(() => Promise.resolve()),
    /: the server does not answer$/,
  );
});
