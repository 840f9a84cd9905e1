import { spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { createFolderFor, findFreePort, findOtherUser } from "./other-user.js";
import { findProgram } from "./postgres-binaries.js";
import type { Hooks } from "./temp-dir.js";
import { waitFor } from "./wait.js";

const pgbouncerPath = findProgram("pgbouncer");

/** Why tests with a pooler are skipped; false if pgbouncer is installed. */
export const NO_PGBOUNCER: string | false = pgbouncerPath ? false : "no pgbouncer: apt-get install pgbouncer";

/**
 * Starts a pooler in front of a server. Each transaction uses any of the pooler's `poolSize` connections. Resolves with
 * the URL of the pooler, which ends after the test, and with this process.
 */
export async function startPgbouncer(hooks: Hooks, url: string, poolSize = 3): Promise<string> {
  const user = findOtherUser();
  const folder = createFolderFor(user);
  const { hostname, port, username, password } = new URL(url);
  const poolerPort = await findFreePort();
  const configFile = path.join(folder, "pgbouncer.ini");
  const logFile = path.join(folder, "pgbouncer.log");
  writeFileSync(
    configFile,
    `[databases]
* = host=${hostname} port=${port} user=${username} password=${password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${poolerPort}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${poolSize}
max_client_conn = 500
logfile = ${logFile}
`,
    { mode: 0o600 },
  );
  if (user) chownSync(configFile, user.uid, user.gid);
  // The shell notices the end of this process, even if it is killed.
  const child = spawn("/bin/sh", ["-c", `"$0" "$1" & read -r _; kill -9 $!`, pgbouncerPath ?? "", configFile], {
    ...user,
    cwd: folder,
    stdio: ["pipe", "ignore", "ignore"],
  });
  const exitEvent = once(child, "exit");
  hooks.after(async () => {
    child.stdin.end();
    await exitEvent;
    rmSync(folder, { recursive: true, force: true });
  });
  await waitFor(
    `pgbouncer at port ${poolerPort}`,
    async () => {
      if (await isReachable(poolerPort)) return true;
      if (child.exitCode !== null) throw new Error("pgbouncer does not start");
      return undefined;
    },
    () => readFileSync(logFile, { encoding: "utf8", flag: "a+" }),
    20,
  );
  const poolerUrl = new URL(url);
  poolerUrl.port = String(poolerPort);
  return poolerUrl.href;
}

function isReachable(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port });
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
