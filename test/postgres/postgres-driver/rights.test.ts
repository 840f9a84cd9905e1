import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { it } from "node:test";
import { StoreError } from "gantry";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { aSession, someMessages } from "../../../src/testing/session-driver/records.js";
import { runAsAdmin, NO_POSTGRES, createPostgresDatabase, getPostgresUrl } from "../../helpers/postgres.js";

it("a role that owns the schema needs only CONNECT on the database", { skip: NO_POSTGRES }, async (t) => {
  const cleanups: (() => Promise<unknown>)[] = [];
  t.after(async () => {
    for (const cleanup of cleanups) await cleanup();
  });
  const url = await createPostgresDatabase({ after: (drop) => void cleanups.unshift(async () => drop()) });
  const database = new URL(url).pathname.slice(1);
  const role = `gantry_${randomBytes(8).toString("hex")}`;
  await runAsAdmin(
    url,
    `CREATE ROLE ${role} LOGIN PASSWORD 'secret'`,
    `REVOKE ALL ON DATABASE ${database} FROM PUBLIC`,
  );
  cleanups.push(() => getPostgresUrl().then((admin) => runAsAdmin(admin, `DROP ROLE ${role}`)));
  await runAsAdmin(url, `GRANT CONNECT ON DATABASE ${database} TO ${role}`);
  const roleUrl = new URL(url);
  [roleUrl.username, roleUrl.password] = [role, "secret"];
  const driver = new PostgresDriver({ url: roleUrl.href });
  cleanups.unshift(() => driver.close());
  await assert.rejects(
    driver.open(),
    (error: Error) => error instanceof StoreError && /CREATE on the schema/.test(error.message),
  );
  await runAsAdmin(url, `CREATE SCHEMA gantry AUTHORIZATION ${role}`);
  await driver.open();
  await driver.create({ session: aSession("a") });
  assert.equal((await driver.get("a"))?.id, "a");
});

it("a role that may not create tables searches without an index", { skip: NO_POSTGRES }, async (t) => {
  const cleanups: (() => Promise<unknown>)[] = [];
  t.after(async () => {
    for (const cleanup of cleanups) await cleanup();
  });
  const url = await createPostgresDatabase({ after: (drop) => void cleanups.unshift(async () => drop()) });
  const role = `gantry_${randomBytes(8).toString("hex")}`;
  await runAsAdmin(url, `CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
  cleanups.push(() => getPostgresUrl().then((admin) => runAsAdmin(admin, `DROP ROLE ${role}`)));
  const owner = new PostgresDriver({ url });
  cleanups.unshift(() => owner.close());
  await owner.open();
  await owner.create({ session: aSession("a"), messages: someMessages("a", 1, 3) });
  await runAsAdmin(
    url,
    `GRANT USAGE ON SCHEMA gantry TO ${role}`,
    `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA gantry TO ${role}`,
  );
  const roleUrl = new URL(url);
  [roleUrl.username, roleUrl.password] = [role, "secret"];
  const driver = new PostgresDriver({ url: roleUrl.href });
  cleanups.unshift(() => driver.close());
  await driver.open();
  const readPages = async (): Promise<number[]> => {
    const firstPage = await driver.searchMessages({ text: "text", limit: 2 });
    const secondPage = await driver.searchMessages({ text: "text", limit: 2, before: firstPage.next ?? "" });
    return [...firstPage.matches, ...secondPage.matches].map(({ seq }) => seq);
  };
  assert.deepEqual(await readPages(), [3, 2, 1], "without tables");
  assert.equal((await owner.searchMessages({ text: "text", limit: 9 })).matches.length, 3);
  assert.deepEqual(await readPages(), [3, 2, 1], "without privileges for the tables of another role");
});
