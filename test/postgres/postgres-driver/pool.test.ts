import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { createServer, connect, type Socket } from "node:net";
import { once } from "node:events";
import { it } from "node:test";
import { StoreError } from "gantry";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { Client } from "pg";
import { aSession } from "../../../src/testing/session-driver/rule.js";
import { until } from "../../helpers/lab.js";
import { findPostgres } from "../../helpers/postgres-binaries.js";
import { NO_POSTGRES, asAdmin, ownServer, postgresSchema, postgresUrl } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";
import type { Hooks } from "../../helpers/temp.js";
import { Connections } from "../../../adapters/postgres-driver/connections.js";

const real = { skip: NO_POSTGRES };
const needsPrivateServer = { skip: NO_POSTGRES || (findPostgres() ? false : "no PostgreSQL server is installed here") };
/** Limits that are reached only if a server hangs. */
const POOL = { size: 4, connectTimeout: 120, idleTimeout: 3600, statementTimeout: 120 };

/** A pool whose connections have an application name of their own, and a separate connection for the test. */
class PoolTest {
  readonly name = `pool-${randomBytes(6).toString("hex")}`;
  readonly #admin: Client;
  /**
   * Holds the locks. Not the admin connection, because its view of other backends would not change within a
   * transaction.
   */
  readonly #holder: Client;
  readonly connections: Connections;

  private constructor(admin: Client, holder: Client, url: string, pool: Partial<typeof POOL>) {
    this.#admin = admin;
    this.#holder = holder;
    this.connections = new Connections({ url: this.named(url), pool: { ...POOL, ...pool } });
  }

  static async open(hooks: Hooks, pool: Partial<typeof POOL> = {}, url?: string): Promise<PoolTest> {
    const server = await postgresUrl();
    const [admin, holder] = [new Client(server), new Client(server)];
    await Promise.all([admin.connect(), holder.connect()]);
    const test = new PoolTest(admin, holder, url ?? server, pool);
    hooks.after(async () => {
      // Releases the statements that wait for the lock.
      await test.unlock();
      await test.connections.close();
      await Promise.all([admin.end(), holder.end()]);
    });
    await test.connections.open(() => Promise.resolve());
    return test;
  }

  /** The same URL, with the application name of this test. */
  named(url: string): string {
    const named = new URL(url);
    named.searchParams.set("application_name", this.name);
    return named.href;
  }

  /** Server processes of the pool's connections. With `state`, only those in this state. */
  async backends(state?: "active" | "idle"): Promise<number[]> {
    const { rows } = await this.#admin.query<{ pid: number }>(
      "SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND ($2::text IS NULL OR state = $2)",
      [this.name, state ?? null],
    );
    return rows.map(({ pid }) => pid);
  }

  /** Number of the pool's statements that wait for the lock. */
  async blocked(): Promise<number> {
    const { rows } = await this.#admin.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM pg_stat_activity
         WHERE application_name = $1 AND $2::int = ANY (pg_blocking_pids(pid))`,
      [this.name, (this.#holder as unknown as { processID: number }).processID],
    );
    return rows[0]?.n ?? 0;
  }

  async lockTable(table: string): Promise<void> {
    await this.#holder.query(`BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
  }

  async lock(): Promise<void> {
    await this.#holder.query("SELECT pg_advisory_lock(hashtext($1))", [this.name]);
  }

  async unlock(): Promise<void> {
    await this.#holder.query("ROLLBACK; SELECT pg_advisory_unlock_all()");
  }

  /** A statement that ends after `unlock`. */
  query(): Promise<{ pid: number }[]> {
    const text = "SELECT pg_backend_pid() AS pid, pg_advisory_xact_lock_shared(hashtext($1))";
    return this.connections.query<{ pid: number }>(text, [this.name], "read");
  }

  /** Opens `count` connections, which are idle afterwards. */
  async fill(count: number): Promise<void> {
    await this.lock();
    const queries = Promise.all(Array.from({ length: count }, () => this.query()));
    await until(async () => (await this.blocked()) === count);
    await this.unlock();
    await queries;
    await until(async () => (await this.backends("idle")).length === count);
  }

  async terminate(pids: readonly number[]): Promise<void> {
    await this.#admin.query("SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid", [pids]);
  }
}

