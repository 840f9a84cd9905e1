import assert from "node:assert/strict";
import { it } from "node:test";
import { inspect } from "node:util";
import { StoreError, hasCode } from "gantry";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { acquireLease } from "../../../src/testing/session-driver/driver-calls.js";
import { aMessage, aSession, change } from "../../../src/testing/session-driver/records.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { findPostgres } from "../../helpers/postgres-binaries.js";
import { NO_POSTGRES, startPrivateServer, createPostgresDatabase } from "../../helpers/postgres.js";
import type { PrivateServer } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";

const needsPrivateServer = { skip: NO_POSTGRES || (findPostgres() ? false : "no PostgreSQL server is installed here") };
const WRITER_COUNT = 12;

type Outage = readonly [
  name: string,
  begin: (server: PrivateServer) => Promise<void>,
  end: (server: PrivateServer) => Promise<void>,
];

const OUTAGES: readonly Outage[] = [
  ["is stopped", (server) => server.stop(), (server) => server.start()],
  ["crashes", (server) => server.kill(), (server) => server.start()],
  ["hangs", (server) => server.pause(), (server) => server.resume()],
];

for (const [name, beginOutage, endOutage] of OUTAGES) {
  it(`driver calls fail while the server ${name}, and no acknowledged write is lost`, needsPrivateServer, async (t) => {
    const server = await startPrivateServer(t, { fsync: "on" });
    const url = await createPostgresDatabase(t, server);
    const { password, host, pathname } = new URL(url);
    const pool = { size: 4, connectTimeout: 1, idleTimeout: 30, statementTimeout: 1, listenUrl: "" };
    const driver = new PostgresDriver(postgresOptions({ url, schema: "gantry" }, { pool }));
    t.after(() => driver.close());
    // The timeouts of this driver are longer than the outage, so that none of its calls fails.
    const referenceDriver = new PostgresDriver(
      postgresOptions({ url, schema: "gantry" }, { pool: { ...pool, connectTimeout: 120, statementTimeout: 120 } }),
    );
    t.after(() => referenceDriver.close());
    await referenceDriver.open();
    // On a busy machine, opening can take longer than the time limit of one second.
    await waitUntil(() =>
      driver.open().then(
        () => true,
        () => false,
      ),
    );

    const failures: StoreError[] = [];
    let writeCount = 0;
    let isOver = false;
    /** Writes messages until the test is over. After a failure, checks whether the last message is stored. */
    const write = async (id: string): Promise<number> => {
      await referenceDriver.create({ session: aSession(id) });
      let seq = 1;
      while (!isOver) {
        try {
          await driver.write(id, change({ add: [aMessage(id, seq)], sync: true }));
          seq++;
          writeCount++;
        } catch (error) {
          // A statement that was sent before the server stopped can still be executed when it continues.
          if (hasCode(error, "seq_taken")) seq++;
          else if (!(error instanceof StoreError)) throw error;
          else failures.push(error);
          for (let isVerified = false; !isVerified;) {
            try {
              const storedCount = (await driver.messages(id)).length;
              // All acknowledged messages are stored. The message of the failed write may be stored or not.
              assert.ok(storedCount === seq - 1 || storedCount === seq, `${storedCount} of ${seq}`);
              seq = storedCount + 1;
              isVerified = true;
            } catch (readError) {
              if (!(readError instanceof StoreError)) throw readError;
              failures.push(readError);
            }
          }
        }
      }
      return seq - 1;
    };
    const writers = Promise.all(Array.from({ length: WRITER_COUNT }, (_, n) => write(`chain ${n}`)));
    let writerError: unknown;
    writers.catch((error: unknown) => (writerError = error ?? "a writer failed"));
    const waitForCount = (count: () => number, minimum: number): Promise<void> =>
      waitUntil(() => {
        if (writerError !== undefined) throw writerError;
        return count() >= minimum;
      });
    await waitForCount(() => writeCount, WRITER_COUNT * 3);
    const failureCountBefore = failures.length;
    await beginOutage(server);
    await waitForCount(() => failures.length, failureCountBefore + WRITER_COUNT * 2);
    await endOutage(server);
    const writeCountBefore = writeCount;
    await waitForCount(() => writeCount, writeCountBefore + WRITER_COUNT * 10);
    isOver = true;
    const counts = await writers;
    for (const [n, count] of counts.entries())
      assert.deepEqual(
        (await referenceDriver.messages(`chain ${n}`)).map(({ seq }) => seq),
        Array.from({ length: count }, (_, index) => index + 1),
      );
    for (const error of failures) {
      assert.equal(error.isUnavailable, true, error.message);
      assert.ok(error.message.startsWith(`session store ${host}${pathname}: `), error.message);
    }
    assert.ok(!inspect([failures, driver], { depth: 12, showHidden: true }).includes(password));
    t.diagnostic([...new Set(failures.map(({ message }) => message.slice(message.indexOf(": "))))].join(" / "));
  });
}

