import { connect, isIP, type LookupFunction, type Socket } from "node:net";
import { isLocalAddress } from "../../../http/socket-table.js";
import { isPublicAddress, isPublicPeer, lookupPublicAddress, NotPublicError } from "../../web/public-address.js";
import type { HostTarget } from "../../../http/host-rules.js";

/** Maximum time until a connection is open, in ms. Includes the DNS lookup. */
const CONNECT_TIMEOUT_MS = 30_000;

/**
 * Connects to a host of the public internet. The address that the lookup returns is the address of the connection, so
 * that a second lookup cannot return another one.
 *
 * Undefined for private, loopback and link-local addresses and those of this machine. Otherwise rejects with the system's
 * error. `lookup` must return only public addresses.
 */
export async function connectPublic(
  { host, port }: HostTarget,
  lookup: LookupFunction = lookupPublicAddress,
): Promise<Socket | undefined> {
  // An address is connected to without a lookup.
  if (isIP(host) !== 0 && !isPublicAddress(host)) return undefined;
  const socket = connect({ host, port, lookup, allowHalfOpen: true });
  const timer = setTimeout(
    () => socket.destroy(new Error(`no connection within ${CONNECT_TIMEOUT_MS} ms`)),
    CONNECT_TIMEOUT_MS,
  );
  try {
    await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  } catch (error) {
    if (error instanceof NotPublicError) return undefined;
    throw error;
  } finally {
    clearTimeout(timer);
  }
  if (isPublicPeer(socket) && !isLocalAddress(socket.remoteAddress ?? "")) return socket;
  socket.destroy();
  return undefined;
}
