import type { Connection } from "./connection.js";

/** What a server has left for connections: enough, hardly any, or nobody can tell because a pooler stands in between. */
export type ServerCapacity = "enough" | "scarce" | "pooled";

/** How often whoever has connections looks whether others get none, in ms: those cannot say so themselves. */
export const LOOK_MS = 2000;
/** How long a connection is kept, used or not, where there are too few for all, in ms. */
export const TURN_MS = 500;
/** How long it counts as scarce after it was found so, in ms. */
export const SCARCE_MS = 10_000;

const ASKED = `SELECT pg_backend_pid() AS pid, (SELECT sum(numbackends)::int FROM pg_stat_database) AS used,
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
    - coalesce(current_setting('reserved_connections', true)::int, 0) AS most`;

/** What the server has left. Rejects when the connection is lost. */
export async function readServerCapacity(link: Connection): Promise<ServerCapacity> {
  const [row] = await link.run<{ pid: number; used: number; most: number }>(ASKED, [], 5);
  // What a pooler says of a connection is its own.
  if (!row || row.pid !== link.backend) return "pooled";
  return row.most - row.used > Math.max(1, row.most / 20) ? "enough" : "scarce";
}
