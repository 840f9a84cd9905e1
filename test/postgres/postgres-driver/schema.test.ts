import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { describe, it } from "node:test";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { createSqlResolver } from "../../../adapters/postgres-driver/schema.js";
import { MIGRATIONS, SCHEMA_VERSION } from "../../../adapters/postgres-driver/tables.js";
import { aMessage, aSession, change, listIds } from "../../../src/testing/session-driver/rule.js";
import { asAdmin, NO_POSTGRES, postgresDatabase, postgresUrl } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";

const schema = "kept";
const driverAt = (url: string): PostgresDriver => new PostgresDriver(postgresOptions({ url, schema }));
const opened = async (url: string): Promise<PostgresDriver> => {
  const driver = driverAt(url);
  await driver.open();
  return driver;
};

/** The URL of the database for another, unprivileged role. */
async function asOther(url: string): Promise<string> {
  const name = `other_${new URL(url).pathname.slice(1)}`;
  await asAdmin(url, `CREATE ROLE ${name} LOGIN PASSWORD 'word'`);
  const roleUrl = new URL(url);
  roleUrl.username = name;
  roleUrl.password = "word";
  return roleUrl.href;
}

const drop = (url: string): Promise<unknown> => {
  const name = `other_${new URL(url).pathname.slice(1)}`;
  return asAdmin(url, `DROP OWNED BY ${name} CASCADE`, `DROP ROLE ${name}`);
};

