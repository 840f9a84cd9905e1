import type { ClientConnection } from "./client-connection.js";

/**
 * Returns the client to close, so that `address` can open a connection. Undefined if no client can be closed.
 *
 * If the address with the most connections is not `address`, the candidates are its unused clients. Without such
 * clients, the candidates are the replaceable clients of all addresses. The least recently used candidate is returned.
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
