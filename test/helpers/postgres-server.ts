// A private PostgreSQL server in its own folder. Usage: postgres-server.ts [name=value ...], with settings of the
// server. When ready it writes `{"url":...,"pid":...}` to stdout. Then it executes the lines of stdin (`stop`, `kill`,
// `start`, `pause`, `go`) and answers each with the line `ok` or an error message. When stdin ends, also because the
// parent died, this process removes the server and its folder.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chmodSync, chownSync, closeSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { createInterface } from "node:readline";
import { createFolderFor, findFreePort, findOtherUser } from "./other-user.js";
import { findPostgres } from "./postgres-binaries.js";
import { waitFor } from "./wait.js";

/** Settings for speed. Tests of crashes set `fsync=on`. */
const DEFAULT_SETTINGS: Readonly<Record<string, string>> = {
  fsync: "off",
  full_page_writes: "off",
  max_connections: "200",
  shared_buffers: "64MB",
  wal_level: "minimal",
  max_wal_senders: "0",
  max_wal_size: "256MB",
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
};

/** Another process may take the chosen port before the server does. */
const MAX_START_RETRIES = 5;
/** Time for an immediate shutdown, after which the server is killed. */
const SHUTDOWN_MS = 5000;

const password = randomBytes(12).toString("hex");
const detectedFolder = findPostgres();
if (!detectedFolder) throw new Error("PostgreSQL's server is not installed");
const binariesFolder: string = detectedFolder;
const settings = {
  ...DEFAULT_SETTINGS,
  ...Object.fromEntries(process.argv.slice(2).map((pair) => pair.split(/=(.*)/s))),
};
// PostgreSQL refuses to run as root.
const user = findOtherUser();
const folder = createFolderFor(user);
let port = 0;
let server: ChildProcess | undefined;

// Registered before any start, because the parent may end at any moment.
const lines = createInterface({ input: process.stdin });
lines.once("close", shutDown);
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.once(signal, shutDown);

try {
  initialize();
  await start();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  shutDown();
}
const url = `postgres://gantry:${password}@127.0.0.1:${port}/postgres`;
process.stdout.write(`${JSON.stringify({ url, pid: server?.pid, user: user?.uid })}\n`);

const COMMANDS: Readonly<Record<string, () => Promise<void> | void>> = {
  start,
  /** A fast shutdown: the server notifies clients and aborts running statements. */
  stop: () => stop("SIGINT"),
  /** Simulates a crash: clients are not notified, and the next start recovers. */
  kill: () => stop("SIGQUIT"),
  pause: () => signalAll("SIGSTOP"),
  go: () => signalAll("SIGCONT"),
};
for await (const line of lines) {
  try {
    await COMMANDS[line]?.();
    process.stdout.write("ok\n");
  } catch (error) {
    process.stdout.write(`${error instanceof Error ? error.message : String(error)}\n`);
  }
}

/**
 * Creates the database files. Uses a language's collation if possible, to expose statements without an explicit
 * collation.
 */
function initialize(): void {
  const passwordFile = path.join(folder, "secret");
  writeFileSync(passwordFile, password, { mode: 0o600 });
  if (user) chownSync(passwordFile, user.uid, user.gid);
  const args = ["-D", path.join(folder, "data"), "-U", "gantry", "-A", "scram-sha-256", `--pwfile=${passwordFile}`];
  args.push("-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions");
  const runInitdb = (extraArguments: string[]) =>
    spawnSync(path.join(binariesFolder, "initdb"), [...args, ...extraArguments], {
      ...createSpawnOptions(),
      encoding: "utf8",
    });
  let result = runInitdb(["--locale-provider=icu", "--icu-locale=en-US"]);
  if (result.status !== 0) result = runInitdb([]);
  if (result.status !== 0) throw new Error(`initdb: ${result.error?.message ?? result.stderr}`);
  rmSync(passwordFile);
}

function createSpawnOptions(): { uid?: number; gid?: number; cwd: string; env: NodeJS.ProcessEnv } {
  // Removes libpq's variables; the other variables identify the owner of this process.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("PG")));
  return { ...user, cwd: folder, env: { ...env, LC_ALL: "C", TZ: "UTC" } };
}

/** Starts the server. Later starts use the port of the first start. */
async function start(): Promise<void> {
  if (server) return;
  for (let attempt = 0; ; attempt++) {
    const chosenPort = port || (await findFreePort());
    if (await startOnPort(chosenPort)) {
      port = chosenPort;
      return;
    }
    if (attempt === MAX_START_RETRIES)
      throw new Error(`the server does not start: ${readFileSync(getLogFile(), "utf8").slice(-2000)}`);
  }
}

function getLogFile(): string {
  return path.join(folder, "server.log");
}

/** Starts the server. Resolves with false if it ended before it was ready. */
async function startOnPort(chosenPort: number): Promise<boolean> {
  const output = openSync(getLogFile(), "a");
  chmodSync(getLogFile(), 0o644);
  const args = ["-D", path.join(folder, "data"), "-p", String(chosenPort)];
  for (const [name, value] of Object.entries(settings)) args.push("-c", `${name}=${value}`);
  const child = spawn(path.join(binariesFolder, "postgres"), args, {
    ...createSpawnOptions(),
    stdio: ["ignore", output, output],
    detached: true,
  });
  closeSync(output);
  server = child;
  child.once("exit", () => {
    if (server === child) server = undefined;
  });
  child.once("error", () => (server = undefined));
  return waitFor(
    "a PostgreSQL server that is ready",
    async () => {
      if (server !== child) return false;
      return (readStatus() === "ready" && (await isReachable(chosenPort))) || undefined;
    },
    () => readFileSync(getLogFile(), "utf8"),
    20,
  );
}

/** The state that the server reports in line 8 of its pid file, for example `ready`; empty without a pid file. */
function readStatus(): string {
  try {
    return (readFileSync(path.join(folder, "data", "postmaster.pid"), "utf8").split("\n")[7] ?? "").trim();
  } catch {
    return "";
  }
}

function isReachable(requestedPort: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port: requestedPort });
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

async function stop(signal: "SIGINT" | "SIGQUIT"): Promise<void> {
  const child = server;
  if (!child) return;
  const exitEvent = once(child, "exit");
  signalAll("SIGCONT");
  child.kill(signal);
  await exitEvent;
}

/** Signals the server and its children, each of which leads its own process group. */
function signalAll(signal: "SIGSTOP" | "SIGCONT" | "SIGKILL"): void {
  const serverPid = server?.pid;
  if (serverPid === undefined) return;
  const rows = execFileSync("ps", ["-A", "-o", "pid=,ppid="], { encoding: "utf8" }).trim().split("\n");
  const children = rows.map((row) => row.trim().split(/\s+/).map(Number)).filter(([, parent]) => parent === serverPid);
  for (const pid of [serverPid, ...children.map(([pid]) => pid)]) {
    try {
      if (pid) process.kill(pid, signal);
    } catch {
      // The process has ended in the meantime.
    }
  }
}

/** Shuts down as fast as possible, because no data is kept. */
function shutDown(): void {
  const child = server;
  const removeAndExit = (): never => {
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
    process.exit(port === 0 ? 1 : 0);
  };
  if (!child) return removeAndExit();
  child.removeAllListeners("exit");
  child.once("exit", removeAndExit);
  signalAll("SIGCONT");
  child.kill("SIGQUIT");
  // Kills a server that does not respond.
  setTimeout(() => {
    signalAll("SIGKILL");
  }, SHUTDOWN_MS);
}
