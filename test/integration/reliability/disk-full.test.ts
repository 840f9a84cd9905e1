// A server whose store is on a disk of about one megabyte.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmdirSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { textStep } from "../../helpers/fake-model-server.js";
import { parseSseEvents } from "../../helpers/raw-http.js";
import {
  runPrompt,
  startModelServer,
  createServerConfig,
  fetchMessages,
  startStreamedRun,
  waitUntil,
} from "../../helpers/server-runs.js";
import { startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** A command prefix that mounts a small disk at `path` for one process. The file `ballast` fills a part of the disk. */
const createSmallDiskPrefix = (path: string, kilobytes = 2_000, ballast = 1_200): string[] => [
  "unshare",
  "--user",
  "--map-root-user",
  "--mount",
  "sh",
  "-c",
  `mount -t tmpfs -o size=${kilobytes}k,mode=700 none "$0" && head -c ${ballast}k /dev/zero > "$0/ballast" && exec "$@"`,
  path,
];

function canMountSmallDisk(): boolean {
  if (process.platform !== "linux") return false;
  const folder = mkdtempSync(join(tmpdir(), "gantry-"));
  try {
    const [file = "", ...args] = createSmallDiskPrefix(folder);
    execFileSync(file, [...args, "true"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  } finally {
    rmdirSync(folder);
  }
}

const STORE_FULL_ERROR = "session store: no space left";
const skip = !canMountSmallDisk() && "needs user namespaces";

describe("a session store on a full disk", { concurrency: true }, () => {
  for (const driver of ["sqlite", "json"]) {
    it(
      `${driver}: reports store_full, keeps all answered runs, and works again once space is free`,
      { skip },
      async (t) => {
        const modelServer = await startModelServer(t, { fallback: textStep("Noted.") });
        const home = await tempDir(t);
        const diskPath = home.at("disk");
        await mkdir(diskPath);
        const server = await startServer(t, {
          config: createServerConfig(modelServer, {
            session: { driver, path: join(diskPath, "sessions") },
            log: { level: "debug" },
          }),
          home: home.path,
          commandPrefix: createSmallDiskPrefix(diskPath),
          sendsToken: true,
        });
        const firstRun = await runPrompt(server, { message: "first" });
        assert.equal(firstRun.status, 200, firstRun.error);

        const storedSessionIds: string[] = [];
        let storeError = "";
        while (storeError === "") {
          const fillingRun = await runPrompt(server, { message: `${storedSessionIds.length}: ${"x".repeat(60_000)}` });
          if (fillingRun.status === 200) storedSessionIds.push(fillingRun.sessionId);
          else {
            assert.equal(fillingRun.status, 503);
            storeError = fillingRun.error;
          }
          assert.ok(storedSessionIds.length < 50, "the disk fills within 50 runs");
        }
        assert.equal(storeError, STORE_FULL_ERROR);
        assert.ok(storedSessionIds.length > 1);
        assert.match(server.stderr, /no space left; free some space/, "the log reports the full disk");
        await waitUntil(async () => (await server.fetch("/api/ready")).status === 503);
        const readiness = (await (await server.fetch("/api/ready")).json()) as { reasons: { code: string }[] };
        assert.deepEqual(
          readiness.reasons.map(({ code }) => code),
          ["store_full"],
        );

        // A stream reports the full disk too: as a plain response before its start, otherwise as its last event.
        const largeBody = { message: "y".repeat(100_000), stream: true };
        const startRun = () => server.fetch("/api/run", { method: "POST", body: JSON.stringify(largeBody) });
        let streamResponse = await startRun();
        // The JSON driver may have compacted its log, which frees space for a few more runs.
        for (let extraRunCount = 0; streamResponse.status === 200; extraRunCount += 1) {
          assert.ok(extraRunCount < 50, "the disk fills within 50 runs");
          const lastEvent = parseSseEvents(await streamResponse.text()).at(-1);
          if (lastEvent?.event !== "done")
            assert.deepEqual(lastEvent, { event: "error", data: { error: STORE_FULL_ERROR, code: "store_full" } });
          streamResponse = await startRun();
        }
        assert.deepEqual(
          [streamResponse.status, await streamResponse.json()],
          [503, { error: STORE_FULL_ERROR, code: "store_full" }],
        );
        modelServer.fallback = { say: [{ text: Array.from({ length: 400 }, () => "z".repeat(2_000)) }] };
        const streamOrError = await startStreamedRun(server, {
          message: "small",
          session_id: firstRun.sessionId,
        }).catch((error: Error) => error);
        if (streamOrError instanceof Error) assert.match(streamOrError.message, new RegExp(STORE_FULL_ERROR));
        else {
          await streamOrError.ended;
          assert.deepEqual(streamOrError.latestEvent, {
            event: "error",
            data: { error: STORE_FULL_ERROR, code: "store_full" },
          });
        }

        modelServer.fallback = textStep("Noted.");

        // All answered runs are stored, and the server is healthy.
        assert.equal((await server.fetch("/api/health")).status, 200);
        for (const [n, id] of storedSessionIds.entries()) {
          const messages = await fetchMessages(server, id);
          assert.deepEqual([messages.length, messages[1]?.content], [2, "Noted."]);
          assert.ok(messages[0]?.content.startsWith(`${n}: x`));
        }

        // The store needs no restart after the test has freed space.
        await rm(join(`/proc/${server.pid}/root`, diskPath, "ballast"));
        const deleteResponse = await server.fetch(`/api/sessions/${storedSessionIds.at(-1)}`, { method: "DELETE" });
        assert.equal(deleteResponse.status, 200, await deleteResponse.text());
        const nextRun = await runPrompt(server, { message: `again: ${"x".repeat(60_000)}` });
        assert.deepEqual([nextRun.status, nextRun.output], [200, "Noted."], nextRun.error);
        await waitUntil(async () => (await server.fetch("/api/ready")).status === 200);
        const resumedRun = await runPrompt(server, { message: "still there?", session_id: firstRun.sessionId });
        assert.deepEqual([resumedRun.status, resumedRun.output], [200, "Noted."], resumedRun.error);
        assert.equal((await fetchMessages(server, storedSessionIds[0] ?? ""))[1]?.content, "Noted.");
        assert.deepEqual(modelServer.violations, []);
        assert.deepEqual(await server.stop(), { code: 0, signal: null });
      },
    );
  }

  for (const driver of ["sqlite", "json"]) {
    it(
      `${driver}: deletes sessions while the disk has no free byte, and then accepts runs again`,
      { skip },
      async (t) => {
        const modelServer = await startModelServer(t, { fallback: textStep("Noted.") });
        const home = await tempDir(t);
        const diskPath = home.at("disk");
        await mkdir(diskPath);
        const server = await startServer(t, {
          config: createServerConfig(modelServer, { session: { driver, path: join(diskPath, "sessions") } }),
          home: home.path,
          commandPrefix: createSmallDiskPrefix(diskPath, 60_000, 0),
          sendsToken: true,
        });
        const ids: string[] = [];
        for (let n = 0; n < 10; n += 1)
          ids.push((await runPrompt(server, { message: `${n}: ${"x".repeat(400_000)}` })).sessionId);
        const disk = join(`/proc/${server.pid}/root`, diskPath);
        const reserve = driver === "sqlite" ? "sessions-reserve" : "sessions.d/reserve";
        await waitUntil(() => existsSync(join(disk, reserve)));
        execFileSync("sh", ["-c", `cat /dev/zero > "$0" 2> /dev/null || true`, join(disk, "filler")]);
        // Space of the write-ahead log is used up first.
        let lastRun = await runPrompt(server, { message: "y".repeat(400_000) });
        for (let n = 0; n < 30 && lastRun.status === 200; n += 1)
          lastRun = await runPrompt(server, { message: "y".repeat(400_000) });
        assert.deepEqual([lastRun.status, lastRun.error], [503, STORE_FULL_ERROR]);
        execFileSync("sh", ["-c", `cat /dev/zero > "$0" 2> /dev/null || true`, join(disk, "more")]);
        for (const id of ids.slice(0, 8)) {
          const response = await server.fetch(`/api/sessions/${id}`, { method: "DELETE" });
          assert.equal(response.status, 200, await response.text());
          assert.equal((await server.fetch(`/api/sessions/${id}`)).status, 404);
        }
        for (const id of ids.slice(8)) assert.equal((await fetchMessages(server, id)).length, 2);
        const nextRun = await runPrompt(server, { message: "small" });
        assert.deepEqual([nextRun.status, nextRun.output], [200, "Noted."], nextRun.error);
      },
    );
  }
});
