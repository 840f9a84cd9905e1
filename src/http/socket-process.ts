import { readdirSync, readlinkSync } from "node:fs";
import { setImmediate as breath } from "node:timers/promises";
import { attempt } from "../base/attempt.js";
import { isCommandProcess, listProcessIds } from "../base/linux-processes.js";

/** Recent clients are searched first, because they often open further connections. */
const MAX_RECENT = 8;
/** Number of open files, and of processes, that are read before other work may run. */
const FILES_AT_ONCE = 1_000;
const PROCESSES_AT_ONCE = 100;
/** A search may miss a process that passes its socket to another process. */
const TRIES = 2;

const recent: number[] = [];

/** Origin of the process at the other end of a connection, as far as /proc shows it. */
export type Origin =
  /** A process that no gantry started. */
  | "outside"
  /** A command, MCP server or background process of gantry, or its descendant. */
  | "command"
  /** A process of another PID namespace: a container, or a sandbox that gantry did not start. */
  | "namespace"
  /**
   * No visible process holds the socket. Its process protects its open files, as sshd does, or the socket is being
   * passed to another process. A command can do both.
   */
  | "unseen";

/** Finds the process that holds a socket, by the socket's inode, and returns its origin. Linux only. */
export async function findOrigin(inode: string): Promise<Origin> {
  let pid: number | undefined;
  for (let tries = 0; pid === undefined && tries < TRIES; tries += 1) pid = await findHolder(`socket:[${inode}]`);
  if (pid === undefined) return "unseen";
  if (pid === process.pid) return "outside";
  if (isCommandProcess(pid)) return "command";
  const namespace = namespaceOf(pid);
  return namespace === undefined || namespace === namespaceOf("self") ? "outside" : "namespace";
}

/** Callbacks by the socket to find. Each receives the id of the holder, or undefined. */
type Searches = Map<string, (pid: number | undefined) => void>;
let pendingSearches: Searches = new Map();
let isReading = false;

/**
 * Reads /proc once for all callers that wait when the reading starts. Many connections of one client cost no more than
 * one.
 */
function findHolder(link: string): Promise<number | undefined> {
  return new Promise((resolve) => {
    pendingSearches.set(link, resolve);
    if (!isReading) void readAll();
  });
}

async function readAll(): Promise<void> {
  isReading = true;
  while (pendingSearches.size > 0) {
    const searches = pendingSearches;
    pendingSearches = new Map();
    await readOnce(searches);
    for (const resolve of searches.values()) resolve(undefined);
  }
  isReading = false;
}

/** Calls and removes the callbacks of the sockets that it finds. */
async function readOnce(searches: Searches): Promise<void> {
  // A client that has just started has one of the highest process ids.
  const candidates = new Set([...recent, ...listProcessIds().sort((a, b) => b - a)]);
  let read = 0;
  for (const [i, pid] of [...candidates].entries()) {
    if (searches.size === 0) return;
    if (i % PROCESSES_AT_ONCE === PROCESSES_AT_ONCE - 1) await breath();
    for (const file of filesOf(pid)) {
      if (++read % FILES_AT_ONCE === 0) await breath();
      const link = linkOf(pid, file);
      const resolve = searches.get(link);
      if (!resolve) continue;
      searches.delete(link);
      remember(pid);
      resolve(pid);
    }
  }
}

function remember(pid: number): void {
  const at = recent.indexOf(pid);
  if (at !== -1) recent.splice(at, 1);
  recent.unshift(pid);
  recent.splice(MAX_RECENT);
}

/** Empty if the process has ended, belongs to another user, or protects its files. */
function filesOf(pid: number): string[] {
  return attempt(() => readdirSync(`/proc/${pid}/fd`), []);
}

function linkOf(pid: number, file: string): string {
  return attempt(() => readlinkSync(`/proc/${pid}/fd/${file}`), "");
}

/** Undefined if hidden, for example for processes of root and processes that protect their memory. */
function namespaceOf(pid: number | "self"): string | undefined {
  return attempt(() => readlinkSync(`/proc/${pid}/ns/pid`), undefined);
}
