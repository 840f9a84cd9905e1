// Several servers on one store. PROMPTS (per server) extends the test.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { say } from "../../helpers/fake-model-server.js";
import { ask, lab, labConfig, stored, stream, until } from "../../helpers/lab.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { SERVER_STORES, sessionOn } from "../../helpers/server-stores.js";
import { tempDir } from "../../helpers/temp.js";

const PROMPTS = Number(process.env["PROMPTS"] ?? 10);
const SERVERS = 4;
/** SQLite by default, because the driver checks prove that the drivers behave alike. `STORES` adds the others. */
const STORES = process.env["STORES"] ? SERVER_STORES : ["sqlite"];
/** Store errors that report a conflict with another process. No client may see them. */
const LOCKED = /database is locked|SQLITE_BUSY|SQLITE_LOCKED|EEXIST|ENOENT|has held/;

/** Repeats a prompt while its session is busy. */
async function promptUntilAccepted(server: GantryServer, body: object): Promise<string> {
  let id = "";
  await until(async () => {
    const { status, error, sessionId } = await ask(server, body);
    if (status !== 200) assert.deepEqual([status, error], [409, "session is busy"]);
    else id = sessionId;
    return id;
  });
  return id;
}

describe("four servers on one store", { concurrency: true }, () => {
  for (const driver of STORES) {
    it(`${driver}: lose no prompt, run a session in one server at a time, replace a killed one, end deleted runs`, async (t) => {
      const models = await lab(t, { fallback: say("Yes.") });
      const home = await tempDir(t);
      const project = await tempDir(t);
      const options = {
        config: labConfig(models, { session: await sessionOn(driver) }),
        home: home.path,
        projectDir: project.path,
      };
      const servers = await Promise.all(Array.from({ length: SERVERS }, () => startServer(t, options)));
      const [a, b, c, d] = servers as [GantryServer, GantryServer, GantryServer, GantryServer];

      // Each server prompts in its own session, in new sessions, and in a session that all share.
      const shared = await promptUntilAccepted(a, { message: "shared" });
      const ownSessions = await Promise.all(
        servers.map(async (server, s) => {
          const id = await promptUntilAccepted(server, { message: `own ${s}` });
          const newSessions: string[] = [];
          for (let n = 1; n < PROMPTS; n++) {
            if (n % 3 === 0) await promptUntilAccepted(server, { message: `shared ${s}.${n}`, session_id: shared });
            else if (n % 3 === 1) await promptUntilAccepted(server, { message: `own ${s}.${n}`, session_id: id });
            else newSessions.push(await promptUntilAccepted(server, { message: `new ${s}.${n}` }));
          }
          return { id, others: newSessions };
        }),
      );
      const count = (remainder: number) =>
        Array.from({ length: PROMPTS - 1 }, (_, n) => n + 1).filter((n) => n % 3 === remainder).length;
      const prompts = async (id: string) =>
        (await stored(d, id)).filter(({ role }) => role === "user").map(({ content }) => content);
      const all = await prompts(shared);
      assert.equal(all.length, 1 + SERVERS * count(0), "in the shared session");
      assert.equal(new Set(all).size, all.length, "each once");
      assert.equal((await stored(d, shared)).length, all.length * 2, "each answered");
      for (const [s, { id }] of ownSessions.entries()) {
        const expected = [
          `own ${s}`,
          ...Array.from({ length: PROMPTS }, (_, n) => n)
            .filter((n) => n % 3 === 1)
            .map((n) => `own ${s}.${n}`),
        ];
        assert.deepEqual(await prompts(id), expected, "in its own session, in order");
      }
      for (const server of servers) {
        const { total } = (await (await server.fetch("/api/sessions?size=1")).json()) as { total: number };
        assert.equal(
          total,
          1 + SERVERS + ownSessions.flatMap(({ others: newSessions }) => newSessions).length,
          "every process sees every session",
        );
      }

      // A session that is busy in one process is busy in all. A killed process is replaced at once.
      models.enqueue({ say: [{ text: "Wait" }, { stall: true }] });
      const heldStream = await stream(a, { message: "hold" });
      await heldStream.text(1);
      const busy = await b.fetch("/api/run", {
        method: "POST",
        body: JSON.stringify({ message: "me too", session_id: heldStream.sessionId }),
      });
      assert.deepEqual([busy.status, await busy.json()], [409, { error: "session is busy", code: "session_busy" }]);
      assert.match(busy.headers.get("retry-after") ?? "", /^\d+$/);
      await a.stop("SIGKILL");
      const next = await ask(b, { message: "now me", session_id: heldStream.sessionId });
      assert.deepEqual([next.status, next.output], [200, "Yes."], next.error);

      // A session is deleted in one process and its run ends in another, at the next text.
      models.enqueue({ say: [{ text: "First words. " }, { gate: "deleted" }, { text: "More." }, { stall: true }] });
      const deletedStream = await stream(c, { message: "speak" });
      await deletedStream.text(1);
      assert.equal((await d.fetch(`/api/sessions/${deletedStream.sessionId}`, { method: "DELETE" })).status, 200);
      models.open("deleted");
      await deletedStream.ended;
      assert.deepEqual(deletedStream.last, {
        event: "error",
        data: { error: "session deleted", code: "session_deleted" },
      });
      await until(async () => (await c.fetch(`/api/sessions/${deletedStream.sessionId}`)).status === 404);

      for (const server of [b, c, d]) {
        assert.deepEqual(await server.stop(), { code: 0, signal: null });
      }
      for (const server of servers) {
        assert.doesNotMatch(server.stderr, LOCKED);
        assert.doesNotMatch(server.stderr, / error /);
      }
      assert.deepEqual(models.violations, []);
    });
  }
});
