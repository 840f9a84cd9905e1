import type { Socket } from "node:net";
import { endianness } from "node:os";
import { SocketTable, type SocketOwner } from "./socket-table.js";

/** Maximum reads of the tables. A table that changes while it is read may omit a line that existed throughout. */
const MAX_TRIES = 3;

/**
 * Ids of the users with the same rights as this process: its own user, and root. Undefined on systems other than Linux,
 * which do not report the users of sockets.
 */
export function getTrustedUids(): ReadonlySet<number> | undefined {
  if (process.platform !== "linux" || !process.getuid || !process.geteuid) return undefined;
  return new Set([0, process.getuid(), process.geteuid()]);
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

const toHex = (bytes: readonly number[]) =>
  bytes
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("")
    .toUpperCase();
const toHexPort = (port: number) => toHex([port >> 8, port & 0xff]);

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
  const orderedBytes: number[] = [];
  for (let i = 0; i < bytes.length; i += 4) {
    const word = bytes.slice(i, i + 4);
    orderedBytes.push(...(endianness() === "LE" ? word.reverse() : word));
  }
  return toHex(orderedBytes);
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
