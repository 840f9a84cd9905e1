import type { Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { OtherEnds, trustedUsers } from "./peer-lookup.js";
import { isLoopback } from "./web-safety.js";

/** How long a server may take to accept a connection, in ms, and how often it is looked whether it has. */
const ACCEPTED_MS = 3_000;
const LOOK_MS = 20;

/**
 * Whose process has accepted a connection of ours: `elsewhere` is on another machine, `unknown` cannot be told, which is so
 * on all systems but Linux and through what changes addresses on the way.
 */
export async function whoseServer(socket: Socket): Promise<"own" | "elsewhere" | "unknown" | { uid: string }> {
  const address = socket.remoteAddress ?? "";
  const own = Object.values(networkInterfaces()).some((all) => all?.some((one) => one.address === address));
  if (!isLoopback(address) && !own) return "elsewhere";
  const trusted = trustedUsers();
  if (!trusted) return "unknown";
  const ends = new OtherEnds();
  for (let waited = 0; waited < ACCEPTED_MS; waited += LOOK_MS) {
    const owner = await ends.ownerOf(socket);
    if (owner === "hidden") return "unknown";
    if (owner !== "none") return trusted.has(owner.uid) ? "own" : { uid: String(owner.uid) };
    await pause(LOOK_MS);
  }
  return "unknown";
}

/** Whether a process of this user, or of root, is at the other end of a connection that came. */
export async function isOwnClient(socket: Socket): Promise<boolean> {
  const owner = await new OtherEnds().ownerOf(socket);
  return typeof owner === "object" && trustedUsers()?.has(owner.uid) === true;
}
