import type { Socket } from "node:net";
import { networkInterfaces } from "node:os";
import type { Logger } from "../ports/logger.js";
import { PeerLookup, trustedUsers } from "./peer-lookup.js";
import type { Origin } from "./socket-process.js";
import { isLoopback } from "./web-safety.js";

/**
 * The client of a connection: on another machine, of another user, or a process of this user or of root.
 *
 * `gone`: the connection has ended, so the client cannot be identified. `unknown`: the system does not show its
 * sockets.
 */
export type Client = "remote" | "other_user" | "gone" | "unknown" | Origin;

/**
 * Identifies the clients of connections within this machine, from the kernel's socket table and /proc. Both exist only
 * on Linux. If the table is not readable, every client is `unknown`.
 */
export class Peers {
  readonly #trusted = trustedUsers() ?? new Set<number>();
  readonly #logger: Logger;
  /** Messages already logged. */
  readonly #logged = new Set<string>();
  readonly #lookup = new PeerLookup();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Identifies the client of a new connection. */
  async identify(socket: Socket): Promise<Client> {
    const address = socket.remoteAddress ?? "";
    if (!isLoopback(address) && !isOfThisMachine(address)) return "remote";
    const owner = await this.#lookup.findOwner(socket);
    if (owner === "hidden") {
      this.#warn("cannot identify local clients: /proc/net/tcp is not readable");
      return "unknown";
    }
    if (owner === "none") return "gone";
    if (!this.#trusted.has(owner.uid)) {
      this.#warn(
        `refused a process of another user of this machine (uid ${owner.uid}); server.required_headers lets it ` +
          "authenticate, server.allow_other_users admits all users",
      );
      return "other_user";
    }
    // Root's processes are not visible, and root does not need gantry.
    if (owner.uid !== process.getuid?.() && owner.uid !== process.geteuid?.()) return "outside";
    const { findOrigin } = await import("./socket-process.js");
    const origin = await findOrigin(owner.inode);
    if (origin === "command")
      this.#warn("refused a request of a command, an MCP server or a background process of gantry");
    if (origin !== "unseen") return origin;
    // The process that opened the connection may have ended meanwhile.
    const now = await this.#lookup.findOwner(socket);
    return typeof now === "object" && now.inode === owner.inode ? "unseen" : "gone";
  }

  /** Logs each message only once. */
  #warn(message: string): void {
    if (this.#logged.has(message)) return;
    this.#logged.add(message);
    this.#logger.warn(message);
  }
}

function isOfThisMachine(address: string): boolean {
  // A link-local address includes its interface.
  const plain = address.replace(/^::ffff:/i, "").replace(/%.*$/, "");
  return Object.values(networkInterfaces()).some((all) =>
    all?.some((networkAddress) => networkAddress.address === plain),
  );
}
