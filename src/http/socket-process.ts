import { readdirSync, readlinkSync } from "node:fs";
import { setImmediate as breath } from "node:timers/promises";
import { attempt } from "../base/attempt.js";
import { isOfCommand, processes } from "../base/linux-processes.js";

/** Clients that open many connections are looked at first. */
const MAX_RECENT = 8;
/** Open files that are read before other work gets its turn, and processes. */
const FILES_AT_ONCE = 1_000;
const PROCESSES_AT_ONCE = 100;
/** A process that hands its socket to another one may be missed. */
const TRIES = 2;

const recent: number[] = [];

/** The holder of the other end of a connection, as far as /proc shows it. */
export type Origin =
  /** A process that no gantry started. */
  | "outside"
  /** A command, an MCP server or a background process of gantry, or a descendant. */
  | "command"
  /** A process of another PID namespace: a container, or a sandbox that gantry did not start. */
  | "namespace"
  /**
   * No process shows it: it protects its open files, as sshd does, or the socket is on its way from one process to
   * another. A command can do both.
   */
  | "unseen";

/** Finds the process that holds a socket, by the inode of the socket, and says where it comes from. Linux only. */
export async function originOf(inode: string): Promise<Origin> {
  let pid: number | undefined;
  for (let tries = 0; pid === undefined && tries < TRIES; tries += 1) pid = await holderOf(`socket:[${inode}]`);
  if (pid === undefined) return "unseen";
  if (pid === process.pid) return "outside";
  if (isOfCommand(pid)) return "command";
  const namespace = namespaceOf(pid);
  return namespace === undefined || namespace === namespaceOf("self") ? "outside" : "namespace";
}

/** Sockets that are looked for, and who wants to know their holder. */
type Searches = Map<string, (pid: number | undefined) => void>;
let waiting: Searches = new Map();
let isReading = false;

/** Reads /proc once for all who asked before it began, so that a client with many connections costs no more than one. */
function holderOf(link: string): Promise<number | undefined> {
  return new Promise((found) => {
    waiting.set(link, found);
    if (!isReading) void readAll();
  });
}

async function readAll(): Promise<void> {
  isReading = true;
  while (waiting.size > 0) {
    const searches = waiting;
    waiting = new Map();
    await readOnce(searches);
    for (const found of searches.values()) found(undefined);
  }
  isReading = false;
}

/** Removes what it finds from `searches`. */
async function readOnce(searches: Searches): Promise<void> {
  // A client that has just been started has one of the highest numbers.
  const candidates = new Set([...recent, ...processes().sort((a, b) => b - a)]);
  let read = 0;
  for (const [i, pid] of [...candidates].entries()) {
    if (searches.size === 0) return;
    if (i % PROCESSES_AT_ONCE === PROCESSES_AT_ONCE - 1) await breath();
    for (const file of filesOf(pid)) {
      if (++read % FILES_AT_ONCE === 0) await breath();
      const link = linkOf(pid, file);
      const found = searches.get(link);
      if (!found) continue;
      searches.delete(link);
      remember(pid);
      found(pid);
    }
  }
}

function remember(pid: number): void {
  const at = recent.indexOf(pid);
  if (at !== -1) recent.splice(at, 1);
  recent.unshift(pid);
  recent.splice(MAX_RECENT);
}

/** Empty for one that has ended, belongs to another user, or protects its files. */
function filesOf(pid: number): string[] {
  return attempt(() => readdirSync(`/proc/${pid}/fd`), []);
}

function linkOf(pid: number, file: string): string {
  return attempt(() => readlinkSync(`/proc/${pid}/fd/${file}`), "");
}

/** Undefined where it is hidden: processes of root, and those that protect their memory. */
function namespaceOf(pid: number | "self"): string | undefined {
  return attempt(() => readlinkSync(`/proc/${pid}/ns/pid`), undefined);
}
