import assert from "node:assert/strict";
import { it } from "node:test";
import { inspect } from "node:util";
import { StoreError } from "gantry";
import { Client } from "pg";
import { waitUntil } from "../../helpers/server-runs.js";
import { NO_POSTGRES, runAsAdmin, createPostgresSchema, getPostgresUrl } from "../../helpers/postgres.js";
import { TcpProxy } from "../../helpers/tcp-proxy.js";
import type { Hooks } from "../../helpers/temp-dir.js";
import { Connections } from "../../../adapters/postgres-driver/connections.js";

const needsPostgres = { skip: NO_POSTGRES };
/** Limits that are reached only if a server hangs. */
const POOL = { size: 4, connectTimeout: 120, idleTimeout: 30, statementTimeout: 120 };

async function openConnections(hooks: Hooks, url: string, pool: Partial<typeof POOL> = {}): Promise<Connections> {
  const connections = new Connections({ url, pool: { ...POOL, ...pool } });
  hooks.after(() => connections.close());
  await connections.open(() => Promise.resolve());
  return connections;
}

it("Connections runs 20 concurrent queries on at most 4 connections", needsPostgres, async (t) => {
  const connections = await openConnections(t, await getPostgresUrl());
  const name = `pool-${process.pid}`;
  const processIds = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const [row] = await connections.query<{ pid: number }>(
        "SELECT pg_backend_pid() AS pid, pg_sleep(0.01), $1",
        [name],
        "read",
      );
      return row?.pid;
    }),
  );
  assert.equal(processIds.length, 20);
  assert.ok(new Set(processIds).size <= POOL.size);
});

it(
  "Connections.open runs the preparation on one connection, whose queries return the rows of the last statement",
  needsPostgres,
  async (t) => {
    const { url, schema } = await createPostgresSchema(t);
    const connections = new Connections({ url, pool: POOL });
    t.after(() => connections.close());
    await connections.open(async (query) => {
      await query(`BEGIN; CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.t (a int)`);
      await query(`INSERT INTO ${schema}.t VALUES ($1)`, [7]);
      assert.deepEqual(await query(`SELECT 1 AS b; SELECT a FROM ${schema}.t`), [{ a: 7 }]);
      await query("COMMIT");
    });
    assert.deepEqual(await connections.query(`SELECT a FROM ${schema}.t`, [], "read"), [{ a: 7 }]);
  },
);

it("Connections.open rolls back the transaction of a failed preparation", needsPostgres, async (t) => {
  const { url, schema } = await createPostgresSchema(t);
  const connections = new Connections({ url, pool: POOL });
  t.after(() => connections.close());
  const failedOpen = connections.open(async (query) => {
    await query(`BEGIN; CREATE SCHEMA ${schema}`);
    await query("SELECT nothing.such()");
  });
  await assert.rejects(failedOpen, /nothing/);
  await connections.open(() => Promise.resolve());
  const schemas = await connections.query("SELECT 1 FROM pg_namespace WHERE nspname = $1", [schema], "read");
  assert.deepEqual(schemas, []);
});

it(
  "Connections repeats a statement whose connection was lost, whether or not the server executed the statement",
  needsPostgres,
  async (t) => {
    const { url, schema } = await createPostgresSchema(t);
    await runAsAdmin(url, `CREATE SCHEMA ${schema}`, `CREATE TABLE ${schema}.t (token text PRIMARY KEY, times int)`);
    const proxy = await TcpProxy.startBefore(t, url);
    const connections = await openConnections(t, proxy.toProxyUrl(url));
    const storeToken = (token: string) =>
      connections.query(
        `INSERT INTO ${schema}.t AS t VALUES ($1, 1) ON CONFLICT (token) DO UPDATE SET times = t.times + 1`,
        [token],
        "once",
      );
    for (let n = 0; n < 3; n++) {
      proxy.cutNext("question");
      await storeToken(`request lost ${n}`);
      proxy.cutNext("answer");
      await storeToken(`answer lost ${n}`);
    }
    const rows = await connections.query<{ token: string; times: number }>(`SELECT * FROM ${schema}.t`, [], "read");
    assert.equal(rows.length, 6);
    for (const { token, times } of rows) assert.ok(times === 1 || token.startsWith("answer lost"), token);
    assert.ok(rows.some(({ times }) => times === 2));
  },
);

