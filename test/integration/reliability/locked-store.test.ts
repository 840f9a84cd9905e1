// Another process holds the write lock of a server's SQLite store.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  createServerConfig,
  runPrompt,
  startModelServer,
  startStreamedRun,
  waitUntil,
} from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

const SQLITE_MODULE = createRequire(import.meta.url).resolve("better-sqlite3");
/** Takes the lock, prints a line, and releases the lock when stdin ends. */
const LOCK_SCRIPT = `
  const db = new (require(${JSON.stringify(SQLITE_MODULE)}))(process.argv[1]);
  db.exec("BEGIN IMMEDIATE");
  console.log("locked");
  process.stdin.resume().on("end", () => { db.exec("COMMIT"); db.close(); });
`;

/** Locks a store from another process. */
async function lockStore(hooks: Hooks, path: string) {
  const child = spawn(process.execPath, ["-e", LOCK_SCRIPT, path], { stdio: ["pipe", "pipe", "inherit"] });
  hooks.after(() => void child.kill("SIGKILL"));
  await once(child.stdout, "data");
  const release = async (): Promise<void> => {
    child.kill("SIGCONT");
    child.stdin.end();
    await once(child, "exit");
  };
  return { pid: child.pid, stop: () => child.kill("SIGSTOP"), release };
}

async function readReadiness(server: GantryServer) {
  const response = await server.fetch("/api/ready");
  const { reasons = [] } = (await response.json()) as { reasons?: { code: string; message: string }[] };
  return { status: response.status, reasons };
}

describe(
  "a SQLite store whose write lock another process holds",
  { concurrency: true, skip: process.platform !== "linux" },
  () => {
    it("makes the server not ready and refuses new runs, while active runs wait for the lock", async (t) => {
      const modelServer = await startModelServer(t);
      const home = await tempDir(t);
      const server = await startServer(t, { config: createServerConfig(modelServer), home: home.path });
      modelServer.enqueue({ say: [{ text: "Before" }, { gate: "locked" }, { text: ", after." }] });
      const activeRun = await startStreamedRun(server, { message: "active" });
      await activeRun.waitForCharacters(1);
      const lock = await lockStore(t, home.at("sessions.db"));
      lock.stop();
      modelServer.openGate("locked");
      await waitUntil(async () => (await readReadiness(server)).reasons.some(({ code }) => code === "store_locked"));
      const message = `the session store is locked by the process ${lock.pid}, which is stopped`;
      // The lists of models may still be fetched.
      const reasons = (await readReadiness(server)).reasons.filter(({ code }) => code !== "models_syncing");
      assert.deepEqual(reasons, [{ code: "store_locked", message }]);
      const response = await server.fetch("/api/run", { method: "POST", body: JSON.stringify({ message: "new" }) });
      assert.deepEqual(
        [response.status, response.headers.get("retry-after"), await response.json()],
        [503, "5", { error: "session store locked", code: "store_locked" }],
      );
      assert.equal((await server.fetch("/api/health")).status, 200);
      assert.match(server.stderr, new RegExp(`locked by the process ${lock.pid}, which is stopped`));
      await lock.release();
      await activeRun.ended;
      assert.equal(activeRun.latestEvent?.event, "done");
      assert.equal(activeRun.pieces.map(({ text }) => text).join(""), "Before, after.");
      await waitUntil(async () => (await readReadiness(server)).status === 200);
      assert.equal((await runPrompt(server, { message: "again" })).status, 200);
    });

    it("fails no request when the lock is held for five seconds", async (t) => {
      const modelServer = await startModelServer(t);
      const home = await tempDir(t);
      const server = await startServer(t, { config: createServerConfig(modelServer), home: home.path });
      assert.equal((await runPrompt(server, { message: "first" })).status, 200);
      const lock = await lockStore(t, home.at("sessions.db"));
      const runs = Promise.all(Array.from({ length: 20 }, (_, n) => runPrompt(server, { message: `${n}` })));
      // Time: the lock is held for five seconds.
      await sleep(5_000);
      await lock.release();
      assert.deepEqual(new Set((await runs).map(({ status }) => status)), new Set([200]));
    });
  },
);
