import { open, type FileHandle } from "node:fs/promises";
import type { Socket } from "node:net";
import { endianness, networkInterfaces } from "node:os";

/** Size of the read buffer. The kernel returns fewer bytes per read. */
const BUFFER_BYTES = 16 * 1024;
/** Length of the part of a line after the addresses that contains the user and the inode. */
const OWNER_CHARACTERS = 200;
/** Maximum reads of the tables. A table that changes while it is read may omit a line that existed throughout. */
const MAX_TRIES = 3;

/**
 * User and inode of a socket.
 *
 * `none`: no process holds the socket, or a temporary error prevented reading the table. `hidden`: the system does not
 * show the table.
 */
export type SocketOwner = { readonly uid: number; readonly inode: string } | "none" | "hidden";

interface Search {
  /** Part of the table line of the socket to find: both addresses, as `PeerLookup` formats them. */
  readonly entry: string;
  readonly resolve: (owner: SocketOwner) => void;
}

/**
 * A socket table of the kernel.
 *
 * Reaching the end of the table takes milliseconds even with few lines, because the kernel scans its full capacity.
 * Each search therefore stops as early as possible and serves all callers that wait when it starts.
 */
export class SocketTable {
  readonly #file: string;
  #pendingSearches: Search[] = [];
  #isReading = false;

  constructor(file: string) {
    this.#file = file;
  }

  /** Finds the owner of the socket whose line contains `entry`. Reads the table after this call. Never rejects. */
  findOwner(entry: string): Promise<SocketOwner> {
    return new Promise((resolve) => {
      this.#pendingSearches.push({ entry, resolve });
      if (!this.#isReading) void this.#runSearches();
    });
  }

  async #runSearches(): Promise<void> {
    this.#isReading = true;
    while (this.#pendingSearches.length > 0) await this.#search(this.#pendingSearches.splice(0));
    this.#isReading = false;
  }

  /** Resolves each search as soon as its line is read. Never rejects. */
  async #search(searches: Search[]): Promise<void> {
    let remainingSearches = searches;
    let table: FileHandle | undefined;
    try {
      table = await open(this.#file);
      const buffer = Buffer.allocUnsafe(BUFFER_BYTES);
      for (let text = ""; remainingSearches.length > 0; text = text.slice(text.lastIndexOf("\n") + 1)) {
        const { bytesRead } = await table.read(buffer);
        if (bytesRead === 0) break;
        text += buffer.toString("latin1", 0, bytesRead);
        const lines = text.slice(0, text.lastIndexOf("\n") + 1);
        remainingSearches = remainingSearches.filter(({ entry, resolve }) => {
          const owner = findOwnerIn(lines, entry);
          if (owner !== undefined) resolve(owner);
          return owner === undefined;
        });
      }
      for (const { resolve } of remainingSearches) resolve("none");
    } catch (error) {
      const isHidden = /^(EACCES|ENOENT|EPERM)$/.test((error as NodeJS.ErrnoException).code ?? "");
      // A client can cause other errors, for example by opening so many connections that no file can be opened.
      for (const { resolve } of remainingSearches) resolve(isHidden ? "hidden" : "none");
    } finally {
      await table?.close().catch(() => undefined);
    }
  }
}

function findOwnerIn(lines: string, entry: string): SocketOwner | undefined {
  for (let entryStart = lines.indexOf(entry); entryStart !== -1; entryStart = lines.indexOf(entry, entryStart + 1)) {
    const ownerStart = entryStart + entry.length;
    const [, , , , uid, , inode = "0"] = lines.slice(ownerStart, ownerStart + OWNER_CHARACTERS).split(/\s+/);
    // The kernel reports a socket without a process as root's, with inode 0.
    if (inode !== "0") return { uid: Number(uid), inode };
  }
  return undefined;
}

/**
 * Ids of the users with the same rights as this process: its own user, and root. Undefined on systems other than Linux,
 * which do not report the users of sockets.
 */
export function getTrustedUids(): ReadonlySet<number> | undefined {
  if (process.platform !== "linux" || !process.getuid || !process.geteuid) return undefined;
  return new Set([0, process.getuid(), process.geteuid()]);
}

/** Whether an address of a socket belongs to this machine, besides the loopback addresses. */
export function isLocalAddress(address: string): boolean {
  // A link-local address includes its interface.
  const bareAddress = address.replace(/^::ffff:/i, "").replace(/%.*$/, "");
  return Object.values(networkInterfaces()).some((interfaceAddresses) =>
    interfaceAddresses?.some((networkAddress) => networkAddress.address === bareAddress),
  );
}

/** Finds the user and inode of the other end of a connection within this machine, in the kernel's socket tables. */
export class PeerLookup {
  readonly #ipv4Table = new SocketTable("/proc/net/tcp");
  readonly #ipv6Table = new SocketTable("/proc/net/tcp6");

