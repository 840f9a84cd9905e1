// A server whose store is on a disk of about one megabyte.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmdirSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { say } from "../../helpers/fake-model-server.js";
import { sseEvents } from "../../helpers/http.js";
import { ask, lab, labConfig, stored, stream } from "../../helpers/lab.js";
import { startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp.js";

/** A command prefix that mounts a small disk at `path`, visible to this process only. */
const onSmallDisk = (path: string): string[] => [
  "unshare",
  "--user",
  "--map-root-user",
  "--mount",
  "sh",
  "-c",
  `mount -t tmpfs -o size=2000k,mode=700 none "$0" && head -c 1200k /dev/zero > "$0/ballast" && exec "$@"`,
  path,
];

function smallDisksWork(): boolean {
  if (process.platform !== "linux") return false;
  const folder = mkdtempSync(join(tmpdir(), "gantry-"));
  try {
    const [file = "", ...args] = onSmallDisk(folder);
    execFileSync(file, [...args, "true"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  } finally {
    rmdirSync(folder);
  }
}

const STORE_FULL = "session store: no room left";
const skip = !smallDisksWork() && "needs user namespaces";

describe("a session store on a full disk", { concurrency: true }, () => {
  for (const driver of ["sqlite", "json"]) {
    it(
      `${driver}: reports store_full, keeps all answered runs, and works again once space is free`,
      { skip },
      async (t) => {
        const models = await lab(t, { fallback: say("Noted.") });
        const home = await tempDir(t);
        const disk = home.at("disk");
        await mkdir(disk);
        const server = await startServer(t, {
          config: labConfig(models, { session: { driver, path: join(disk, "sessions") }, log: { level: "debug" } }),
          home: home.path,
          through: onSmallDisk(disk),
          sendsToken: true,
        });
        const first = await ask(server, { message: "first" });
        assert.equal(first.status, 200, first.error);

        const storedSessions: string[] = [];
        let storeError = "";
        while (storeError === "") {
          const answer = await ask(server, { message: `${storedSessions.length}: ${"x".repeat(60_000)}` });
          if (answer.status === 200) storedSessions.push(answer.sessionId);
          else {
            assert.equal(answer.status, 500);
            storeError = answer.error;
          }
          assert.ok(storedSessions.length < 50, "the disk never fills");
        }
        assert.equal(storeError, STORE_FULL);
        assert.ok(storedSessions.length > 1);
        assert.match(server.stderr, /no space left; free some space/, "the log says which store");

        // Streams report it too: as a plain response before they start, otherwise as their last event.
        const big = { message: "y".repeat(100_000), stream: true };
        const begin = () => server.fetch("/api/run", { method: "POST", body: JSON.stringify(big) });
        let response = await begin();
        // The JSON driver may have compacted its log, which frees space for a few more runs.
        for (let extraRuns = 0; response.status === 200; extraRuns += 1) {
          assert.ok(extraRuns < 50, "the disk never fills");
          const last = sseEvents(await response.text()).at(-1);
          if (last?.event !== "done")
            assert.deepEqual(last, { event: "error", data: { error: STORE_FULL, code: "store_full" } });
          response = await begin();
        }
        assert.deepEqual([response.status, await response.json()], [500, { error: STORE_FULL, code: "store_full" }]);
        models.fallback = { say: [{ text: Array.from({ length: 400 }, () => "z".repeat(2_000)) }] };
        const streamOrError = await stream(server, { message: "small", session_id: first.sessionId }).catch(
          (error: Error) => error,
        );
        if (streamOrError instanceof Error) assert.match(streamOrError.message, new RegExp(STORE_FULL));
        else {
          await streamOrError.ended;
          assert.deepEqual(streamOrError.last, { event: "error", data: { error: STORE_FULL, code: "store_full" } });
        }

        models.fallback = say("Noted.");

        // All answered runs are stored, and the server is healthy.
        assert.equal((await server.fetch("/api/health")).status, 200);
        for (const [n, id] of storedSessions.entries()) {
          const messages = await stored(server, id);
          assert.deepEqual([messages.length, messages[1]?.content], [2, "Noted."]);
          assert.ok(messages[0]?.content.startsWith(`${n}: x`));
        }

        // The store needs no restart: it continues when space is free again.
        await rm(join(`/proc/${server.pid}/root`, disk, "ballast"));
        const deleted = await server.fetch(`/api/sessions/${storedSessions.at(-1)}`, { method: "DELETE" });
        assert.equal(deleted.status, 200, await deleted.text());
        const again = await ask(server, { message: `again: ${"x".repeat(60_000)}` });
        assert.deepEqual([again.status, again.output], [200, "Noted."], again.error);
        const resumed = await ask(server, { message: "still there?", session_id: first.sessionId });
        assert.deepEqual([resumed.status, resumed.output], [200, "Noted."], resumed.error);
        assert.equal((await stored(server, storedSessions[0] ?? ""))[1]?.content, "Noted.");
        assert.deepEqual(models.violations, []);
        assert.deepEqual(await server.stop(), { code: 0, signal: null });
      },
    );
  }
});
