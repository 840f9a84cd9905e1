import type { LookupAddress, LookupOptions } from "node:dns";
import type { LookupFunction, Socket } from "node:net";
import ipaddr from "ipaddr.js";

/** Whether an address belongs to the public internet: not loopback, private, link-local (cloud metadata), multicast or reserved. */
export function isPublicAddress(address: string): boolean {
  try {
    // An IPv6 address that stands for an IPv4 one is judged as that.
    const parsed = ipaddr.process(address.replace(/%.*$/, ""));
    const range = parsed.range();
    if (range === "rfc6052") return isPublicAddress(parsed.toByteArray().slice(12).join("."));
    return range === "unicast";
  } catch {
    return false;
  }
}

/** Resolves names, and gives only public addresses to connect to. */
export const lookupPublic: LookupFunction = (hostname, options, callback) => {
  void import("node:dns").then(({ lookup }) => {
    const all: LookupOptions & { all: true } = { ...options, all: true };
    lookup(hostname, all, (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => {
      if (error) return callback(error, "");
      const allowed = found.filter((one) => isPublicAddress(one.address));
      const [first] = allowed;
      if (!first) return callback(new NotPublicError(hostname), "");
      if (options.all) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  });
};

/** The last word, on the connection that was really made. */
export function isPublicPeer(socket: Socket): boolean {
  return socket.remoteAddress !== undefined && isPublicAddress(socket.remoteAddress);
}

export class NotPublicError extends Error {
  constructor(readonly host: string) {
    super(`${host} is not on the public internet`);
  }
}
