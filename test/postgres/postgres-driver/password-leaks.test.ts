// Searches for the database password in all outputs, stored rows and files of a server.
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { callStep, textStep } from "../../helpers/fake-model-server.js";
import { startModelServer, createServerConfig, waitUntil } from "../../helpers/server-runs.js";
import { findPostgres } from "../../helpers/postgres-binaries.js";
import { NO_POSTGRES, runAsAdmin, startPrivateServer, createPostgresDatabase } from "../../helpers/postgres.js";
import { startServer } from "../../helpers/server.js";

const needsPrivateServer = { skip: NO_POSTGRES || (findPostgres() ? false : "no PostgreSQL server is installed here") };
/** Contains letters that no id contains by chance, and characters that a URL must escape. */
const PASSWORD = "canary@pg/7zq3k9:x";

it("the database password is in no response, log, row, file or command environment", needsPrivateServer, async (t) => {
  const database = await startPrivateServer(t);
  const adminUrl = await createPostgresDatabase(t, database);
  await runAsAdmin(adminUrl, `CREATE ROLE canary SUPERUSER LOGIN PASSWORD '${PASSWORD}'`);
  const url = new URL(adminUrl);
  url.username = "canary";
  url.password = encodeURIComponent(PASSWORD);
  const models = await startModelServer(t, { fallback: textStep("Noted.") });
  const server = await startServer(t, {
    config: createServerConfig(models, {
      log: { level: "debug" },
      session: { driver: "postgres", url: "${DATABASE_URL}", pool: { connect_timeout: 1, statement_timeout: 2 } },
    }),
    env: { DATABASE_URL: url.href },
  });
  const responseTexts: string[] = [];
  const errors: string[] = [];
  const sendRequest = async (path: string, body?: object): Promise<Response> => {
    const response = await server.fetch(path, body && { method: "POST", body: JSON.stringify(body) });
    const responseText = await response.clone().text();
    responseTexts.push(JSON.stringify([...response.headers]), responseText);
    if (!response.ok) errors.push(responseText);
    return response;
  };
  models.enqueue(
    callStep("bash", { command: "env; cat /proc/$PPID/environ /proc/$PPID/cmdline 2>&1 | tr '\\0' '\\n'" }),
    textStep("Done."),
  );
  const firstResponse = await sendRequest("/api/run", { message: "go" });
  assert.equal(firstResponse.status, 200);
  const sessionId = firstResponse.headers.get("x-session-id") ?? "";
  await sendRequest(`/api/sessions/${sessionId}/messages`);
  await database.kill();
  await waitUntil(async () => (await sendRequest("/api/ready")).status === 503);
  assert.equal((await sendRequest("/api/run", { message: "again", session_id: sessionId })).status, 503);
  await database.start();
  await waitUntil(async () => (await sendRequest("/api/ready")).status === 200);
  assert.equal((await sendRequest("/api/run", { message: "again", session_id: sessionId })).status, 200);
  // From now on the server rejects the old password.
  await runAsAdmin(adminUrl, "ALTER ROLE canary PASSWORD 'another'");
  await database.stop();
  await database.start();
  await waitUntil(async () => (await sendRequest("/api/sessions")).status !== 200);
  await server.stop();
  const files: string[] = [];
  for (const entry of await readdir(server.home, { recursive: true, withFileTypes: true }))
    if (entry.isFile() && entry.name !== "config.json")
      files.push(await readFile(join(entry.parentPath, entry.name), "latin1"));
  const rows = await runAsAdmin(
    adminUrl,
    "SELECT query_to_xml('SELECT * FROM gantry.messages', true, true, '')::text AS kept",
  );
  const outputs = {
    stdout: server.stdout,
    stderr: server.stderr,
    answers: responseTexts.join("\n"),
    files: files.join("\n"),
    storedRows: JSON.stringify(rows),
  };
  for (const [outputName, text] of Object.entries(outputs)) {
    const offset = text.indexOf("7zq3k9");
    assert.equal(offset, -1, `${outputName}: ${text.slice(Math.max(0, offset - 300), offset + 50)}`);
  }
  assert.match(outputs.storedRows, /PATH=/);
  // Readers of the log may know the address of the store.
  assert.ok(server.stderr.includes(`session store ${url.host}${url.pathname}: `), server.stderr.slice(-2000));
  assert.ok(errors.length > 2);
  assert.ok(!errors.join("\n").includes(url.host), errors.join("\n"));
});
