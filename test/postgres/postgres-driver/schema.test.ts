import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { describe, it } from "node:test";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { createSqlResolver } from "../../../adapters/postgres-driver/schema.js";
import { MIGRATIONS, SCHEMA_VERSION } from "../../../adapters/postgres-driver/tables.js";
import { listIds } from "../../../src/testing/session-driver/driver-calls.js";
import { aMessage, aSession, change } from "../../../src/testing/session-driver/records.js";
import { runAsAdmin, NO_POSTGRES, createPostgresDatabase, getPostgresUrl } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";

const schema = "kept";
const createDriver = (url: string): PostgresDriver => new PostgresDriver(postgresOptions({ url, schema }));
const openDriver = async (url: string): Promise<PostgresDriver> => {
  const driver = createDriver(url);
  await driver.open();
  return driver;
};

/** Creates an unprivileged role, and returns the URL of the database for this role. */
async function createOtherRole(url: string): Promise<string> {
  const name = `other_${new URL(url).pathname.slice(1)}`;
  await runAsAdmin(url, `CREATE ROLE ${name} LOGIN PASSWORD 'word'`);
  const roleUrl = new URL(url);
  roleUrl.username = name;
  roleUrl.password = "word";
  return roleUrl.href;
}

const dropOtherRole = (url: string): Promise<unknown> => {
  const name = `other_${new URL(url).pathname.slice(1)}`;
  return runAsAdmin(url, `DROP OWNED BY ${name} CASCADE`, `DROP ROLE ${name}`);
};

/** Inserts a session into tables of version 3 or 4. */
const insertSession = (n: number): string[] => [
  `INSERT INTO @.chains (root) VALUES ('s${n}')`,
  `INSERT INTO @.names VALUES ('s${n}', ${n}, 0, false)`,
  `INSERT INTO @.sessions (chain, last_seq, first_seq, prompt_tokens, completion_tokens, total_tokens, cost, idx, titled,
    id, alias, root, parent_id, project_dir, created_at, updated_at, cut, provider, model, reasoning_effort, mode, leave,
    cuts, title, search, spawner, spawner_run, spawner_call, archived) VALUES (${n}, 0, null, 0, 0, 0, 0, 0, false,
    's${n}', '', 's${n}', '', '/p', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:0${n}.000Z', '', 'lab', 'm1', 'low',
    'auto', '[]', '[]', 'Old', 'old', null, null, null, false)`,
];

