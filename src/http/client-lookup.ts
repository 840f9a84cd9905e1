import type { Socket } from "node:net";
import { networkInterfaces } from "node:os";
import type { Logger } from "../ports/logger.js";
import { PeerLookup, getTrustedUids } from "./peer-lookup.js";
import type { ProcessOrigin } from "./socket-process.js";
import { isLoopback } from "./web-safety.js";

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
      this.#warnOnce(
        `refused a process of another user of this machine (uid ${owner.uid}); server.required_headers lets it ` +
          "authenticate, server.allow_other_users admits all users",
      );
      return "other_user";
    }
    // Open files of root's processes are not visible. Root can run commands without gantry, so no check is needed.
    if (owner.uid !== process.getuid?.() && owner.uid !== process.geteuid?.()) return "outside";
    const { findProcessOrigin } = await import("./socket-process.js");
    const origin = await findProcessOrigin(owner.inode);
    if (origin === "command")
      this.#warnOnce("refused a request of a command, an MCP server or a background process of gantry");
    if (origin !== "unseen") return origin;
    // The process that opened the connection may have ended meanwhile.
    const currentOwner = await this.#peerLookup.findOwner(socket);
    return typeof currentOwner === "object" && currentOwner.inode === owner.inode ? "unseen" : "gone";
  }

  #warnOnce(message: string): void {
    if (this.#loggedMessages.has(message)) return;
    this.#loggedMessages.add(message);
    this.#logger.warn(message);
  }
}

function isLocalAddress(address: string): boolean {
  // A link-local address includes its interface.
  const bareAddress = address.replace(/^::ffff:/i, "").replace(/%.*$/, "");
  return Object.values(networkInterfaces()).some((interfaceAddresses) =>
    interfaceAddresses?.some((networkAddress) => networkAddress.address === bareAddress),
  );
}