it(
  "Connections cancels a statement after its time limit, and does not cancel the next statement",
  needsPostgres,
  async (t) => {
    const connections = await openConnections(t, await getPostgresUrl(), { size: 1, statementTimeout: 0.2 });
    await assert.rejects(
      connections.query("SELECT pg_sleep(3600)", [], "once"),
      (error) =>
        error instanceof StoreError && /within 0.2 s; whether the change was made is not known$/.test(error.message),
    );
    // Time: this statement has a longer limit than the pool's default.
    await connections.query("SELECT pg_sleep(0.5)", [], "read", { timeoutSeconds: 120 });
    const sleepingQuery =
      "SELECT count(*)::int AS n FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%sleep(36' || '00)%'";
    await waitUntil(async () => {
      const [row] = await connections.query<{ n: number }>(sleepingQuery, [], "read", { timeoutSeconds: 120 });
      return row?.n === 0;
    });
  },
);

it("Connections repeats a statement that the server aborted because of a deadlock", needsPostgres, async (t) => {
  const { url, schema } = await createPostgresSchema(t);
  await runAsAdmin(
    url,
    `CREATE SCHEMA ${schema}`,
    `CREATE TABLE ${schema}.t AS SELECT 1 AS id, 0 AS n UNION ALL SELECT 2, 0`,
    `CREATE FUNCTION ${schema}.both(a int, b int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
       UPDATE ${schema}.t SET n = n + 1 WHERE id = a;
       -- Each of the first two calls waits until the other call holds a row; repeated calls do not wait.
       PERFORM nextval('${schema}.calls');
       WHILE (SELECT last_value FROM ${schema}.calls) < 2 LOOP PERFORM pg_sleep(0.005); END LOOP;
       UPDATE ${schema}.t SET n = n + 1 WHERE id = b; END $$`,
    `CREATE SEQUENCE ${schema}.calls`,
  );
  const connections = await openConnections(t, url);
  const updateBoth = (a: number, b: number) => connections.query(`SELECT ${schema}.both($1, $2)`, [a, b], "once");
  await Promise.all([updateBoth(1, 2), updateBoth(2, 1)]);
  assert.deepEqual(await connections.query(`SELECT n FROM ${schema}.t`, [], "read"), [{ n: 2 }, { n: 2 }]);
  const [callRow] = await connections.query<{ n: number }>(
    `SELECT last_value::int AS n FROM ${schema}.calls`,
    [],
    "read",
  );
  assert.ok(callRow && callRow.n > 2, "no statement was repeated");
});

it("Connections restarts the wait for a connection before it repeats a statement", needsPostgres, async (t) => {
  const { url, schema } = await createPostgresSchema(t);
  const lockCall = (n: number) => `pg_advisory_xact_lock_shared(hashtext('${schema}'), ${n})`;
  await runAsAdmin(
    url,
    `CREATE SCHEMA ${schema}`,
    `CREATE SEQUENCE ${schema}.calls`,
    `CREATE FUNCTION ${schema}.conflict() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
       PERFORM ${lockCall(1)};
       IF nextval('${schema}.calls') = 1 THEN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END IF;
       RETURN 7; END $$`,
  );
  const connections = await openConnections(t, url, { size: 1 });
  const lockingClient = new Client({ connectionString: url });
  await lockingClient.connect();
  t.after(() => lockingClient.end());
  for (const n of [1, 2]) await lockingClient.query(`SELECT pg_advisory_lock(hashtext('${schema}'), ${n})`);
  const unlock = (n: number) => lockingClient.query(`SELECT pg_advisory_unlock(hashtext('${schema}'), ${n})`);
  const isQueryWaiting = async (text: string): Promise<boolean> => {
    const waitingQuery = "SELECT query FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))";
    const { rows } = await lockingClient.query<{ query: string }>(waitingQuery);
    return rows.some(({ query }) => query.includes(text));
  };
  const { now: realNow } = Date;
  t.after(() => void (Date.now = realNow));
  const conflictQuery = connections.query(`SELECT ${schema}.conflict() AS n`, [], "once");
  conflictQuery.catch(() => undefined);
  await waitUntil(() => isQueryWaiting("conflict()"));
  // From now on, the first attempt of the statement has taken longer than connectTimeout.
  Date.now = () => realNow() + (POOL.connectTimeout + 60) * 1000;
  const secondQuery = connections.query(`SELECT ${lockCall(2)} AS between`, [], "read");
  await unlock(1);
  await waitUntil(() => isQueryWaiting("between"));
  await unlock(2);
  assert.deepEqual(await conflictQuery, [{ n: 7 }]);
  await secondQuery;
});

