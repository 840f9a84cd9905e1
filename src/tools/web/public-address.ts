import type { LookupAddress, LookupOptions } from "node:dns";
import type { LookupFunction, Socket } from "node:net";
import ipaddr from "ipaddr.js";

/**
 * Whether an address is on the public internet: not loopback, private, link-local (cloud metadata), multicast or
 * reserved. Invalid addresses are not.
 */
export function isPublicAddress(address: string): boolean {
  try {
    // An IPv6 address that maps an IPv4 address is checked as IPv4.
    const parsed = ipaddr.process(address.replace(/%.*$/, ""));
    const range = parsed.range();
    if (range === "rfc6052") return isPublicAddress(parsed.toByteArray().slice(12).join("."));
    return range === "unicast";
  } catch {
    return false;
  }
}

/** DNS lookup that returns only public addresses. Fails with `NotPublicError` if there is none. */
export const lookupPublic: LookupFunction = (hostname, options, callback) => {
  void import("node:dns").then(({ lookup }) => {
    const all: LookupOptions & { all: true } = { ...options, all: true };
    lookup(hostname, all, (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => {
      if (error) return callback(error, "");
      const allowed = addresses.filter((entry) => isPublicAddress(entry.address));
      const [first] = allowed;
      if (!first) return callback(new NotPublicError(hostname), "");
      if (options.all) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  });
};

/** Whether the peer of a connection is public. The final check, on the actual connection. */
export function isPublicPeer(socket: Socket): boolean {
  return socket.remoteAddress !== undefined && isPublicAddress(socket.remoteAddress);
}

export class NotPublicError extends Error {
  constructor(readonly host: string) {
    super(`${host} is not on the public internet`);
  }
}
