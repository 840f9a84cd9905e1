import type { LookupAddress, LookupOptions } from "node:dns";
import type { LookupFunction, Socket } from "node:net";
import ipaddr from "ipaddr.js";

/**
 * Whether an address is on the public internet: not loopback, private, link-local (cloud metadata), multicast or
 * reserved. False for an invalid address.
 */
export function isPublicAddress(address: string): boolean {
  try {
    // An IPv6 address that maps an IPv4 address is checked as IPv4.
    const parsedAddress = ipaddr.process(address.replace(/%.*$/, ""));
    const range = parsedAddress.range();
    // NAT64: the last four bytes are an IPv4 address.
    if (range === "rfc6052") return isPublicAddress(parsedAddress.toByteArray().slice(12).join("."));
    return range === "unicast";
  } catch {
    return false;
  }
}

/** DNS lookup that returns only public addresses. Fails with `NotPublicError` if there is none. */
export const lookupPublicAddress: LookupFunction = (hostname, options, callback) => {
  void import("node:dns").then(({ lookup }) => {
    const lookupOptions: LookupOptions & { all: true } = { ...options, all: true };
    lookup(hostname, lookupOptions, (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => {
      if (error) return callback(error, "");
      const publicAddresses = addresses.filter((entry) => isPublicAddress(entry.address));
      const [firstAddress] = publicAddresses;
      if (!firstAddress) return callback(new NotPublicError(hostname), "");
      if (options.all) callback(null, publicAddresses);
      else callback(null, firstAddress.address, firstAddress.family);
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
