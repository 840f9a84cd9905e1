// Several servers on one store. SERVERS and PROMPTS (per server) extend the test.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { textStep } from "../../helpers/fake-model-server.js";
import {
  runPrompt,
  startModelServer,
  createServerConfig,
  fetchMessages,
  pause,
  startStreamedRun,
  waitUntil,
} from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { SERVER_STORES, createSessionConfig } from "../../helpers/server-stores.js";
import { tempDir } from "../../helpers/temp-dir.js";

const PROMPT_COUNT = Number(process.env["PROMPTS"] ?? 10);
/** At least 4. */
const SERVER_COUNT = Number(process.env["SERVERS"] ?? 4);
/** SQLite by default, because the driver checks prove that all drivers behave alike. `STORES` adds other drivers. */
const STORES = process.env["STORES"] ? SERVER_STORES : ["sqlite"];
/** Store errors that report a conflict with another process. No server may log such an error. */
const LOCK_ERRORS = /database is locked|SQLITE_BUSY|SQLITE_LOCKED|EEXIST|ENOENT|has held/;

/**
 * Repeats a prompt while its session is busy, without a limit: prompts of many other servers can come first for minutes.
 * Returns the session id.
 */
async function sendPromptUntilAccepted(server: GantryServer, body: object): Promise<string> {
  for (;;) {
    const { status, error, sessionId } = await runPrompt(server, body);
    if (status === 200) return sessionId;
    assert.deepEqual([status, error], [409, "session is busy"]);
    // Time: clients poll a busy session. The load of all polls is the same for any number of servers.
    await pause(5 * SERVER_COUNT * Math.random());
  }
}

describe(`${SERVER_COUNT} servers on one store`, { concurrency: true }, () => {
  for (const driver of STORES) {
    it(`${driver}: lose no prompt, run a session in one server at a time, replace a killed server, end runs of deleted sessions`, async (t) => {
      const modelServer = await startModelServer(t, { fallback: textStep("Yes.") });
      const home = await tempDir(t);
      const project = await tempDir(t);
      const options = {
        config: createServerConfig(modelServer, { session: await createSessionConfig(driver) }),
        home: home.path,
        projectDir: project.path,
      };
      const servers = await Promise.all(Array.from({ length: SERVER_COUNT }, () => startServer(t, options)));
      const [serverA, serverB, serverC, serverD] = servers as [GantryServer, GantryServer, GantryServer, GantryServer];

      const startMs = performance.now();
      // Each server prompts in its own session, in new sessions, and in a session that all servers share.
      const sharedId = await sendPromptUntilAccepted(serverA, { message: "shared" });
      const ownSessions = await Promise.all(
        servers.map(async (server, serverIndex) => {
          const id = await sendPromptUntilAccepted(server, { message: `own ${serverIndex}` });
          const newSessions: string[] = [];
          for (let n = 1; n < PROMPT_COUNT; n++) {
            if (n % 3 === 0)
              await sendPromptUntilAccepted(server, { message: `shared ${serverIndex}.${n}`, session_id: sharedId });
            else if (n % 3 === 1)
              await sendPromptUntilAccepted(server, { message: `own ${serverIndex}.${n}`, session_id: id });
            else newSessions.push(await sendPromptUntilAccepted(server, { message: `new ${serverIndex}.${n}` }));
          }
          return { id, newSessions };
        }),
      );
      t.diagnostic(
        `1 + ${SERVER_COUNT * PROMPT_COUNT} prompts in ${((performance.now() - startMs) / 1000).toFixed(0)} s`,
      );
      const countPrompts = (remainder: number) =>
        Array.from({ length: PROMPT_COUNT - 1 }, (_, n) => n + 1).filter((n) => n % 3 === remainder).length;
      // Each prompt has its answer after it.
      const readPrompts = async (id: string) => {
        const messages = await fetchMessages(serverD, id);
        const [prompts, answers] = [0, 1].map((remainder) => messages.filter((_, n) => n % 2 === remainder));
        assert.deepEqual(
          answers?.map(({ content }) => content),
          prompts?.map(() => "Yes."),
          id,
        );
        return prompts?.map(({ content }) => content) ?? [];
      };
      const sharedPrompts = await readPrompts(sharedId);
      assert.equal(sharedPrompts.length, 1 + SERVER_COUNT * countPrompts(0), "the shared session has all its prompts");
      assert.equal(new Set(sharedPrompts).size, sharedPrompts.length, "each prompt is stored once");
      for (const [sessionIndex, { id, newSessions }] of ownSessions.entries()) {
        const expectedPrompts = [
          `own ${sessionIndex}`,
          ...Array.from({ length: PROMPT_COUNT }, (_, n) => n)
            .filter((n) => n % 3 === 1)
            .map((n) => `own ${sessionIndex}.${n}`),
        ];
        assert.deepEqual(await readPrompts(id), expectedPrompts, "the server's own session has its prompts in order");
        for (const newSession of newSessions)
          assert.match((await readPrompts(newSession)).join(), new RegExp(`^new ${sessionIndex}\\.\\d+$`));
      }
      for (const server of servers) {
        const { total } = (await (await server.fetch("/api/sessions?size=1")).json()) as { total: number };
        assert.equal(
          total,
          1 + SERVER_COUNT + ownSessions.flatMap(({ newSessions }) => newSessions).length,
          "every server lists every session",
        );
      }

      // A session that is busy in one process is busy in all processes. A killed process is replaced at once.
      modelServer.enqueue({ say: [{ text: "Wait" }, { stall: true }] });
      const stalledStream = await startStreamedRun(serverA, { message: "hold" });
      await stalledStream.waitForCharacters(1);
      const busyResponse = await serverB.fetch("/api/run", {
        method: "POST",
        body: JSON.stringify({ message: "me too", session_id: stalledStream.sessionId }),
      });
      assert.deepEqual(
        [busyResponse.status, await busyResponse.json()],
        [409, { error: "session is busy", code: "session_busy" }],
      );
      assert.match(busyResponse.headers.get("retry-after") ?? "", /^\d+$/);
      await serverA.stop("SIGKILL");
      const nextAnswer = await runPrompt(serverB, { message: "now me", session_id: stalledStream.sessionId });
      assert.deepEqual([nextAnswer.status, nextAnswer.output], [200, "Yes."], nextAnswer.error);

      // A session is deleted in one process and its run ends in another, at the next text.
      modelServer.enqueue({
        say: [{ text: "First words. " }, { gate: "deleted" }, { text: "More." }, { stall: true }],
      });
      const deletedStream = await startStreamedRun(serverC, { message: "speak" });
      await deletedStream.waitForCharacters(1);
      assert.equal((await serverD.fetch(`/api/sessions/${deletedStream.sessionId}`, { method: "DELETE" })).status, 200);
      modelServer.openGate("deleted");
      await deletedStream.ended;
      assert.deepEqual(deletedStream.latestEvent, {
        event: "error",
        data: { error: "session deleted", code: "session_deleted" },
      });
      await waitUntil(async () => (await serverC.fetch(`/api/sessions/${deletedStream.sessionId}`)).status === 404);

      for (const exit of await Promise.all(servers.slice(1).map((server) => server.stop())))
        assert.deepEqual(exit, { code: 0, signal: null });
      for (const server of servers) {
        assert.doesNotMatch(server.stderr, LOCK_ERRORS);
        assert.doesNotMatch(server.stderr, / error /);
      }
      assert.deepEqual(modelServer.violations, []);
    });
  }
});
