import type { Socket } from "node:net";
import { endianness } from "node:os";
import { SocketTable, type SocketOwner } from "./socket-table.js";

/** A table that changes while it is read may omit a line that existed throughout. */
const TRIES = 3;

/**
 * Ids of the users with the same rights as this process: its own user, and root. Undefined on systems other than Linux,
 * which do not report the users of sockets.
 */
export function trustedUsers(): ReadonlySet<number> | undefined {
  if (process.platform !== "linux" || !process.getuid || !process.geteuid) return undefined;
  return new Set([0, process.getuid(), process.geteuid()]);
}

/**
 * Finds the users of the processes at the other ends of connections within this machine, from the kernel's socket
 * tables.
 */
export class PeerLookup {
  readonly #v4 = new SocketTable("/proc/net/tcp");
  readonly #v6 = new SocketTable("/proc/net/tcp6");

  /**
   * Finds the owner of the other end. `none` also if the other end is on another machine or has not been accepted yet.
   */
  async findOwner(socket: Socket): Promise<SocketOwner> {
    const { remoteAddress, remotePort, localAddress, localPort } = socket;
    // The connection has ended.
    if (remoteAddress === undefined || remotePort === undefined) return "none";
    const [remoteForms, localForms] = [inTable(remoteAddress), inTable(localAddress ?? "")];
    // The line of the other end: its local address is our remote address.
    const entry = (i: 0 | 1) =>
      `: ${remoteForms[i]}:${hexPort(remotePort)} ${localForms[i]}:${hexPort(localPort ?? 0)} `;
    const places = [{ table: this.#v6, entry: entry(1) }];
    // An IPv4 connection is usually listed in the IPv4 table and rarely in the IPv6 table.
    if (remoteForms[0] !== remoteForms[1]) places.unshift({ table: this.#v4, entry: entry(0) });
    for (let tries = 0; tries < TRIES; tries += 1) {
      let hidden = 0;
      for (const { table, entry } of places) {
        const owner = await table.findOwner(entry);
        if (owner === "hidden") hidden += 1;
        else if (owner !== "none") return owner;
      }
      if (hidden === places.length) return "hidden";
    }
    return "none";
  }
}

const hex = (bytes: readonly number[]) =>
  bytes
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("")
    .toUpperCase();
const hexPort = (port: number) => hex([port >> 8, port & 0xff]);

/**
 * An address as the tables contain it: words of four bytes, each in this machine's byte order. Returns the address
 * itself and, for IPv4, its IPv6 form.
 */
function inTable(address: string): readonly [string, string] {
  const v4 = /^(?:::ffff:)?(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (v4 === undefined) {
    const written = hexWords(bytesOf(address));
    return [written, written];
  }
  const bytes = v4.split(".").map(Number);
  return [hexWords(bytes), hexWords([...Array<number>(10).fill(0), 0xff, 0xff, ...bytes])];
}

function hexWords(bytes: readonly number[]): string {
  const parts: number[] = [];
  for (let i = 0; i < bytes.length; i += 4) {
    const word = bytes.slice(i, i + 4);
    parts.push(...(endianness() === "LE" ? word.reverse() : word));
  }
  return hex(parts);
}

/** The sixteen bytes of an IPv6 address. */
function bytesOf(address: string): number[] {
  const [head = "", tail] = (address.split("%", 1)[0] ?? "").split("::");
  const groups = (text: string) => (text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16)));
  const [before, after] = [groups(head), groups(tail ?? "")];
  const all = [...before, ...Array<number>(Math.max(0, 8 - before.length - after.length)).fill(0), ...after];
  return all.flatMap((group) => [group >> 8, group & 0xff]);
}
