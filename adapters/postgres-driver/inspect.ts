import { StoreError } from "gantry";
import { parseAddress } from "./address.js";
import { Connection } from "./connection.js";
import type { Query } from "./connections.js";
import { describeError } from "./errors.js";
import { applyDefaults, type PostgresOptions } from "./options.js";
import { createSqlResolver, readStatus } from "./schema.js";

/** Time limits of the connection and of each statement, in seconds. */
const CONNECT_TIMEOUT_S = 10;
const STATEMENT_TIMEOUT_S = 15;

interface PostgresRecords {
  readonly bytes: number;
  readonly sessions: number;
  /** Leases that expired, because their process did not release them. */
  readonly orphanedLeases: number;
  /** Runs that no process continues. */
  readonly interruptedRuns: number;
}

/** State of a store, read without a change to it. */
export interface PostgresHealth {
  /** `host:port/database`; safe to show. */
  readonly location: string;
  /** Time of a round trip, in ms. */
  readonly latencyMs: number;
  /** Undefined: the schema or its tables do not exist yet. */
  readonly records: PostgresRecords | undefined;
  /** Whether the role may create the missing schema or tables. */
  readonly canCreate: boolean;
}

/**
 * Inspects a store. Rejects with `ConfigError` for an invalid URL, and with `StoreError` for a server that cannot be
 * used or for a newer version. The messages do not contain the URL.
 */
export async function inspectStore(options: PostgresOptions, signal: AbortSignal): Promise<PostgresHealth> {
  const { url, schema } = applyDefaults(options);
  const address = parseAddress(url);
  const { location } = address;
  let connection: Connection | undefined;
  try {
    connection = await Connection.open(address, CONNECT_TIMEOUT_S * 1_000, signal);
    const run = createQuery(connection);
    const startedAtMs = performance.now();
    await run("SELECT 1", []);
    const latencyMs = performance.now() - startedAtMs;
    const { hasSchema, version } = await readStatus(run, schema);
    if (version > 0) return { location, latencyMs, canCreate: true, records: await countRecords(run, schema) };
    const [privilege] = await run<{ granted: boolean }>(
      hasSchema
        ? "SELECT pg_catalog.has_schema_privilege($1, 'CREATE') AS granted"
        : "SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE') AS granted",
      hasSchema ? [schema] : [],
    );
    return { location, latencyMs, canCreate: privilege?.granted === true, records: undefined };
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw new StoreError(`session store ${location}: ${describeError(error).reason}`, { cause: error });
  } finally {
    await connection?.end();
  }
}

function createQuery(connection: Connection): Query {
  return (text, values = []) => connection.run(text, values, STATEMENT_TIMEOUT_S);
}

async function countRecords(query: Query, schema: string): Promise<PostgresRecords> {
  const resolveSql = createSqlResolver(schema);
  const isLeased = "c.fence IS NOT NULL AND c.expires > extract(epoch FROM clock_timestamp()) * 1000";
  const [row] = await query<Record<keyof PostgresRecords, string>>(
    resolveSql(`SELECT
      (SELECT coalesce(sum(pg_catalog.pg_total_relation_size(t.oid)), 0) FROM pg_catalog.pg_class t
        JOIN pg_catalog.pg_namespace s ON s.oid = t.relnamespace WHERE s.nspname = $1 AND t.relkind = 'r') AS "bytes",
      (SELECT coalesce(sum(n), 0) FROM @.totals WHERE scope = '') AS "sessions",
      (SELECT count(*) FROM @.chains c WHERE c.fence IS NOT NULL AND NOT (${isLeased})) AS "orphanedLeases",
      (SELECT count(*) FROM @.runs r JOIN @.chains c USING (chain)
        WHERE r.state IN ('running', 'waiting') AND NOT (${isLeased})) AS "interruptedRuns"`),
    [schema],
  );
  return {
    bytes: Number(row?.bytes ?? 0),
    sessions: Number(row?.sessions ?? 0),
    orphanedLeases: Number(row?.orphanedLeases ?? 0),
    interruptedRuns: Number(row?.interruptedRuns ?? 0),
  };
}
