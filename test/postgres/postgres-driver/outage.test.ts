import assert from "node:assert/strict";
import { it } from "node:test";
import { inspect } from "node:util";
import { StoreError, hasCode } from "gantry";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { aMessage, aSession, change, acquireLease } from "../../../src/testing/session-driver/rule.js";
import { until } from "../../helpers/lab.js";
import { findPostgres } from "../../helpers/postgres-binaries.js";
import { NO_POSTGRES, ownServer, postgresDatabase } from "../../helpers/postgres.js";
import type { OwnServer } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";

const needsPrivateServer = { skip: NO_POSTGRES || (findPostgres() ? false : "no PostgreSQL server is installed here") };
const WRITERS = 12;

type Outage = readonly [
  name: string,
  begin: (server: OwnServer) => Promise<void>,
  end: (server: OwnServer) => Promise<void>,
];

const OUTAGES: readonly Outage[] = [
  ["is stopped", (server) => server.stop(), (server) => server.start()],
  ["crashes", (server) => server.kill(), (server) => server.start()],
  ["hangs", (server) => server.pause(), (server) => server.go()],
];

for (const [name, begin, end] of OUTAGES) {
  it(`driver calls fail while the server ${name}, and no acknowledged write is lost`, needsPrivateServer, async (t) => {
    const server = await ownServer(t, { fsync: "on" });
    const url = await postgresDatabase(t, server);
    const { password, host, pathname } = new URL(url);
    const pool = { size: 4, connectTimeout: 1, idleTimeout: 30, statementTimeout: 1, listenUrl: "" };
    const driver = new PostgresDriver(postgresOptions({ url, schema: "gantry" }, { pool }));
    t.after(() => driver.close());
    // Another driver whose limits are reached only if a server hangs, so that none of its calls fails.
    const patient = new PostgresDriver(
      postgresOptions({ url, schema: "gantry" }, { pool: { ...pool, connectTimeout: 120, statementTimeout: 120 } }),
    );
    t.after(() => patient.close());
    await patient.open();
    // A limit of one second is short on a busy machine.
    await until(() =>
      driver.open().then(
        () => true,
        () => false,
      ),
    );

    const failures: StoreError[] = [];
    let written = 0;
    let over = false;
    /** Writes one message after the other. After a failure it checks whether the last message is stored. */
    const write = async (id: string): Promise<number> => {
      await patient.create({ session: aSession(id) });
      let seq = 1;
      while (!over) {
        try {
          await driver.write(id, change({ add: [aMessage(id, seq)], sync: true }));
          seq++;
          written++;
        } catch (error) {
          // A statement that was sent before the server stopped can still be executed when it continues.
          if (hasCode(error, "seq_taken")) seq++;
          else if (!(error instanceof StoreError)) throw error;
          else failures.push(error);
          for (let isVerified = false; !isVerified;) {
            try {
              const stored = (await driver.messages(id)).length;
              // All acknowledged messages are stored. The last one may be stored or not.
              assert.ok(stored === seq - 1 || stored === seq, `${stored} of ${seq}`);
              seq = stored + 1;
              isVerified = true;
            } catch (again) {
              if (!(again instanceof StoreError)) throw again;
              failures.push(again);
            }
          }
        }
      }
      return seq - 1;
    };
    const writing = Promise.all(Array.from({ length: WRITERS }, (_, n) => write(`chain ${n}`)));
    let fault: unknown;
    writing.catch((error: unknown) => (fault = error ?? "a writer failed"));
    const reached = (count: () => number, minimum: number): Promise<void> =>
      until(() => {
        if (fault !== undefined) throw fault;
        return count() >= minimum;
      });
    await reached(() => written, WRITERS * 3);
    const failuresBefore = failures.length;
    await begin(server);
    await reached(() => failures.length, failuresBefore + WRITERS * 2);
    await end(server);
    const writtenBefore = written;
    await reached(() => written, writtenBefore + WRITERS * 10);
    over = true;
    const counts = await writing;
    for (const [n, count] of counts.entries())
      assert.deepEqual(
        (await patient.messages(`chain ${n}`)).map(({ seq }) => seq),
        Array.from({ length: count }, (_, at) => at + 1),
      );
    for (const error of failures) {
      assert.equal(error.unavailable, true, error.message);
      assert.ok(error.message.startsWith(`session store ${host}${pathname}: `), error.message);
    }
    assert.ok(!inspect([failures, driver], { depth: 12, showHidden: true }).includes(password));
    t.diagnostic([...new Set(failures.map(({ message }) => message.slice(message.indexOf(": "))))].join(" / "));
  });
}

it("PostgresDriver.open rejects while the server is stopped, and succeeds later", needsPrivateServer, async (t) => {
  const server = await ownServer(t);
  const url = await postgresDatabase(t, server);
  const pool = { size: 2, connectTimeout: 120, idleTimeout: 30, statementTimeout: 120, listenUrl: "" };
  await server.stop();
  const driver = new PostgresDriver(postgresOptions({ url, schema: "gantry" }, { pool }));
  t.after(() => driver.close());
  await assert.rejects(driver.open(), (error) => error instanceof StoreError && error.unavailable);
  await server.start();
  await driver.open();
  assert.equal(await driver.get("nothing"), undefined);
});

it(
  "PostgresDriver rejects new calls while the server is stopped, and completes earlier writes after its start",
  needsPrivateServer,
  async (t) => {
    const server = await ownServer(t);
    const url = await postgresDatabase(t, server);
    // Far longer than the test takes.
    const pool = { size: 3, connectTimeout: 600, idleTimeout: 30, statementTimeout: 600, listenUrl: "" };
    const newDriver = (): PostgresDriver => {
      const driver = new PostgresDriver(postgresOptions({ url, schema: "gantry" }, { pool }));
      t.after(() => driver.close());
      return driver;
    };
    const driver = newDriver();
    await driver.open();
    for (const id of ["a", "b", "c", "d"]) await driver.create({ session: aSession(id) });
    const lease = await acquireLease(driver, "a", "holder");
    await server.stop();
    let written = 0;
    const write = async (id: string, fence?: number): Promise<void> => {
      await driver.write(id, change({ add: [aMessage(id, 1)], sync: true, ...(fence !== undefined && { fence }) }));
      written++;
    };
    const writing = Promise.all([write("a", lease.fence), write("b"), write("c"), write("d")]);
    const isAway = (error: unknown): boolean => error instanceof StoreError && error.unavailable === true;
    const calls: readonly (() => Promise<unknown>)[] = [
      () => driver.get("a"),
      () => driver.messages("a"),
      () => driver.list({ limit: 5 }),
      () => acquireLease(driver, "z", "other"),
      () => driver.create({ session: aSession("e") }),
    ];
    const before = process.memoryUsage().rss;
    for (let round = 0; round < 3; round++)
      await Promise.all(
        Array.from({ length: 300 }, (_, n) => assert.rejects(calls[n % calls.length]!(), isAway, String(n))),
      );
    await assert.rejects(newDriver().open(), isAway);
    t.diagnostic(`${Math.round((process.memoryUsage().rss - before) / 1e6)} MB more`);
    assert.equal(written, 0);
    await server.start();
    await writing;
    assert.equal((await driver.messages("a")).length, 1);
    // No rejected call was executed later.
    assert.equal(await driver.get("e"), undefined);
  },
);
