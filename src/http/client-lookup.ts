import { readdirSync, readlinkSync } from "node:fs";
import type { Socket } from "node:net";
import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { attempt } from "../base/attempt.js";
import { isCommandProcess, listProcessIds } from "../base/linux-processes.js";
import type { Logger } from "../ports/logger.js";
import { getTrustedUids, isLocalAddress, PeerLookup } from "./socket-table.js";
import { isLoopback } from "./web-safety.js";

/** Recent clients are searched first, because they often open further connections. */
const MAX_RECENT_PIDS = 8;
/** Open files and processes that one turn of the event loop reads, so that other work is not blocked. */
const MAX_FILES_PER_TURN = 1_000;
const MAX_PROCESSES_PER_TURN = 100;
/** Maximum searches, because a search may miss a process that passes its socket to another process. */
const MAX_TRIES = 2;

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

/**
 * The client of a connection.
 * - `remote`: on another machine.
 * - `other_user`: a process of another user than this one or root.
 * - `gone`: the connection has ended, so the client cannot be identified.
 * - `unknown`: the kernel's socket table is not readable.
 * - `ProcessOrigin`: a process of this user or of root on this machine.
 */
export type ClientKind = "remote" | "other_user" | "gone" | "unknown" | ProcessOrigin;

/**
 * Identifies the clients of connections within this machine, from the kernel's socket table and /proc. Both exist only
 * on Linux. If the table is not readable, every client is `unknown`.
 */
export class ClientLookup {
  readonly #trustedUids = getTrustedUids() ?? new Set<number>();
  readonly #logger: Logger;
  readonly #loggedMessages = new Set<string>();
  readonly #peerLookup = new PeerLookup();
  /** The last other user that was identified. */
  #otherUid = -1;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Identifies the client of a new connection. */
  async identify(socket: Socket): Promise<ClientKind> {
    const address = socket.remoteAddress ?? "";
    if (!isLoopback(address) && !isLocalAddress(address)) return "remote";
    const owner = await this.#peerLookup.findOwner(socket);
    if (owner === "hidden") {
      this.#warnOnce("cannot identify local clients: /proc/net/tcp is not readable");
      return "unknown";
    }
    if (owner === "none") return "gone";
    if (!this.#trustedUids.has(owner.uid)) {
      this.#otherUid = owner.uid;
      return "other_user";
    }
    // Open files of root's processes are not visible. Root can run commands without gantry, so no check is needed.
    if (owner.uid !== process.getuid?.() && owner.uid !== process.geteuid?.()) return "outside";
    const origin = await findProcessOrigin(owner.inode);
    if (origin !== "unseen") return origin;
    // The process that opened the connection may have ended meanwhile.
    const currentOwner = await this.#peerLookup.findOwner(socket);
    return typeof currentOwner === "object" && currentOwner.inode === owner.inode ? "unseen" : "gone";
  }

  /** Logs that a request of a client was refused, once for each kind and user. */
  reportRefusal(client: "other_user" | "command"): void {
    this.#warnOnce(
      client === "command"
        ? "refused a request of a command, an MCP server or a background process of gantry"
        : `refused a process of another user of this machine (uid ${this.#otherUid}); server.tokens or ` +
            "server.required_headers lets it authenticate, server.allow_other_users admits all users",
    );
  }

  #warnOnce(message: string): void {
    if (this.#loggedMessages.has(message)) return;
    this.#loggedMessages.add(message);
    this.#logger.warn(message);
  }
}

/** Finds the process that holds a socket, by the socket's inode, and returns its origin. Linux only. */
export async function findProcessOrigin(inode: string): Promise<ProcessOrigin> {
  let origin: ProcessOrigin | undefined;
  for (let tries = 0; origin === undefined && tries < MAX_TRIES; tries += 1) origin = await search(`socket:[${inode}]`);
  return origin ?? "unseen";
}

/**
 * Callbacks by the link of the socket to find. A callback receives the origin of the holder, or undefined if none is
 * found.
 */
type Searches = Map<string, (origin: ProcessOrigin | undefined) => void>;
let pendingSearches: Searches = new Map();
let isSearching = false;

/**
 * Searches /proc once for all sockets that are pending when the search starts, so that many connections of one client
 * cost one search.
 */
function search(link: string): Promise<ProcessOrigin | undefined> {
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
  let readProcessCount = 0;
  let readFileCount = 0;
  for (const pid of listCandidates()) {
    if (++readProcessCount % MAX_PROCESSES_PER_TURN === 0) await yieldToEventLoop();
    let origin: ProcessOrigin | undefined;
    for (const descriptor of listDescriptors(pid)) {
      if (++readFileCount % MAX_FILES_PER_TURN === 0) await yieldToEventLoop();
      const link = readDescriptorLink(pid, descriptor);
      const resolve = searches.get(link);
      if (!resolve) continue;
      searches.delete(link);
      resolve((origin ??= originOf(pid)));
      if (searches.size === 0) break;
    }
    if (origin !== undefined) addRecentPid(pid);
    if (searches.size === 0) return;
  }
}

const recentPids: number[] = [];

/** Yields the recent clients, then the newest processes. Lists all processes only if no recent client is the holder. */
function* listCandidates(): Generator<number> {
  const firstPids = [...recentPids];
  yield* firstPids;
  for (const pid of listProcessIds().sort((a, b) => b - a)) if (!firstPids.includes(pid)) yield pid;
}

function addRecentPid(pid: number): void {
  const index = recentPids.indexOf(pid);
  if (index !== -1) recentPids.splice(index, 1);
  recentPids.unshift(pid);
  recentPids.splice(MAX_RECENT_PIDS);
}

function originOf(pid: number): ProcessOrigin {
  if (pid === process.pid) return "outside";
  if (isCommandProcess(pid)) return "command";
  const namespace = readPidNamespace(pid);
  return namespace === undefined || namespace === readPidNamespace("self") ? "outside" : "namespace";
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
