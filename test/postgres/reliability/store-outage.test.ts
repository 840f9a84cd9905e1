// A database server that becomes unreachable while gantry serves, and then returns.
import assert from "node:assert/strict";
import { it } from "node:test";
import { readSessionEvents } from "../../helpers/event-page.js";
import { textStep } from "../../helpers/fake-model-server.js";
import { CheckedPage } from "../../helpers/http-watcher.js";
import {
  runPrompt,
  startModelServer,
  createServerConfig,
  waitUntil,
  type RunResponse,
} from "../../helpers/server-runs.js";
import { NO_POSTGRES, startPrivateServer, createPostgresDatabase } from "../../helpers/postgres.js";
import { runGantry, startServer, type GantryServer } from "../../helpers/server.js";

/** Runs a prompt, again after each response with a status in `retryStatuses`. */
async function runWithRetries(
  server: GantryServer,
  body: object,
  retryStatuses: readonly number[],
): Promise<RunResponse> {
  let answer: RunResponse | undefined;
  await waitUntil(async () => !retryStatuses.includes((answer = await runPrompt(server, body)).status));
  return answer!;
}

const STORE_UNAVAILABLE = { error: "session store unavailable", code: "store_unavailable" };

for (const [condition, stopMethod, startMethod] of [
  ["is stopped", "stop", "start"],
  ["hangs", "pause", "resume"],
] as const)
  it(
    `gantry serve returns 503 while PostgreSQL ${condition}, and serves runs and watchers after PostgreSQL is available again`,
    { skip: NO_POSTGRES },
    async (t) => {
      const database = await startPrivateServer(t);
      const url = await createPostgresDatabase(t, database);
      const models = await startModelServer(t, { fallback: textStep("Noted.") });
      const server = await startServer(t, {
        config: createServerConfig(models, {
          // A statement that takes two seconds counts as an outage. This also happens on a busy machine, so
          // `runWithRetries` repeats the run.
          session: { driver: "postgres", url: "${DATABASE_URL}", pool: { connect_timeout: 30, statement_timeout: 2 } },
        }),
        env: { DATABASE_URL: url },
      });
      const firstAnswer = await runWithRetries(server, { message: "first" }, [503]);
      assert.equal(firstAnswer.status, 200, firstAnswer.error);
      const { sessionId } = firstAnswer;
      await waitUntil(async () => (await server.fetch("/api/ready")).status === 200);
      const page = new CheckedPage();
      const abortController = new AbortController();
      t.after(() => abortController.abort());
      const watchLoop = (async () => {
        const path = `${server.url}/api/sessions/${sessionId}/events`;
        for await (const event of readSessionEvents(path, {}, abortController.signal)) page.apply(event);
        page.faults.push("the stream ended");
      })();
      watchLoop.catch(() => undefined);
      await waitUntil(() => page.events > 0);
      await database[stopMethod]();
      await waitUntil(async () => (await server.fetch("/api/ready")).status === 503);
      const readiness = (await (await server.fetch("/api/ready")).json()) as { reasons: { code: string }[] };
      assert.deepEqual(
        readiness.reasons.map(({ code }) => code),
        ["store_unreachable"],
      );
      assert.equal((await server.fetch("/api/health")).status, 200);
      const responses = await Promise.all(
        Array.from({ length: 60 }, async (_, n) => {
          const body = n % 2 ? { method: "POST", body: JSON.stringify({ message: "hi", session_id: sessionId }) } : {};
          const response = await server.fetch(n % 2 ? "/api/run" : `/api/sessions/${sessionId}/messages`, body);
          return [response.status, response.headers.get("retry-after"), await response.json()];
        }),
      );
      for (const answer of responses) assert.deepEqual(answer, [503, "1", STORE_UNAVAILABLE]);

      await database[startMethod]();
      await waitUntil(async () => (await server.fetch("/api/ready")).status === 200);
      // 409: the server may not have detected yet that the run of the session ended in the outage.
      const lastAnswer = await runWithRetries(server, { message: "again", session_id: sessionId }, [409, 503]);
      assert.equal(lastAnswer.status, 200, lastAnswer.error);
      const { messages } = (await (await server.fetch(`/api/sessions/${sessionId}/messages`)).json()) as {
        messages: [];
      };
      await waitUntil(() => page.messages.length === messages.length && page.state.run?.state === "finished");
      assert.deepEqual(page.messages, messages);
      assert.deepEqual(page.faults, []);
      const lines = server.stderr.split("\n");
      t.diagnostic(`${lines.length} lines logged`);
      assert.ok(lines.length < 40, server.stderr.slice(0, 5_000));
      assert.deepEqual(await server.stop(), { code: 0, signal: null });
    },
  );

it(
  "gantry serve starts without PostgreSQL, returns 503, and serves runs once PostgreSQL is available",
  { skip: NO_POSTGRES },
  async (t) => {
    const database = await startPrivateServer(t);
    const url = await createPostgresDatabase(t, database);
    const models = await startModelServer(t, { fallback: textStep("Noted.") });
    await database.stop();
    const server = await startServer(t, {
      config: createServerConfig(models, { session: { driver: "postgres", url: "${DATABASE_URL}" } }),
      env: { DATABASE_URL: url },
    });
    const readStatus = async (): Promise<number> => (await server.fetch("/api/ready")).status;
    assert.equal(await readStatus(), 503);
    const body = JSON.stringify({ message: "hi" });
    const answer = await server.fetch("/api/run", { method: "POST", body });
    assert.deepEqual([answer.status, await answer.json()], [503, STORE_UNAVAILABLE]);
    assert.equal((await server.fetch("/api/sessions")).status, 503);
    const { host, pathname, password } = new URL(url);
    assert.match(server.stderr, /serving without it until it can be opened.*ECONNREFUSED/);
    assert.ok(server.stderr.includes(`session store ${host}${pathname}: `), server.stderr);
    assert.ok(!server.stderr.includes(password));
    await database.start();
    await waitUntil(async () => (await readStatus()) === 200);
    const { status, error } = await runPrompt(server, { message: "hi" });
    assert.equal(status, 200, error);
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
  },
);

it(
  "gantry serve exits with 1 if PostgreSQL rejects the password, and prints the address but not the password",
  { skip: NO_POSTGRES },
  async (t) => {
    const url = new URL(await createPostgresDatabase(t));
    url.password = "wrong-battery-staple";
    const { code, stderr } = await runGantry(t, ["serve", "--port", "0"], {
      config: { session: { driver: "postgres", url: "${DATABASE_URL}" } },
      env: { DATABASE_URL: url.href },
    });
    t.diagnostic(stderr.trim());
    assert.equal(code, 1);
    assert.ok(stderr.includes(`gantry: session store ${url.host}${url.pathname}: `), stderr);
    assert.doesNotMatch(stderr, /battery/);
  },
);
