import { spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { folderFor, freePort, otherUser } from "./other-user.js";
import { findProgram } from "./postgres-binaries.js";
import type { Hooks } from "./temp.js";
import { waitFor } from "./wait.js";

const program = findProgram("pgbouncer");

/** Why tests with a pooler are skipped; false if pgbouncer is installed. */
export const NO_PGBOUNCER: string | false = program ? false : "no pgbouncer: apt-get install pgbouncer";

/**
 * Starts a pooler in front of a server. Each transaction uses any of its few connections. Resolves with the URL of the
 * pooler. It ends after the test, and with this process.
 */
export async function pgbouncer(hooks: Hooks, url: string, size = 3): Promise<string> {
  const user = otherUser();
  const folder = folderFor(user);
  const { hostname, port, username, password } = new URL(url);
  const poolerPort = await freePort();
  const file = path.join(folder, "pgbouncer.ini");
  const log = path.join(folder, "pgbouncer.log");
  writeFileSync(
    file,
    `[databases]
* = host=${hostname} port=${port} user=${username} password=${password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${poolerPort}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${size}
max_client_conn = 500
logfile = ${log}
`,
    { mode: 0o600 },
  );
  if (user) chownSync(file, user.uid, user.gid);
  // The shell notices the end of this process, even if it is killed.
  const child = spawn("/bin/sh", ["-c", `"$0" "$1" & read -r _; kill -9 $!`, program ?? "", file], {
    ...user,
    cwd: folder,
    stdio: ["pipe", "ignore", "ignore"],
  });
  const ended = once(child, "exit");
  hooks.after(async () => {
    child.stdin.end();
    await ended;
    rmSync(folder, { recursive: true, force: true });
  });
  await waitFor(
    `pgbouncer at port ${poolerPort}`,
    async () => {
      if (await reachable(poolerPort)) return true;
      if (child.exitCode !== null) throw new Error("pgbouncer does not start");
      return undefined;
    },
    () => readFileSync(log, { encoding: "utf8", flag: "a+" }),
    20,
  );
  const pooled = new URL(url);
  pooled.port = String(poolerPort);
  return pooled.href;
}

function reachable(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port });
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