describe("the schema of PostgresDriver", { skip: NO_POSTGRES }, () => {
  it("is created once when 8 drivers open a fresh database concurrently", async (t) => {
    const url = await createPostgresDatabase(t);
    const drivers = Array.from({ length: 8 }, () => createDriver(url));
    await Promise.all(drivers.map((driver) => driver.open()));
    await Promise.all(drivers.map((driver, n) => driver.create({ session: aSession(`s${n}`) })));
    assert.equal((await drivers[0]!.list({ limit: 1 })).total, 8);
    for (const driver of drivers) await driver.close();
    const [functionCounts] = await runAsAdmin(
      url,
      `SELECT count(*)::int AS n, count(DISTINCT proname)::int AS names FROM pg_proc WHERE pronamespace = 'kept'::regnamespace`,
    );
    assert.equal(functionCounts?.["n"], functionCounts?.["names"]);
  });

  it("is migrated from version 1 with its sessions and totals", async (t) => {
    const url = await createPostgresDatabase(t);
    const session = aSession("a", { title: "Old", lastSeq: 1, updatedAt: "2026-01-01T00:00:05.000Z" });
    const sql = [
      'CREATE SCHEMA "kept"',
      "CREATE TABLE @.version (version integer NOT NULL)",
      "INSERT INTO @.version VALUES (1)",
      MIGRATIONS[0] ?? "",
      "INSERT INTO @.chains (root) VALUES ('a')",
      "INSERT INTO @.names VALUES ('a', 1, 0, false)",
      `INSERT INTO @.sessions (chain, last_seq, first_seq, prompt_tokens, completion_tokens, total_tokens, cost, idx, titled,
        id, alias, root, parent_id, project_dir, created_at, updated_at, provider, model, reasoning_effort, mode, leave, cuts,
        title, search) VALUES (1, 1, 1, 0, 0, 0, 0, 0, false, 'a', '', 'a', '', '${session.projectDir}',
        '${session.createdAt}', '${session.updatedAt}', 'lab', 'm1', 'low', 'auto', '[]', '[]', 'Old', 'old')`,
      `INSERT INTO @.totals VALUES ('', 0, 1), ('dir:${session.projectDir}', 0, 1)`,
    ];
    await runAsAdmin(url, ...sql.map(createSqlResolver(schema)));
    const driver = await openDriver(url);
    assert.deepEqual(await driver.get("a"), session);
    const spawnedBy = { sessionId: "a", runId: "r", callId: "c" };
    await driver.create({ session: aSession("b", { spawnedBy }) });
    await driver.write("a", change({ add: [aMessage("a", 2)] }));
    assert.deepEqual(await listIds(driver), ["a"]);
    assert.equal((await driver.list({ limit: 1, projectDir: session.projectDir })).total, 1);
    assert.deepEqual(await listIds(driver, { spawnedBy: "a" }), ["b"]);
    await driver.close();
    assert.deepEqual(await runAsAdmin(url, "SELECT version FROM kept.version"), [{ version: SCHEMA_VERSION }]);
  });

  it("is migrated from version 3, whose servers can still create sessions, without owners", async (t) => {
    const url = await createPostgresDatabase(t);
    const sql = [
      'CREATE SCHEMA "kept"',
      "CREATE TABLE @.version (version integer NOT NULL)",
      "INSERT INTO @.version VALUES (3)",
      ...MIGRATIONS.slice(0, 3),
      ...insertSession(1),
    ];
    await runAsAdmin(url, ...sql.map(createSqlResolver(schema)));
    const driver = await openDriver(url);
    await runAsAdmin(url, ...insertSession(2).map(createSqlResolver(schema)));
    assert.equal("owner" in (await driver.get("s2"))!, false);
    assert.deepEqual(await listIds(driver), ["s2", "s1"]);
    assert.deepEqual(await listIds(driver, { visibleTo: "ann" }), []);
    await driver.write("s1", change({ set: { shared: true } }));
    await driver.create({ session: aSession("s3", { owner: "ann", updatedAt: "2026-01-01T00:00:09.000Z" }) });
    const insertRunSql = `INSERT INTO @.runs (chain, fence, id, key, state, started_at, named, record)
      SELECT c.chain, null, 'r3', '', 'finished', '', '', '{"id":"r3"}' FROM @.chains c WHERE c.root = 's3'`;
    await runAsAdmin(url, createSqlResolver(schema)(insertRunSql));
    const listRunCount = async (visibleTo: string) => (await driver.runs({ limit: 9, visibleTo })).length;
    assert.deepEqual([await listRunCount("ann"), await listRunCount("bob")], [1, 0]);
    assert.deepEqual(await listIds(driver, { visibleTo: "ann" }), ["s3", "s1"]);
    assert.equal((await driver.list({ limit: 1, visibleTo: "bob" })).total, 1);
    await driver.close();
    assert.deepEqual(await runAsAdmin(url, "SELECT version FROM kept.version"), [{ version: SCHEMA_VERSION }]);
  });

  it("is migrated from version 4: lists of users have their earlier sessions and runs", async (t) => {
    const url = await createPostgresDatabase(t);
    const sql = [
      'CREATE SCHEMA "kept"',
      "CREATE TABLE @.version (version integer NOT NULL)",
      "INSERT INTO @.version VALUES (4)",
      ...MIGRATIONS.slice(0, 4),
      ...insertSession(1),
      "UPDATE @.sessions SET owner = 'ann'",
      ...insertSession(2),
      "UPDATE @.sessions SET shared = true WHERE id = 's2'",
      `INSERT INTO @.runs (chain, fence, id, key, state, started_at, named, record)
       SELECT c.chain, null, 'r1', '', 'finished', '', '', '{"id":"r1"}' FROM @.chains c WHERE c.root = 's1'`,
    ];
    await runAsAdmin(url, ...sql.map(createSqlResolver(schema)));
    const driver = await openDriver(url);
    const countAll = async (visibleTo: string) => [
      (await driver.list({ limit: 9, visibleTo })).total,
      (await driver.runs({ limit: 9, visibleTo })).length,
    ];
    assert.deepEqual(await listIds(driver, { visibleTo: "ann" }), ["s2", "s1"]);
    assert.deepEqual(
      [await countAll("ann"), await countAll("bob")],
      [
        [2, 1],
        [1, 0],
      ],
    );
    await driver.write("s1", change({ set: { shared: true } }));
    assert.deepEqual(
      [await countAll("ann"), await countAll("bob")],
      [
        [2, 1],
        [2, 1],
      ],
    );
    await driver.close();
  });

  it("is rejected by open and left unchanged if the schema's version is newer than the driver's", async (t) => {
    const url = await createPostgresDatabase(t);
    await (await openDriver(url)).close();
    await runAsAdmin(url, `UPDATE kept.version SET version = ${SCHEMA_VERSION + 1}`);
    const tablesBefore = await runAsAdmin(url, "SELECT oid, relname FROM pg_class ORDER BY oid");
    const driver = createDriver(url);
    await assert.rejects(driver.open(), {
      code: "store",
      message: new RegExp(
        `schema kept: written by a newer gantry \\(version ${SCHEMA_VERSION + 1}, this one supports ${SCHEMA_VERSION}\\)`,
      ),
    });
    await driver.close();
    assert.deepEqual(await runAsAdmin(url, "SELECT oid, relname FROM pg_class ORDER BY oid"), tablesBefore);
    assert.deepEqual(await runAsAdmin(url, "SELECT version FROM kept.version"), [{ version: SCHEMA_VERSION + 1 }]);
  });

  it("is not created in a database with encoding LATIN1", async (t) => {
    const url = new URL(await getPostgresUrl());
    const database = `gantry_${randomBytes(8).toString("hex")}`;
    await runAsAdmin(
      url.href,
      `CREATE DATABASE ${database} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`,
    );
    t.after(() => runAsAdmin(url.href, `DROP DATABASE ${database} WITH (FORCE)`));
    const latinUrl = new URL(url);
    latinUrl.pathname = `/${database}`;
    const driver = createDriver(latinUrl.href);
    await assert.rejects(driver.open(), {
      code: "store",
      message:
        /schema kept: the database encoding LATIN1 cannot store every text.*name a database with encoding UTF8 in session\.url/,
    });
    await driver.close();
    assert.deepEqual(await runAsAdmin(latinUrl.href, "SELECT 1 FROM pg_namespace WHERE nspname = 'kept'"), []);
  });

  it("is not created on a read-only server, and open reports the reason", async (t) => {
    const url = await createPostgresDatabase(t);
    await runAsAdmin(url, `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET default_transaction_read_only = on`);
    const driver = new PostgresDriver(postgresOptions({ url, schema }, { pool: { connectTimeout: 1 } }));
    await assert.rejects(driver.open(), {
      code: "store",
      isUnavailable: true,
      message: /the server is a read-only standby/,
    });
    await driver.close();
  });

  it("accepts project folders of 4,095 characters, and rejects an id that is too long for an index", async (t) => {
    const driver = await openDriver(await createPostgresDatabase(t));
    // Random text, which the database cannot compress.
    const createPath = (length: number): string => {
      let text = "";
      while (text.length < length) text += randomUUID();
      return `/${text.slice(1, length)}`;
    };
    const projectDir = createPath(4095);
    const otherProject = projectDir.slice(0, -1);
    await driver.create({ session: aSession("a", { projectDir }) });
    await driver.create({ session: aSession("b", { projectDir }) });
    await driver.create({ session: aSession("c", { projectDir: otherProject }) });
    const readTotals = async () => [
      (await driver.list({ projectDir, limit: 9 })).total,
      (await driver.list({ projectDir, limit: 1, offset: 1 })).total,
      (await driver.list({ projectDir: otherProject, limit: 9 })).total,
    ];
    assert.deepEqual(await readTotals(), [2, 2, 1]);
    assert.deepEqual(await listIds(driver, { projectDir: otherProject }), ["c"]);
    await driver.write("a", change({ set: { projectDir: otherProject } }));
    await driver.delete(["b"]);
    assert.deepEqual(await readTotals(), [0, 0, 2]);
    await assert.rejects(driver.create({ session: aSession(createPath(10_000)) }), {
      code: "store",
      message: /an id, a key or a message is longer than the database can hold \(54000\)$/,
    });
    await driver.close();
  });

  it("accepts fractions and numbers up to 1e300 as token counts", async (t) => {
    const driver = await openDriver(await createPostgresDatabase(t));
    await driver.create({ session: aSession("a") });
    const usageBefore = (await driver.get("a"))!.usage;
    await driver.write(
      "a",
      change({ usage: { promptTokens: 1.5, completionTokens: 1e300, totalTokens: 2 ** 53, cost: 0.1 } }),
    );
    const { promptTokens, completionTokens, totalTokens } = (await driver.get("a"))!.usage;
    assert.deepEqual(
      [promptTokens, completionTokens, totalTokens],
      [usageBefore.promptTokens + 1.5, 1e300, usageBefore.totalTokens + 2 ** 53],
    );
    await driver.close();
  });

  it("is completed by open if only the empty schema exists", async (t) => {
    const url = await createPostgresDatabase(t);
    await runAsAdmin(url, "CREATE SCHEMA kept");
    const driver = await openDriver(url);
    await driver.create({ session: aSession("a") });
    assert.deepEqual(await listIds(driver), ["a"]);
    await driver.close();
  });

  it("keeps the functions of another version, so that open drivers of that version still work", async (t) => {
    const url = await createPostgresDatabase(t);
    const oldDriver = await openDriver(url);
    await oldDriver.create({ session: aSession("a") });
    // Simulates another version by renaming the functions. Connections that already use them are not affected.
    const functions = await runAsAdmin(
      url,
      `SELECT oid::regprocedure::text AS name, regexp_replace(proname, '_[0-9a-f]{8}$', '_00000000') AS renamed
       FROM pg_proc WHERE pronamespace = 'kept'::regnamespace AND prorettype <> 'trigger'::regtype`,
    );
    assert.ok(functions.length > 10);
    for (const { name, renamed } of functions) await runAsAdmin(url, `ALTER FUNCTION ${name} RENAME TO ${renamed}`);
    const newDriver = await openDriver(url);
    await newDriver.write("a", change({ add: [aMessage("a", 1)] }));
    await oldDriver.write("a", change({ add: [aMessage("a", 2)] }));
    assert.equal((await oldDriver.messages("a")).length, 2);
    const [{ n } = {}] = await runAsAdmin(
      url,
      "SELECT count(*)::int AS n FROM pg_proc WHERE pronamespace = 'kept'::regnamespace AND prorettype <> 'trigger'::regtype",
    );
    assert.equal(n, 2 * functions.length);
    await oldDriver.close();
    await newDriver.close();
  });

  it("is usable for a role with rights on the rows only, and open reports a missing right", async (t) => {
    const url = await createPostgresDatabase(t);
    const roleUrl = await createOtherRole(url);
    // Drops the database before the role, because the role has rights in it.
    await using _ = { [Symbol.asyncDispose]: () => dropOtherRole(url).then(() => undefined) };
    const unprivilegedDriver = createDriver(roleUrl);
    await assert.rejects(unprivilegedDriver.open(), {
      code: "store",
      message:
        /schema kept: tables or functions of this version are missing.*needs CREATE on the schema, or on the database/,
    });
    await unprivilegedDriver.close();
    await (await openDriver(url)).close();
    const name = new URL(roleUrl).username;
    await runAsAdmin(
      url,
      `GRANT USAGE ON SCHEMA kept TO ${name}`,
      `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA kept TO ${name}`,
    );
    const driver = await openDriver(roleUrl);
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    const lease = await driver.lease("a", { id: "h", host: "", boot: "", pid: 1, started: "" }, 1000);
    assert.ok("fence" in lease);
    await driver.write("a", change({ fence: lease.fence, add: [aMessage("a", 2)] }));
    await driver.delete(["a"]);
    await driver.close();
  });

  it("stores NUL, noncharacters and lone surrogates unchanged in all text columns", async (t) => {
    const url = await createPostgresDatabase(t);
    const driver = await openDriver(url);
    for (const [n, unusualText] of [
      "\ud800",
      "a\udfffb",
      "\0",
      "\ufdd0\ufdd1",
      "\ufdd0",
      "\ud83d\ud83d\ude00",
      "\ufdd1\0\udc00",
    ].entries()) {
      const id = `${unusualText}${n}`;
      const session = aSession(id, {
        alias: `alias ${unusualText}`,
        title: unusualText,
        projectDir: `/${unusualText}`,
        model: unusualText,
      });
      await driver.create({
        session,
        messages: [aMessage(id, 1, { id: unusualText, name: unusualText, toolCallId: unusualText })],
      });
      assert.deepEqual(await driver.get(`alias ${unusualText}`), { ...session, lastSeq: 1 });
      assert.deepEqual(await driver.messages(id, { tool: unusualText }), [
        aMessage(id, 1, { id: unusualText, name: unusualText, toolCallId: unusualText }),
      ]);
      assert.deepEqual(await listIds(driver, { projectDir: `/${unusualText}`, search: unusualText }), [id]);
    }
    await driver.close();
  });

  it("loses all 12,000 messages of a deleted chain, and the remains of an interrupted delete", async (t) => {
    const url = await createPostgresDatabase(t);
    const driver = await openDriver(url);
    const messages = Array.from({ length: 12_000 }, (_, n) => aMessage("a", n + 1));
    for (const id of ["a", "b"]) await driver.create({ session: aSession(id), messages });
    await runAsAdmin(
      url,
      "INSERT INTO kept.remains VALUES (77)",
      "UPDATE kept.messages SET chain = 77 WHERE chain = 2 AND seq < 9000",
    );
    await driver.delete(["a"]);
    assert.deepEqual(await runAsAdmin(url, "SELECT DISTINCT chain::int FROM kept.messages ORDER BY chain"), [
      { chain: 2 },
    ]);
    assert.deepEqual(await runAsAdmin(url, "SELECT * FROM kept.remains"), []);
    await driver.close();
  });
});