it("PostgresDriver.open rejects while the server is stopped, and succeeds later", needsPrivateServer, async (t) => {
  const server = await startPrivateServer(t);
  const url = await createPostgresDatabase(t, server);
  const pool = { size: 2, connectTimeout: 120, idleTimeout: 30, statementTimeout: 120, listenUrl: "" };
  await server.stop();
  const driver = new PostgresDriver(postgresOptions({ url, schema: "gantry" }, { pool }));
  t.after(() => driver.close());
  await assert.rejects(driver.open(), (error) => error instanceof StoreError && error.isUnavailable);
  await server.start();
  await driver.open();
  assert.equal(await driver.get("nothing"), undefined);
});

it(
  "PostgresDriver rejects new calls while the server is stopped, and completes earlier writes after the server's start",
  needsPrivateServer,
  async (t) => {
    const server = await startPrivateServer(t);
    const url = await createPostgresDatabase(t, server);
    // Timeouts far longer than the test.
    const pool = { size: 3, connectTimeout: 600, idleTimeout: 30, statementTimeout: 600, listenUrl: "" };
    const createDriver = (): PostgresDriver => {
      const driver = new PostgresDriver(postgresOptions({ url, schema: "gantry" }, { pool }));
      t.after(() => driver.close());
      return driver;
    };
    const driver = createDriver();
    await driver.open();
    for (const id of ["a", "b", "c", "d"]) await driver.create({ session: aSession(id) });
    const lease = await acquireLease(driver, "a", "holder");
    await server.stop();
    let writeCount = 0;
    const write = async (id: string, fence?: number): Promise<void> => {
      await driver.write(id, change({ add: [aMessage(id, 1)], sync: true, ...(fence !== undefined && { fence }) }));
      writeCount++;
    };
    const writes = Promise.all([write("a", lease.fence), write("b"), write("c"), write("d")]);
    const isUnavailableError = (error: unknown): boolean => error instanceof StoreError && error.isUnavailable === true;
    const calls: readonly (() => Promise<unknown>)[] = [
      () => driver.get("a"),
      () => driver.messages("a"),
      () => driver.list({ limit: 5 }),
      () => acquireLease(driver, "z", "other"),
      () => driver.create({ session: aSession("e") }),
    ];
    const rssBytesBefore = process.memoryUsage().rss;
    for (let round = 0; round < 3; round++)
      await Promise.all(
        Array.from({ length: 300 }, (_, n) =>
          assert.rejects(calls[n % calls.length]!(), isUnavailableError, String(n)),
        ),
      );
    await assert.rejects(createDriver().open(), isUnavailableError);
    t.diagnostic(`${Math.round((process.memoryUsage().rss - rssBytesBefore) / 1e6)} MB more`);
    assert.equal(writeCount, 0);
    await server.start();
    await writes;
    assert.equal((await driver.messages("a")).length, 1);
    // No rejected call was executed later.
    assert.equal(await driver.get("e"), undefined);
  },
);
