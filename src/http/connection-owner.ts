import type { Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { getTrustedUids, isLocalAddress, PeerLookup } from "./socket-table.js";
import { isLoopback } from "./web-safety.js";

/** Time for a server to accept a connection, in ms. */
const ACCEPT_TIMEOUT_MS = 3_000;
const POLL_INTERVAL_MS = 20;

/**
 * Finds the user whose process accepted an outgoing connection of this process:
 * - `own`: this user or root.
 * - `uid`: another user of this machine.
 * - `elsewhere`: the server is on another machine.
 * - `unknown`: the system does not show the owners of sockets, or addresses are translated on the way.
 */
export async function findServerOwner(socket: Socket): Promise<"own" | "elsewhere" | "unknown" | { uid: string }> {
  const address = socket.remoteAddress ?? "";
  if (!isLoopback(address) && !isLocalAddress(address)) return "elsewhere";
  const trustedUids = getTrustedUids();
  if (!trustedUids) return "unknown";
  const peerLookup = new PeerLookup();
  for (let waitedMs = 0; waitedMs < ACCEPT_TIMEOUT_MS; waitedMs += POLL_INTERVAL_MS) {
    const owner = await peerLookup.findOwner(socket);
    if (owner === "hidden") return "unknown";
    if (owner !== "none") return trustedUids.has(owner.uid) ? "own" : { uid: String(owner.uid) };
    await pause(POLL_INTERVAL_MS);
  }
  return "unknown";
}

/** Whether a process of this user, or of root, is the client of an incoming connection. */
export async function isTrustedClient(socket: Socket): Promise<boolean> {
  const owner = await new PeerLookup().findOwner(socket);
  return typeof owner === "object" && getTrustedUids()?.has(owner.uid) === true;
}