it("Connections.close waits for a running statement, and closes idle connections before", real, async (t) => {
  const test = await PoolTest.open(t, { size: 3 });
  await test.fill(3);
  await test.lock();
  const order: string[] = [];
  const running = test.query().then(() => order.push("statement"));
  await until(async () => (await test.blocked()) === 1);
  const closing = test.connections.close().then(() => order.push("close"));
  // The idle connections are closed while the statement still runs.
  await until(async () => (await test.backends()).length === 1);
  await assert.rejects(test.connections.query("SELECT 1", [], "read"), /it (is|was) closed/);
  assert.deepEqual(order, []);
  await test.unlock();
  await Promise.all([running, closing]);
  assert.deepEqual(order, ["statement", "close"]);
  await until(async () => (await test.backends()).length === 0);
});

it("Connections.close rejects calls that wait for a connection while a statement still runs", real, async (t) => {
  const test = await PoolTest.open(t, { size: 1 });
  await test.lock();
  const running = test.query();
  await until(async () => (await test.blocked()) === 1);
  const waiting = Array.from({ length: 5 }, () => test.query());
  const rejected = Promise.all(waiting.map((call) => assert.rejects(call, /it (is|was) closed/)));
  const closing = test.connections.close();
  await rejected;
  assert.equal(await test.blocked(), 1);
  await test.unlock();
  await running;
  await closing;
});

it("PostgresDriver.close waits for a write that a table lock blocks", real, async (t) => {
  const test = await PoolTest.open(t);
  const ends: (() => unknown)[] = [];
  const place = await postgresSchema({ after: (end) => void ends.push(end) });
  const driver = new PostgresDriver(postgresOptions({ ...place, url: test.named(place.url) }));
  t.after(async () => {
    await driver.close();
    for (const end of ends) await end();
  });
  await driver.open();
  await driver.create({ session: aSession("before") });
  await test.lockTable(`${place.schema}.sessions`);
  const order: string[] = [];
  const writing = driver.create({ session: aSession("held") }).then(() => order.push("write"));
  await until(async () => (await test.blocked()) === 1);
  const closing = driver.close().then(() => order.push("close"));
  assert.equal(await test.blocked(), 1);
  await assert.rejects(driver.get("before"), /not open/);
  assert.deepEqual(order, []);
  await test.unlock();
  await Promise.all([writing, closing]);
  assert.deepEqual(order, ["write", "close"]);
  await driver.open();
  assert.equal((await driver.get("held"))?.id, "held");
});

it("Connections replaces idle and busy connections that the server terminated", real, async (t) => {
  const test = await PoolTest.open(t);
  await test.fill(4);
  const before = await test.backends();
  // An error of an idle connection without a handler ends the process.
  await test.terminate(before);
  await until(async () => (await test.backends()).length === 0);
  await test.fill(4);
  await test.lock();
  const running = test.query();
  await until(async () => (await test.blocked()) === 1);
  const [busy] = await test.backends("active");
  await test.terminate([busy!]);
  await until(async () => (await test.blocked()) === 1 && !(await test.backends()).includes(busy!));
  await test.unlock();
  const [row] = await running;
  assert.ok(row && ![busy, ...before].includes(row.pid));
});

it("Connections rejects a call after connectTimeout while all connections are in use", real, async (t) => {
  const test = await PoolTest.open(t, { size: 1, connectTimeout: 3 });
  await test.lock();
  const running = test.query();
  await until(async () => (await test.blocked()) === 1);
  await assert.rejects(
    test.query(),
    (error) =>
      error instanceof StoreError &&
      error.unavailable === true &&
      /: all 1 connections are in use \(session\.pool\.size\)$/.test(error.message),
  );
  await test.unlock();
  await running;
  assert.equal((await test.query()).length, 1);
});

