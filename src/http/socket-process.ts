import { readdirSync, readlinkSync } from "node:fs";
import { setImmediate as breath } from "node:timers/promises";
import { isOfCommand, processes } from "../base/linux-processes.js";

/** Clients that open many connections are looked at first. */
const MAX_RECENT = 8;
/** Processes that are read before other work gets its turn. */
const PROCESSES_AT_ONCE = 100;

const recent: number[] = [];

/** What holds the other end of a connection, as far as /proc shows it. */
export type Origin =
  /** A process that no gantry started. */
  | "outside"
  /** A command, an MCP server or a background process of gantry, or a descendant. */
  | "command"
  /** A process of another PID namespace: a container, or a sandbox that gantry did not start. */
  | "namespace"
  /** A process whose open files are hidden, such as sshd, or none. */
  | "unknown";

/** Finds the process that holds a socket, by the inode of the socket, and says where it comes from. Linux only. */
export async function originOf(inode: string): Promise<Origin> {
  const pid = await holderOf(`socket:[${inode}]`);
  if (pid === undefined) return "unknown";
  if (pid === process.pid) return "outside";
  if (isOfCommand(pid)) return "command";
  const namespace = namespaceOf(pid);
  return namespace === undefined || namespace === namespaceOf("self") ? "outside" : "namespace";
}

async function holderOf(link: string): Promise<number | undefined> {
  // A client that has just been started has one of the highest numbers.
  const candidates = [...recent, ...processes().sort((a, b) => b - a)];
  for (const [i, pid] of candidates.entries()) {
    if (i % PROCESSES_AT_ONCE === PROCESSES_AT_ONCE - 1) await breath();
    if (!holds(pid, link)) continue;
    const at = recent.indexOf(pid);
    if (at !== -1) recent.splice(at, 1);
    recent.unshift(pid);
    recent.splice(MAX_RECENT);
    return pid;
  }
  return undefined;
}

function holds(pid: number, link: string): boolean {
  const folder = `/proc/${pid}/fd`;
  let files: string[];
  try {
    files = readdirSync(folder);
  } catch {
    // It has ended, or belongs to another user.
    return false;
  }
  return files.some((file) => {
    try {
      return readlinkSync(`${folder}/${file}`) === link;
    } catch {
      return false;
    }
  });
}

/** Undefined where it is hidden: processes of root, and those that protect their memory. */
function namespaceOf(pid: number | "self"): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`);
  } catch {
    return undefined;
  }
}
