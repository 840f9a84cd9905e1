// `gantry doctor` on stores in PostgreSQL.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { it, type TestContext } from "node:test";
import type { Finding } from "../../../src/cli/doctor/finding.js";
import {
  createPostgresDatabase,
  createPostgresSchema,
  getPostgresUrl,
  NO_POSTGRES,
  runAsAdmin,
} from "../../helpers/postgres.js";
import { runGantry, startServer } from "../../helpers/server.js";
import { createServerConfig, startModelServer, startStreamedRun } from "../../helpers/server-runs.js";

/** The findings about the store, as texts. */
async function listStoreFindings(t: TestContext, session: object): Promise<string[]> {
  const config = { session: { driver: "postgres", ...session } };
  const { stdout, stderr } = await runGantry(t, ["doctor", "--json"], { config });
  assert.notEqual(stdout, "", stderr);
  const { findings } = JSON.parse(stdout) as { findings: Finding[] };
  const lines = findings
    .filter(({ id }) => id.startsWith("store."))
    .map(({ id, status, title, detail }) => `${id} ${status} ${title} ${detail}`);
  assert.doesNotMatch(stdout + stderr, /canary-password/);
  return lines;
}

it("doctor reports tables, records of a killed server, and a newer version", { skip: NO_POSTGRES }, async (t) => {
  const session = await createPostgresSchema(t);
  const emptyFindings = await listStoreFindings(t, session);
  assert.match(
    emptyFindings.join(),
    /^store\.health ok .* has no tables yet; the first start creates them answers in [\d.]+ ms$/,
  );

  const models = await startModelServer(t, { fallback: { say: [{ text: "Hm" }, { stall: true }] } });
  const config = createServerConfig(models, { session: { driver: "postgres", ...session } });
  const server = await startServer(t, { config });
  const stream = await startStreamedRun(server, { message: "talk" });
  await stream.waitForCharacters(1);
  const activeFindings = await listStoreFindings(t, session);
  assert.match(activeFindings.join(), /^store\.health ok .*: 1 sessions, [\d.]+ MiB answers in [\d.]+ ms$/);

  await server.stop("SIGKILL");
  await runAsAdmin(session.url, `UPDATE "${session.schema}".chains SET expires = 0`);
  const leftFindings = (await listStoreFindings(t, session)).map((line) => line.slice(0, line.indexOf(" ", 15)));
  assert.deepEqual(leftFindings, ["store.health ok", "store.leases warning", "store.runs warning"]);

  await runAsAdmin(session.url, `UPDATE "${session.schema}".version SET version = 9999`);
  const [newer] = await listStoreFindings(t, session);
  assert.match(newer ?? "", /^store\.version error .*written by a newer gantry \(version 9999/);
});

it("doctor names why a database cannot be used, without its password", { skip: NO_POSTGRES }, async (t) => {
  const url = await createPostgresDatabase(t);
  const unreachable = "postgres://user:canary-password@127.0.0.1:9/gantry";
  const [refused] = await listStoreFindings(t, { url: unreachable });
  assert.match(refused ?? "", /^store\.unreachable error .*127\.0\.0\.1:9\/gantry: connection refused/);
  const role = `gantry_${randomBytes(8).toString("hex")}`;
  await runAsAdmin(url, `CREATE ROLE ${role} LOGIN PASSWORD 'canary-password'`);
  t.after(async () => runAsAdmin(await getPostgresUrl(), `DROP ROLE ${role}`).then(() => undefined));
  const roleUrl = new URL(url);
  [roleUrl.username, roleUrl.password] = [role, "canary-password"];
  const [forbidden] = await listStoreFindings(t, { url: roleUrl.href });
  assert.match(forbidden ?? "", /^store\.writable error the role of session\.url may not create the tables/);
});
