// Searches for a database password in everything that leaves the server or stays on the disk.
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { call, say } from "../../helpers/fake-model-server.js";
import { lab, labConfig, until } from "../../helpers/lab.js";
import { findPostgres } from "../../helpers/postgres-binaries.js";
import { NO_POSTGRES, asAdmin, ownServer, postgresDatabase } from "../../helpers/postgres.js";
import { startServer } from "../../helpers/server.js";

const needsPrivateServer = { skip: NO_POSTGRES || (findPostgres() ? false : "no PostgreSQL server is installed here") };
/** With letters that no id contains by chance, and characters that a URL must escape. */
const PASSWORD = "canary@pg/7zq3k9:x";

it("the database password is in no response, log, row, file or command environment", needsPrivateServer, async (t) => {
  const database = await ownServer(t);
  const admin = await postgresDatabase(t, database);
  await asAdmin(admin, `CREATE ROLE canary SUPERUSER LOGIN PASSWORD '${PASSWORD}'`);
  const url = new URL(admin);
  url.username = "canary";
  url.password = encodeURIComponent(PASSWORD);
  const models = await lab(t, { fallback: say("Noted.") });
  const server = await startServer(t, {
    config: labConfig(models, {
      log: { level: "debug" },
      session: { driver: "postgres", url: "${DATABASE_URL}", pool: { connect_timeout: 1, statement_timeout: 2 } },
    }),
    env: { DATABASE_URL: url.href },
  });
  const responseTexts: string[] = [];
  const errors: string[] = [];
  const get = async (path: string, body?: object): Promise<Response> => {
    const response = await server.fetch(path, body && { method: "POST", body: JSON.stringify(body) });
    const answer = await response.clone().text();
    responseTexts.push(JSON.stringify([...response.headers]), answer);
    if (!response.ok) errors.push(answer);
    return response;
  };
  models.enqueue(
    call("bash", { command: "env; cat /proc/$PPID/environ /proc/$PPID/cmdline 2>&1 | tr '\\0' '\\n'" }),
    say("Done."),
  );
  const first = await get("/api/run", { message: "go" });
  assert.equal(first.status, 200);
  const id = first.headers.get("x-session-id") ?? "";
  await get(`/api/sessions/${id}/messages`);
  await database.kill();
  await until(async () => (await get("/api/ready")).status === 503);
  assert.equal((await get("/api/run", { message: "again", session_id: id })).status, 503);
  await database.start();
  await until(async () => (await get("/api/ready")).status === 200);
  assert.equal((await get("/api/run", { message: "again", session_id: id })).status, 200);
  // From now on the server rejects the old password.
  await asAdmin(admin, "ALTER ROLE canary PASSWORD 'another'");
  await database.stop();
  await database.start();
  await until(async () => (await get("/api/sessions")).status !== 200);
  await server.stop();
  const files: string[] = [];
  for (const entry of await readdir(server.home, { recursive: true, withFileTypes: true }))
    if (entry.isFile() && entry.name !== "config.json")
      files.push(await readFile(join(entry.parentPath, entry.name), "latin1"));
  const rows = await asAdmin(
    admin,
    "SELECT query_to_xml('SELECT * FROM gantry.messages', true, true, '')::text AS kept",
  );
  const places = {
    stdout: server.stdout,
    stderr: server.stderr,
    answers: responseTexts.join("\n"),
    files: files.join("\n"),
    storedRows: JSON.stringify(rows),
  };
  for (const [place, text] of Object.entries(places)) {
    const at = text.indexOf("7zq3k9");
    assert.equal(at, -1, `${place}: ${text.slice(Math.max(0, at - 300), at + 50)}`);
  }
  assert.match(places.storedRows, /PATH=/);
  // Readers of the log may know the address of the store.
  assert.ok(server.stderr.includes(`session store ${url.host}${url.pathname}: `), server.stderr.slice(-2000));
  assert.ok(errors.length > 2);
  assert.ok(!errors.join("\n").includes(url.host), errors.join("\n"));
});
