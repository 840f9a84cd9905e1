import type { ClientConnection } from "./client-connection.js";

/**
 * Returns an unused client to close, so that `address` can open a connection; undefined if no client can be closed.
 *
 * Of the unused clients of the address with the most connections, this is the least recently used one. If this address
 * is `address` or has no unused client, it is the least recently used replaceable client of any address.
 */
export function findUnusedClient(clients: readonly ClientConnection[], address: string): ClientConnection | undefined {
  const countByAddress = new Map([[address, 0]]);
  for (const client of clients) countByAddress.set(client.address, (countByAddress.get(client.address) ?? 0) + 1);
  const [busiestAddress] = [...countByAddress].reduce((busiestEntry, entry) =>
    entry[1] > busiestEntry[1] ? entry : busiestEntry,
  );
  const unusedClients = clients.filter(
    (client) => client.address === busiestAddress && busiestAddress !== address && !client.isInUse,
  );
  const candidates =
    unusedClients.length > 0 ? unusedClients : clients.filter((client) => client.replaceableSinceMs !== undefined);
  const [firstCandidate] = candidates;
  return (
    firstCandidate &&
    candidates.reduce(
      (leastRecentlyUsed, client) =>
        client.lastRequestAtMs < leastRecentlyUsed.lastRequestAtMs ? client : leastRecentlyUsed,
      firstCandidate,
    )
  );
}
