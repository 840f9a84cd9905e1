import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { it } from "node:test";
import { StoreError } from "gantry";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { aSession } from "../../../src/testing/session-driver/records.js";
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
