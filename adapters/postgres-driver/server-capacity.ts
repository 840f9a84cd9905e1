import type { Connection } from "./connection.js";

/** Free connections of a server: enough, few (`scarce`), or unknown because a pooler is in between (`pooled`). */
export type ServerCapacity = "enough" | "scarce" | "pooled";

/** Interval at which a process with a connection checks whether other processes can get a connection. */
export const CAPACITY_CHECK_INTERVAL_MS = 2000;
/** Time for which a process keeps a used or unused connection while connections are scarce. */
export const MAX_HOLD_MS = 500;
/** Time for which the capacity counts as scarce after the last check with this result. */
export const SCARCE_PERIOD_MS = 10_000;

const CHECK_TIMEOUT_SECONDS = 5;

const CAPACITY_QUERY = `SELECT pg_backend_pid() AS pid, (SELECT sum(numbackends)::int FROM pg_stat_database) AS used,
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
    - coalesce(current_setting('reserved_connections', true)::int, 0) AS most`;

/** Reads the free capacity of the server. Rejects if the connection is lost. */
export async function readServerCapacity(connection: Connection): Promise<ServerCapacity> {
  const [row] = await connection.run<{ pid: number; used: number; most: number }>(
    CAPACITY_QUERY,
    [],
    CHECK_TIMEOUT_SECONDS,
  );
  // A pooler reports its own process id for a connection.
  if (!row || row.pid !== connection.backendProcessId) return "pooled";
  // The reserve is 5 % of the connections, and at least one connection.
  return row.most - row.used > Math.max(1, row.most / 20) ? "enough" : "scarce";
}
