import assert from "node:assert/strict";
import { it } from "node:test";
import { Child } from "../../helpers/child.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { findPostgres } from "../../helpers/postgres-binaries.js";
import { NO_POSTGRES, runAsAdmin, startPrivateServer, createPostgresDatabase } from "../../helpers/postgres.js";

const needsPrivateServer = { skip: NO_POSTGRES || (findPostgres() ? false : "no PostgreSQL server is installed here") };

it("a private test server ends when the process that started it is killed", needsPrivateServer, async () => {
  delete process.env.GANTRY_TEST_POSTGRES;
  const child = new Child("postgres-url-process.ts", []);
  const url = String(await child.waitForMessage());
  assert.deepEqual(await runAsAdmin(url, "SELECT 1 AS one"), [{ one: 1 }]);
  await child.kill();
  // Any error shows that the server has ended.
  await waitUntil(() =>
    runAsAdmin(url, "SELECT 1").then(
      () => false,
      () => true,
    ),
  );
});

it(
  "a server of startPrivateServer() keeps the URL and data over stop, kill, start and pause",
  needsPrivateServer,
  async (t) => {
    const server = await startPrivateServer(t, { max_connections: "20", fsync: "on" });
    assert.deepEqual(await runAsAdmin(server.url, "SHOW max_connections"), [{ max_connections: "20" }]);
    const url = await createPostgresDatabase(t, server);
    await runAsAdmin(url, "CREATE TABLE kept (id int)");
    await server.stop();
    await assert.rejects(runAsAdmin(url, "SELECT 1"));
    await server.start();
    await server.kill();
    await assert.rejects(runAsAdmin(url, "SELECT 1"));
    await server.start();
    await server.pause();
    const pendingQuery = runAsAdmin(url, "SELECT count(*)::int AS n FROM kept");
    await server.resume();
    assert.deepEqual(await pendingQuery, [{ n: 0 }]);
  },
);