  /**
   * Finds the owner of the peer socket. Returns `none` if no process holds the peer socket, if the peer is on another
   * machine, or if the peer has not accepted the connection yet.
   */
  async findOwner(socket: Socket): Promise<SocketOwner> {
    const { remoteAddress, remotePort, localAddress, localPort } = socket;
    // The addresses are undefined after the connection has ended.
    if (remoteAddress === undefined || remotePort === undefined) return "none";
    const [remoteForms, localForms] = [toTableForms(remoteAddress), toTableForms(localAddress ?? "")];
    // In the table's line of the peer socket, the local address is our remote address.
    const toEntry = (i: 0 | 1) =>
      `: ${remoteForms[i]}:${toHexPort(remotePort)} ${localForms[i]}:${toHexPort(localPort ?? 0)} `;
    const searches = [{ table: this.#ipv6Table, entry: toEntry(1) }];
    // IPv4 connections are usually in the IPv4 table: search it first.
    if (remoteForms[0] !== remoteForms[1]) searches.unshift({ table: this.#ipv4Table, entry: toEntry(0) });
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      let hiddenTableCount = 0;
      for (const { table, entry } of searches) {
        const owner = await table.findOwner(entry);
        if (owner === "hidden") hiddenTableCount += 1;
        else if (owner !== "none") return owner;
      }
      if (hiddenTableCount === searches.length) return "hidden";
    }
    return "none";
  }
}

const toHexPort = (port: number) => port.toString(16).toUpperCase().padStart(4, "0");

/**
 * Formats an address as the tables contain it: words of four bytes, each in this machine's byte order. Returns the
 * forms for the IPv4 and the IPv6 table, which are equal for an IPv6 address.
 */
function toTableForms(address: string): readonly [string, string] {
  const ipv4Address = /^(?:::ffff:)?(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (ipv4Address === undefined) {
    const hexForm = toHexWords(parseIPv6(address));
    return [hexForm, hexForm];
  }
  const bytes = ipv4Address.split(".").map(Number);
  return [toHexWords(bytes), toHexWords([...Array<number>(10).fill(0), 0xff, 0xff, ...bytes])];
}

function toHexWords(bytes: readonly number[]): string {
  const words = Buffer.from(bytes);
  return (endianness() === "LE" ? words.swap32() : words).toString("hex").toUpperCase();
}

/** Returns the sixteen bytes of an IPv6 address. */
function parseIPv6(address: string): number[] {
  const [head = "", tail] = (address.split("%", 1)[0] ?? "").split("::");
  const parseGroups = (text: string) => (text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16)));
  const [leadingGroups, trailingGroups] = [parseGroups(head), parseGroups(tail ?? "")];
  const groups = [
    ...leadingGroups,
    ...Array<number>(Math.max(0, 8 - leadingGroups.length - trailingGroups.length)).fill(0),
    ...trailingGroups,
  ];
  return groups.flatMap((group) => [group >> 8, group & 0xff]);
}
