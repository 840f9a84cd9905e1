import type { Socket } from "node:net";
import { endianness } from "node:os";
import type { Logger } from "../ports/logger.js";
import { SocketTable } from "./socket-table.js";

/** Whether the process at the other end of a connection is of this user; undefined while it is being found out. */
type Verdict = { trusted: boolean | undefined; known: Promise<void> };

/** A table that changes while it is read may lack a line that was there all the time. */
const TRIES = 3;

/**
 * Tells connections of this user's processes (and root's) from those of other users of the machine, by the kernel's
 * table of sockets. Only Linux has one; elsewhere, and where the table cannot be read, everybody is trusted.
 */
export class PeerUsers {
  readonly #trusted: ReadonlySet<number>;
  readonly #logger: Logger;
  readonly #verdicts = new WeakMap<object, Verdict>();
  /** Users that were told of already. */
  readonly #told = new Set<string>();
  readonly #v4 = new SocketTable("/proc/net/tcp");
  readonly #v6 = new SocketTable("/proc/net/tcp6");

  private constructor(trusted: ReadonlySet<number>, logger: Logger) {
    this.#trusted = trusted;
    this.#logger = logger;
  }

  /** Undefined where the system does not tell. */
  static ofThisMachine(logger: Logger): PeerUsers | undefined {
    if (process.platform !== "linux" || !process.getuid || !process.geteuid) return undefined;
    // Root can do whatever this user can.
    return new PeerUsers(new Set([0, process.getuid(), process.geteuid()]), logger);
  }

  /** A new connection. */
  add(socket: Socket): void {
    const verdict: Verdict = { trusted: undefined, known: Promise.resolve() };
    verdict.known = this.#find(socket).then((trusted) => void (verdict.trusted = trusted));
    this.#verdicts.set(socket, verdict);
  }

  /** Whether its process is trusted; undefined: not known yet, ask again after `known`. */
  isTrusted(socket: object): boolean | undefined {
    return this.#verdicts.get(socket)?.trusted;
  }

  /** Resolves when it is known; never rejects. */
  known(socket: object): Promise<void> {
    return this.#verdicts.get(socket)?.known ?? Promise.resolve();
  }

  async #find(socket: Socket): Promise<boolean> {
    const { remoteAddress, remotePort, localAddress, localPort } = socket;
    // Gone already.
    if (remoteAddress === undefined || remotePort === undefined) return false;
    const [client, server] = [inTable(remoteAddress), inTable(localAddress ?? "")];
    // Seen from the other end.
    const entry = (i: 0 | 1) => `: ${client[i]}:${hexPort(remotePort)} ${server[i]}:${hexPort(localPort ?? 0)} `;
    const places = [{ table: this.#v6, entry: entry(1) }];
    // Who has an address of IPv4 may have got it by IPv6, which is seldom.
    if (client[0] !== client[1]) places.unshift({ table: this.#v4, entry: entry(0) });
    for (let tries = 0; tries < TRIES; tries += 1) {
      let hidden = 0;
      for (const { table, entry } of places) {
        const uid = await table.ownerOf(entry);
        if (uid === undefined) hidden += 1;
        else if (uid !== "") return this.#judge(uid);
      }
      if (hidden === places.length) return this.#tellHidden();
    }
    return false;
  }

  #judge(uid: string): boolean {
    if (this.#trusted.has(Number(uid))) return true;
    if (!this.#told.has(uid)) {
      this.#told.add(uid);
      this.#logger.warn(
        `refused a process of another user of this machine (uid ${uid}); server.required_headers would let it prove ` +
          "itself, server.allow_other_users lets everybody in",
      );
    }
    return false;
  }

  #tellHidden(): true {
    if (!this.#told.has(""))
      this.#logger.warn("whose processes connect cannot be told: the table of sockets is hidden");
    this.#told.add("");
    return true;
  }
}

const hex = (bytes: readonly number[]) =>
  bytes
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("")
    .toUpperCase();
const hexPort = (port: number) => hex([port >> 8, port & 0xff]);

/** An address as the tables write it: words of four bytes, each in the order of this machine. As itself, and where it is IPv4 also as IPv6. */
function inTable(address: string): readonly [string, string] {
  const v4 = /^(?:::ffff:)?(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (v4 === undefined) {
    const written = words(bytesOf(address));
    return [written, written];
  }
  const bytes = v4.split(".").map(Number);
  return [words(bytes), words([...Array<number>(10).fill(0), 0xff, 0xff, ...bytes])];
}

function words(bytes: readonly number[]): string {
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