describe("the schema of PostgresDriver", { skip: NO_POSTGRES }, () => {
  it("is created once when 8 drivers open a fresh database concurrently", async (t) => {
    const url = await postgresDatabase(t);
    const drivers = Array.from({ length: 8 }, () => driverAt(url));
    await Promise.all(drivers.map((driver) => driver.open()));
    await Promise.all(drivers.map((driver, n) => driver.create({ session: aSession(`s${n}`) })));
    assert.equal((await drivers[0]!.list({ limit: 1 })).total, 8);
    for (const driver of drivers) await driver.close();
    const [functionCounts] = await asAdmin(
      url,
      `SELECT count(*)::int AS n, count(DISTINCT proname)::int AS names FROM pg_proc WHERE pronamespace = 'kept'::regnamespace`,
    );
    assert.equal(functionCounts?.["n"], functionCounts?.["names"]);
  });

  it("is migrated from version 1 with its sessions and totals", async (t) => {
    const url = await postgresDatabase(t);
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
    await asAdmin(url, ...sql.map(createSqlResolver(schema)));
    const driver = await opened(url);
    assert.deepEqual(await driver.get("a"), session);
    const spawnedBy = { sessionId: "a", runId: "r", callId: "c" };
    await driver.create({ session: aSession("b", { spawnedBy }) });
    await driver.write("a", change({ add: [aMessage("a", 2)] }));
    assert.deepEqual(await listIds(driver), ["a"]);
    assert.equal((await driver.list({ limit: 1, projectDir: session.projectDir })).total, 1);
    assert.deepEqual(await listIds(driver, { spawnedBy: "a" }), ["b"]);
    await driver.close();
    assert.deepEqual(await asAdmin(url, "SELECT version FROM kept.version"), [{ version: SCHEMA_VERSION }]);
  });

  it("is rejected by open and left unchanged if its version is newer", async (t) => {
    const url = await postgresDatabase(t);
    await (await opened(url)).close();
    await asAdmin(url, `UPDATE kept.version SET version = ${SCHEMA_VERSION + 1}`);
    const before = await asAdmin(url, "SELECT oid, relname FROM pg_class ORDER BY oid");
    const driver = driverAt(url);
    await assert.rejects(driver.open(), {
      code: "store",
      message: new RegExp(
        `schema kept: written by a newer gantry \\(version ${SCHEMA_VERSION + 1}, this one supports ${SCHEMA_VERSION}\\)`,
      ),
    });
    await driver.close();
    assert.deepEqual(await asAdmin(url, "SELECT oid, relname FROM pg_class ORDER BY oid"), before);
    assert.deepEqual(await asAdmin(url, "SELECT version FROM kept.version"), [{ version: SCHEMA_VERSION + 1 }]);
  });

  it("is not created in a database with encoding LATIN1", async (t) => {
    const url = new URL(await postgresUrl());
    const database = `gantry_${randomBytes(8).toString("hex")}`;
    await asAdmin(
      url.href,
      `CREATE DATABASE ${database} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`,
    );
    t.after(() => asAdmin(url.href, `DROP DATABASE ${database} WITH (FORCE)`));
    const latin = new URL(url);
    latin.pathname = `/${database}`;
    const driver = driverAt(latin.href);
    await assert.rejects(driver.open(), {
      code: "store",
      message:
        /schema kept: the database encoding LATIN1 cannot store every text.*name a database with encoding UTF8 in session\.url/,
    });
    await driver.close();
    assert.deepEqual(await asAdmin(latin.href, "SELECT 1 FROM pg_namespace WHERE nspname = 'kept'"), []);
  });

  it("is not created on a read-only server, and open reports the reason", async (t) => {
    const url = await postgresDatabase(t);
    await asAdmin(url, `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET default_transaction_read_only = on`);
    const driver = new PostgresDriver(postgresOptions({ url, schema }, { pool: { connectTimeout: 1 } }));
    await assert.rejects(driver.open(), {
      code: "store",
      unavailable: true,
      message: /the server is a read-only standby/,
    });
    await driver.close();
  });

  it("accepts project folders of 4,095 characters, and rejects an id that is too long for an index", async (t) => {
    const driver = await opened(await postgresDatabase(t));
    // Text that cannot be compressed.
    const long = (length: number): string => {
      let text = "";
      while (text.length < length) text += randomUUID();
      return `/${text.slice(1, length)}`;
    };
    const projectDir = long(4095);
    const otherProject = projectDir.slice(0, -1);
    await driver.create({ session: aSession("a", { projectDir }) });
    await driver.create({ session: aSession("b", { projectDir }) });
    await driver.create({ session: aSession("c", { projectDir: otherProject }) });
    const totals = async () => [
      (await driver.list({ projectDir, limit: 9 })).total,
      (await driver.list({ projectDir, limit: 1, offset: 1 })).total,
      (await driver.list({ projectDir: otherProject, limit: 9 })).total,
    ];
    assert.deepEqual(await totals(), [2, 2, 1]);
    assert.deepEqual(await listIds(driver, { projectDir: otherProject }), ["c"]);
    await driver.write("a", change({ set: { projectDir: otherProject } }));
    await driver.delete(["b"]);
    assert.deepEqual(await totals(), [0, 0, 2]);
    await assert.rejects(driver.create({ session: aSession(long(10_000)) }), {
      code: "store",
      message: /an id, a key or a message is longer than the database can hold \(54000\)$/,
    });
    await driver.close();
  });

  it("accepts fractions and numbers up to 1e300 as token counts", async (t) => {
    const driver = await opened(await postgresDatabase(t));
    await driver.create({ session: aSession("a") });
    const before = (await driver.get("a"))!.usage;
    await driver.write(
      "a",
      change({ usage: { promptTokens: 1.5, completionTokens: 1e300, totalTokens: 2 ** 53, cost: 0.1 } }),
    );
    const { promptTokens, completionTokens, totalTokens } = (await driver.get("a"))!.usage;
    assert.deepEqual(
      [promptTokens, completionTokens, totalTokens],
      [before.promptTokens + 1.5, 1e300, before.totalTokens + 2 ** 53],
    );
    await driver.close();
  });

  it("is completed by open if only the empty schema exists", async (t) => {
    const url = await postgresDatabase(t);
    await asAdmin(url, "CREATE SCHEMA kept");
    const driver = await opened(url);
    await driver.create({ session: aSession("a") });
    assert.deepEqual(await listIds(driver), ["a"]);
    await driver.close();
  });

  it("keeps the functions of another version, so that its open drivers still work", async (t) => {
    const url = await postgresDatabase(t);
    const old = await opened(url);
    await old.create({ session: aSession("a") });
    // Simulates another version: the functions of this version have new names, except for connections that already use
    // them.
    const functions = await asAdmin(
      url,
      `SELECT oid::regprocedure::text AS name, regexp_replace(proname, '_[0-9a-f]{8}$', '_00000000') AS renamed
       FROM pg_proc WHERE pronamespace = 'kept'::regnamespace`,
    );
    assert.ok(functions.length > 10);
    for (const { name, renamed } of functions) await asAdmin(url, `ALTER FUNCTION ${name} RENAME TO ${renamed}`);
    const next = await opened(url);
    await next.write("a", change({ add: [aMessage("a", 1)] }));
    await old.write("a", change({ add: [aMessage("a", 2)] }));
    assert.equal((await old.messages("a")).length, 2);
    const [{ n } = {}] = await asAdmin(
      url,
      "SELECT count(*)::int AS n FROM pg_proc WHERE pronamespace = 'kept'::regnamespace",
    );
    assert.equal(n, 2 * functions.length);
    await old.close();
    await next.close();
  });

  it("is usable for a role with rights on its rows only, and open names a missing right", async (t) => {
    const url = await postgresDatabase(t);
    const roleUrl = await asOther(url);
    // Drops the database before the role, because the role has rights in it.
    await using _ = { [Symbol.asyncDispose]: () => drop(url).then(() => undefined) };
    const refused = driverAt(roleUrl);
    await assert.rejects(refused.open(), {
      code: "store",
      message:
        /schema kept: tables or functions of this version are missing.*needs CREATE on the schema, or on the database/,
    });
    await refused.close();
    await (await opened(url)).close();
    const name = new URL(roleUrl).username;
    await asAdmin(
      url,
      `GRANT USAGE ON SCHEMA kept TO ${name}`,
      `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA kept TO ${name}`,
    );
    const driver = await opened(roleUrl);
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    const lease = await driver.lease("a", { id: "h", host: "", boot: "", pid: 1, started: "" }, 1000);
    assert.ok("fence" in lease);
    await driver.write("a", change({ fence: lease.fence, add: [aMessage("a", 2)] }));
    await driver.delete(["a"]);
    await driver.close();
  });

  it("stores NUL, noncharacters and lone surrogates unchanged in all text columns", async (t) => {
    const url = await postgresDatabase(t);
    const driver = await opened(url);
    for (const [n, odd] of [
      "\ud800",
      "a\udfffb",
      "\0",
      "\ufdd0\ufdd1",
      "\ufdd0",
      "\ud83d\ud83d\ude00",
      "\ufdd1\0\udc00",
    ].entries()) {
      const id = `${odd}${n}`;
      const session = aSession(id, { alias: `alias ${odd}`, title: odd, projectDir: `/${odd}`, model: odd });
      await driver.create({ session, messages: [aMessage(id, 1, { id: odd, name: odd, toolCallId: odd })] });
      assert.deepEqual(await driver.get(`alias ${odd}`), { ...session, lastSeq: 1 });
      assert.deepEqual(await driver.messages(id, { tool: odd }), [
        aMessage(id, 1, { id: odd, name: odd, toolCallId: odd }),
      ]);
      assert.deepEqual(await listIds(driver, { projectDir: `/${odd}`, search: odd }), [id]);
    }
    await driver.close();
  });

  it("loses all 12,000 messages of a deleted chain, and the remains of an interrupted delete", async (t) => {
    const url = await postgresDatabase(t);
    const driver = await opened(url);
    const many = Array.from({ length: 12_000 }, (_, n) => aMessage("a", n + 1));
    for (const id of ["a", "b"]) await driver.create({ session: aSession(id), messages: many });
    await asAdmin(
      url,
      "INSERT INTO kept.remains VALUES (77)",
      "UPDATE kept.messages SET chain = 77 WHERE chain = 2 AND seq < 9000",
    );
    await driver.delete(["a"]);
    assert.deepEqual(await asAdmin(url, "SELECT DISTINCT chain::int FROM kept.messages ORDER BY chain"), [
      { chain: 2 },
    ]);
    assert.deepEqual(await asAdmin(url, "SELECT * FROM kept.remains"), []);
    await driver.close();
  });
});