it("Connections rejects a call if the values of waiting calls are too large (80 MiB)", real, async (t) => {
  const test = await PoolTest.open(t, { size: 1 });
  await test.lock();
  const running = test.query();
  await until(async () => (await test.blocked()) === 1);
  const text = "x".repeat(40 * 1024 * 1024);
  const carry = () => test.connections.query("SELECT length($1::text) AS length", [text], "read");
  const waiting = carry();
  await assert.rejects(
    carry(),
    (error) => error instanceof StoreError && /: too many calls wait; /.test(error.message),
  );
  await test.unlock();
  await running;
  assert.deepEqual(await waiting, [{ length: text.length }]);
});

it("Connections closes connections after idleTimeout, and opens new ones", real, async (t) => {
  const test = await PoolTest.open(t, { idleTimeout: 0.2 });
  await test.lock();
  const running = Promise.all(Array.from({ length: 4 }, () => test.query()));
  await until(async () => (await test.blocked()) === 4);
  await test.unlock();
  await running;
  await until(async () => (await test.backends()).length === 0);
  assert.equal((await test.query()).length, 1);
});

it(
  "Connections.close gives up idle connections of a hanging server sooner than busy ones",
  needsPrivateServer,
  async (t) => {
    const server = await ownServer(t);
    const [idle, busy] = [1, 2].map(() => new Connections({ url: server.url, pool: POOL })) as [
      Connections,
      Connections,
    ];
    await Promise.all([idle, busy].map((connections) => connections.open(() => Promise.resolve())));
    const running = assert.rejects(busy.query("SELECT pg_sleep(3600)", [], "read"), /it (is|was) closed/);
    const sleeping = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT pg_sleep(' || '3600)'";
    await until(async () => (await asAdmin(server.url, sleeping)).length === 1);
    await server.pause();
    const order: string[] = [];
    await Promise.all([busy.close().then(() => order.push("busy")), idle.close().then(() => order.push("idle"))]);
    await running;
    await server.go();
    assert.deepEqual(order, ["idle", "busy"]);
  },
);

/** Counts connections to a server. `refuse` closes all connections, and each new one at once. */
class Gate {
  readonly #server = createServer();
  readonly #sockets = new Set<Socket>();
  isRefusing = false;
  refused = 0;

  static async before(hooks: Hooks, url: string): Promise<{ gate: Gate; url: string }> {
    const gate = new Gate();
    const target = new URL(url);
    const { hostname, port } = target;
    gate.#server.on("connection", (client) => {
      if (gate.isRefusing) {
        gate.refused++;
        client.destroy();
        return;
      }
      const server = connect(Number(port), hostname);
      for (const socket of [client, server]) {
        gate.#sockets.add(socket);
        socket.on("error", () => undefined).on("close", () => (client.destroy(), server.destroy()));
      }
      client.pipe(server).pipe(client);
    });
    gate.#server.listen(0, "127.0.0.1");
    await once(gate.#server, "listening");
    hooks.after(() => {
      gate.#server.close();
      for (const socket of gate.#sockets) socket.destroy();
    });
    target.port = String((gate.#server.address() as { port: number }).port);
    return { gate, url: target.href };
  }

  refuse(): void {
    this.isRefusing = true;
    for (const socket of this.#sockets) socket.destroy();
  }
}

it(
  "Connections makes fewer than 30 connection attempts for 200 calls while the server refuses connections",
  real,
  async (t) => {
    const { gate, url } = await Gate.before(t, await postgresUrl());
    const test = await PoolTest.open(t, { size: 4 }, url);
    await test.lock();
    const calls = Array.from({ length: 200 }, () => test.query());
    const settled = Promise.allSettled(calls);
    await until(async () => (await test.blocked()) === 4);
    gate.refuse();
    // Waits until the calls are rejected, because the server has been unreachable for two seconds.
    await settled;
    t.diagnostic(`${gate.refused} attempts`);
    assert.ok(gate.refused < 30, `${gate.refused} attempts for 200 calls`);
  },
);

it("Connections with sslmode=prefer reconnects after an outage", real, async (t) => {
  const { gate, url } = await Gate.before(t, await postgresUrl());
  const test = await PoolTest.open(t, {}, `${url}?sslmode=prefer`);
  gate.refuse();
  const call = test.query();
  await until(() => gate.refused > 1);
  gate.isRefusing = false;
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