it(
  "Connections hides statement values in errors, except those of the driver's own functions",
  needsPostgres,
  async (t) => {
    const { url, schema } = await createPostgresSchema(t);
    await runAsAdmin(
      url,
      `CREATE SCHEMA ${schema}`,
      `CREATE FUNCTION ${schema}.refuse(what text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
       RAISE EXCEPTION 'no' USING ERRCODE = 'GN001', DETAIL = what; END $$`,
    );
    const connections = await openConnections(t, url);
    const secret = "what a user wrote";
    const getQueryError = async (text: string): Promise<Error> => {
      try {
        await connections.query(text, [secret], "read");
      } catch (error) {
        if (error instanceof Error) return error;
      }
      throw new Error("the query did not fail");
    };
    for (const text of ["SELECT $1::text::int", "SELECT 1 / (length($1::text) - 17), $1"]) {
      const error = await getQueryError(text);
      assert.ok(!inspect(error, { depth: 9, showHidden: true }).includes(secret));
      assert.match(error.message, /22/);
    }
    // The caller may read the errors of the driver's own functions.
    const functionError = await getQueryError(`SELECT ${schema}.refuse($1)`);
    assert.deepEqual(
      [functionError.message, (functionError as { code?: string }).code, (functionError as { detail?: string }).detail],
      ["no", "GN001", secret],
    );
  },
);

it(
  "Connections.open rejects a wrong password with an error that does not contain the password",
  needsPostgres,
  async (t) => {
    const url = new URL(await getPostgresUrl());
    const password = "geheim-geheim";
    url.password = password;
    const connections = new Connections({ url: url.href, pool: POOL });
    t.after(() => connections.close());
    await assert.rejects(
      connections.open(() => Promise.resolve()),
      (error) => {
        assert.ok(error instanceof StoreError);
        assert.equal(
          error.message,
          `session store ${url.host}${url.pathname}: the server refuses the user or the password of session.url (28P01)`,
        );
        assert.ok(!inspect(error, { depth: 9, showHidden: true }).includes(password));
        return true;
      },
    );
    assert.ok(!inspect(connections, { depth: 9, showHidden: true }).includes(password));
  },
);

it("Connections reports a refused connection, and rejects waiting calls beyond 10,000", async (t) => {
  const connections = new Connections({ url: "postgres://a:b@127.0.0.1:1/c", pool: POOL });
  t.after(() => connections.close());
  await assert.rejects(
    connections.open(() => Promise.resolve()),
    (error) => {
      assert.ok(error instanceof StoreError);
      assert.equal(
        error.message,
        "session store 127.0.0.1:1/c: connection refused; check that the server runs (ECONNREFUSED)",
      );
      return true;
    },
  );
  // A new object, because the first object may remember the failure and reject calls at once. Making so many calls can
  // take a second. All calls are rejected after the first connection attempt has failed.
  const newConnections = new Connections({ url: "postgres://a:b@127.0.0.1:1/c", pool: POOL });
  t.after(() => newConnections.close());
  const openCall = newConnections.open(() => Promise.resolve());
  const queryCalls = [openCall, ...Array.from({ length: 10_499 }, () => newConnections.query("SELECT 1", [], "read"))];
  const outcomes = (await Promise.allSettled(queryCalls)).map((call) =>
    call.status === "rejected" ? String(call.reason) : "done",
  );
  assert.equal(outcomes.filter((text) => text.includes("127.0.0.1:1/c: too many calls wait; ")).length, 500);
  assert.equal(outcomes.filter((text) => text.includes("127.0.0.1:1/c: connection refused")).length, 10_000);
});

it(
  "Connections.close rejects running and waiting statements, and Connections.open permits new statements",
  needsPostgres,
  async (t) => {
    const connections = await openConnections(t, await getPostgresUrl(), { size: 1, statementTimeout: 60 });
    const queries = [connections.query("SELECT pg_sleep(60)", [], "read"), connections.query("SELECT 1", [], "read")];
    const settledQueries = Promise.allSettled(queries);
    await connections.close();
    assert.deepEqual(
      (await settledQueries).map(({ status }) => status),
      ["rejected", "rejected"],
    );
    await assert.rejects(connections.query("SELECT 1", [], "read"), /it is closed/);
    await connections.open(() => Promise.resolve());
    assert.deepEqual(await connections.query("SELECT 1 AS one", [], "read"), [{ one: 1 }]);
  },
);

it(
  "Connections rejects a server without TLS unless sslmode permits unencrypted connections",
  needsPostgres,
  async (t) => {
    const url = new URL(await getPostgresUrl());
    url.searchParams.set("sslmode", "prefer");
    const connections = await openConnections(t, url.href);
    const [row] = await connections.query<{ ssl: boolean }>(
      "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
      [],
      "read",
    );
    // The following checks need a server without TLS.
    if (row?.ssl) return;
    for (const mode of ["no-verify", "require", "verify-full"]) {
      url.searchParams.set("sslmode", mode);
      const strictConnections = new Connections({ url: url.href, pool: POOL });
      t.after(() => strictConnections.close());
      await assert.rejects(
        strictConnections.open(() => Promise.resolve()),
        /the server offers no encryption/,
      );
    }
  },
);
