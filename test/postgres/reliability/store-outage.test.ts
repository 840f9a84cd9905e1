// A database server that becomes unreachable while gantry serves, and then returns.
import assert from "node:assert/strict";
import { it } from "node:test";
import { eventsOf } from "../../helpers/event-page.js";
import { say } from "../../helpers/fake-model-server.js";
import { CountedPage } from "../../helpers/http-watcher.js";
import { ask, lab, labConfig, until, type Answered } from "../../helpers/lab.js";
import { NO_POSTGRES, ownServer, postgresDatabase } from "../../helpers/postgres.js";
import { runGantry, startServer, type GantryServer } from "../../helpers/server.js";

/** Repeats a run while its status is one of these. */
async function askUntil(server: GantryServer, body: object, again: readonly number[]): Promise<Answered> {
  let answer: Answered | undefined;
  await until(async () => !again.includes((answer = await ask(server, body)).status));
  return answer!;
}

const STORE_UNAVAILABLE = { error: "session store unavailable", code: "store_unavailable" };

for (const [how, leave, back] of [
  ["is stopped", "stop", "start"],
  ["hangs", "pause", "go"],
] as const)
  it(
    `gantry serve returns 503 while PostgreSQL ${how}, and serves runs and watchers after its return`,
    { skip: NO_POSTGRES },
    async (t) => {
      const database = await ownServer(t);
      const url = await postgresDatabase(t, database);
      const models = await lab(t, { fallback: say("Noted.") });
      const server = await startServer(t, {
        config: labConfig(models, {
          // A statement that takes two seconds counts as a hanging server. On a busy machine, requests that fail for
          // this reason are repeated.
          session: { driver: "postgres", url: "${DATABASE_URL}", pool: { connect_timeout: 30, statement_timeout: 2 } },
        }),
        env: { DATABASE_URL: url },
      });
      const first = await askUntil(server, { message: "first" }, [503]);
      assert.equal(first.status, 200, first.error);
      const { sessionId } = first;
      await until(async () => (await server.fetch("/api/ready")).status === 200);
      const page = new CountedPage();
      const over = new AbortController();
      t.after(() => over.abort());
      const watching = (async () => {
        const path = `${server.url}/api/sessions/${sessionId}/events`;
        for await (const event of eventsOf(path, {}, over.signal)) page.apply(event);
        page.faults.push("the stream ended");
      })();
      watching.catch(() => undefined);
      await until(() => page.events > 0);
      await database[leave]();
      await until(async () => (await server.fetch("/api/ready")).status === 503);
      const ready = (await (await server.fetch("/api/ready")).json()) as { reasons: { code: string }[] };
      assert.deepEqual(
        ready.reasons.map(({ code }) => code),
        ["store_unreachable"],
      );
      assert.equal((await server.fetch("/api/health")).status, 200);
      const answers = await Promise.all(
        Array.from({ length: 60 }, async (_, n) => {
          const body = n % 2 ? { method: "POST", body: JSON.stringify({ message: "hi", session_id: sessionId }) } : {};
          const response = await server.fetch(n % 2 ? "/api/run" : `/api/sessions/${sessionId}/messages`, body);
          return [response.status, response.headers.get("retry-after"), await response.json()];
        }),
      );
      for (const answer of answers) assert.deepEqual(answer, [503, "1", STORE_UNAVAILABLE]);

      await database[back]();
      await until(async () => (await server.fetch("/api/ready")).status === 200);
      // 409: the run that held the session during the outage may first have to be recognized as dead.
      const last = await askUntil(server, { message: "again", session_id: sessionId }, [409, 503]);
      assert.equal(last.status, 200, last.error);
      const { messages } = (await (await server.fetch(`/api/sessions/${sessionId}/messages`)).json()) as {
        messages: [];
      };
      await until(() => page.messages.length === messages.length && page.state.run?.state === "finished");
      assert.deepEqual(page.messages, messages);
      assert.deepEqual(page.faults, []);
      const lines = server.stderr.split("\n");
      t.diagnostic(`${lines.length} lines logged`);
      assert.ok(lines.length < 40, server.stderr.slice(0, 5_000));
      assert.deepEqual(await server.stop(), { code: 0, signal: null });
    },
  );

it(
  "gantry serve starts without PostgreSQL, returns 503, and serves runs once it is available",
  { skip: NO_POSTGRES },
  async (t) => {
    const database = await ownServer(t);
    const url = await postgresDatabase(t, database);
    const models = await lab(t, { fallback: say("Noted.") });
    await database.stop();
    const server = await startServer(t, {
      config: labConfig(models, { session: { driver: "postgres", url: "${DATABASE_URL}" } }),
      env: { DATABASE_URL: url },
    });
    const ready = async (): Promise<number> => (await server.fetch("/api/ready")).status;
    assert.equal(await ready(), 503);
    const body = JSON.stringify({ message: "hi" });
    const answer = await server.fetch("/api/run", { method: "POST", body });
    assert.deepEqual([answer.status, await answer.json()], [503, STORE_UNAVAILABLE]);
    assert.equal((await server.fetch("/api/sessions")).status, 503);
    const { host, pathname, password } = new URL(url);
    assert.match(server.stderr, /serving without it until it can be opened.*ECONNREFUSED/);
    assert.ok(server.stderr.includes(`session store ${host}${pathname}: `), server.stderr);
    assert.ok(!server.stderr.includes(password));
    await database.start();
    await until(async () => (await ready()) === 200);
    const { status, error } = await ask(server, { message: "hi" });
    assert.equal(status, 200, error);
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
  },
);

it(
  "gantry serve exits with 1 if PostgreSQL rejects the password, and prints the address but not the password",
  { skip: NO_POSTGRES },
  async (t) => {
    const url = new URL(await postgresDatabase(t));
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
