import { readdirSync, readlinkSync } from "node:fs";
import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { attempt } from "../base/attempt.js";
import { isCommandProcess, listProcessIds } from "../base/linux-processes.js";

/** Recent clients are searched first, because they often open further connections. */
const MAX_RECENT_PIDS = 8;
/** Open files and processes that one turn of the event loop reads, so that other work is not blocked. */
const MAX_FILES_PER_TURN = 1_000;
const MAX_PROCESSES_PER_TURN = 100;
/** Maximum searches, because a search may miss a process that passes its socket to another process. */
const MAX_TRIES = 2;

const recentPids: number[] = [];

/** Origin of the process that holds a socket, as far as /proc shows it. */
export type ProcessOrigin =
  /** This process, or a process that is not a command, MCP server or background process of gantry. */
  | "outside"
  /** A command, MCP server or background process of gantry, or its descendant. */
  | "command"
  /** A process of another PID namespace: a container, or a sandbox that gantry did not start. */
  | "namespace"
  /**
   * No visible process holds the socket. Either the process protects its open files, as sshd does, or the process is
   * passing the socket to another process. A command of gantry can do both.
   */
  | "unseen";

/** Finds the process that holds a socket, by the socket's inode, and returns its origin. Linux only. */
export async function findProcessOrigin(inode: string): Promise<ProcessOrigin> {
  let pid: number | undefined;
  for (let tries = 0; pid === undefined && tries < MAX_TRIES; tries += 1) pid = await findHolder(`socket:[${inode}]`);
  if (pid === undefined) return "unseen";
  if (pid === process.pid) return "outside";
  if (isCommandProcess(pid)) return "command";
  const namespace = readPidNamespace(pid);
  return namespace === undefined || namespace === readPidNamespace("self") ? "outside" : "namespace";
}

/**
 * Callbacks by the link of the socket to find. A callback receives the id of the holder, or undefined if none is found.
 */
type Searches = Map<string, (pid: number | undefined) => void>;
let pendingSearches: Searches = new Map();
let isSearching = false;

/**
 * Searches /proc once for all sockets that are pending when the search starts, so that many connections of one client
 * cost one search.
 */
function findHolder(link: string): Promise<number | undefined> {
  return new Promise((resolve) => {
    pendingSearches.set(link, resolve);
    if (!isSearching) void runSearches();
  });
}

async function runSearches(): Promise<void> {
  isSearching = true;
  while (pendingSearches.size > 0) {
    const searches = pendingSearches;
    pendingSearches = new Map();
    await searchProcesses(searches);
    for (const resolve of searches.values()) resolve(undefined);
  }
  isSearching = false;
}

/** Calls the callbacks of the sockets that are found, and removes them from `searches`. */
async function searchProcesses(searches: Searches): Promise<void> {
  // A client that has just started has one of the highest process ids.
  const candidatePids = new Set([...recentPids, ...listProcessIds().sort((a, b) => b - a)]);
  let readFileCount = 0;
  for (const [i, pid] of [...candidatePids].entries()) {
    if (searches.size === 0) return;
    if (i % MAX_PROCESSES_PER_TURN === MAX_PROCESSES_PER_TURN - 1) await yieldToEventLoop();
    for (const descriptor of listDescriptors(pid)) {
      if (++readFileCount % MAX_FILES_PER_TURN === 0) await yieldToEventLoop();
      const link = readDescriptorLink(pid, descriptor);
      const resolve = searches.get(link);
      if (!resolve) continue;
      searches.delete(link);
      addRecentPid(pid);
      resolve(pid);
    }
  }
}

function addRecentPid(pid: number): void {
  const index = recentPids.indexOf(pid);
  if (index !== -1) recentPids.splice(index, 1);
  recentPids.unshift(pid);
  recentPids.splice(MAX_RECENT_PIDS);
}

/** Returns an empty list if the process has ended, belongs to another user, or protects its files. */
function listDescriptors(pid: number): string[] {
  return attempt(() => readdirSync(`/proc/${pid}/fd`), []);
}

function readDescriptorLink(pid: number, descriptor: string): string {
  return attempt(() => readlinkSync(`/proc/${pid}/fd/${descriptor}`), "");
}

/** Returns undefined if the namespace is hidden, for example for processes of root. */
function readPidNamespace(pid: number | "self"): string | undefined {
  return attempt(() => readlinkSync(`/proc/${pid}/ns/pid`), undefined);
}
