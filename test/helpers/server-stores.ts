import { after, it } from "node:test";
import { NO_POSTGRES } from "./postgres.js";
import { createPostgresStore } from "./replicas.js";

const { STORES: selection = "" } = process.env;
const defaultStores = selection === "postgres" ? [] : ["sqlite"];
const usesPostgres = selection !== "";

/** Drivers that several servers may share. `STORES=postgres` selects PostgreSQL only, `STORES=all` adds it. */
export const SERVER_STORES: readonly string[] = [
  ...defaultStores,
  ...(usesPostgres && !NO_POSTGRES ? ["postgres"] : []),
];

// A selected store that is not available is reported as a skipped test.
if (usesPostgres && NO_POSTGRES) it("servers on postgres", { skip: NO_POSTGRES });

const cleanups: (() => Promise<void>)[] = [];
// Runs when all servers of the file have ended.
after(async () => {
  for (const cleanup of cleanups) await cleanup();
});

/**
 * Creates a store and resolves with its `session` section of a config. Files are in gantry's home; a schema is dropped
 * after the test file.
 */
export async function createSessionConfig(driver: string): Promise<Readonly<Record<string, unknown>>> {
  if (driver !== "postgres") return { driver };
  const { session, close } = await createPostgresStore();
  cleanups.push(close);
  return session;
}
