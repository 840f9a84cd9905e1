import { it } from "node:test";
import { MemoryDriver } from "gantry";
import { MemoryDocuments, type SessionDriver } from "gantry/plugin";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import { PostgresDriver, type PostgresOptions } from "gantry/adapters/postgres-driver";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { NO_POSTGRES, createPostgresSchema } from "./postgres.js";
import { makeTempDir, type Hooks } from "./temp-dir.js";

/** A kind of store. Each call of the function that `make` returns creates another driver on the same store. */
export type StoreKind = readonly [name: string, make: (hooks: Hooks) => Promise<() => SessionDriver>];

/** A store in a folder, which is removed when every driver on it is closed. */
function createFolderStore(createDriver: (path: string) => SessionDriver): StoreKind[1] {
  return async (hooks) => {
    const folder = await makeTempDir();
    const drivers: SessionDriver[] = [];
    hooks.after(async () => {
      for (const driver of drivers) await driver.close();
      await folder.remove();
    });
    return () => {
      const driver = createDriver(folder.at("store"));
      drivers.push(driver);
      return driver;
    };
  };
}

const memory: StoreKind = [
  "memory",
  () => {
    const store = new MemoryDocuments();
    return Promise.resolve(() => new MemoryDriver(store));
  },
];

/** Options of a PostgresDriver as for a config with only url and schema, except for the given overrides. */
export function postgresOptions(
  location: { url: string; schema: string },
  overrides: Partial<PostgresOptions> = {},
): PostgresOptions {
  return { ...location, durability: "full", ...overrides };
}

/** A time limit in seconds for tests that do not test the limit. A loaded machine can take many seconds to connect. */
export const SLOW_MACHINE_SECONDS = 120;

/** A store in a schema, which is dropped when every driver on it is closed. */
const postgres: StoreKind = [
  "postgres",
  async (hooks) => {
    const cleanups: (() => Promise<void> | void)[] = [];
    const location = await createPostgresSchema({ after: (cleanup) => void cleanups.push(cleanup) });
    const drivers: SessionDriver[] = [];
    hooks.after(async () => {
      for (const driver of drivers) await driver.close();
      for (const cleanup of cleanups) await cleanup();
    });
    return () => {
      const pool = { connectTimeout: SLOW_MACHINE_SECONDS };
      const driver = new PostgresDriver(postgresOptions(location, { durability: "normal", pool }));
      drivers.push(driver);
      return driver;
    };
  },
];

const sqlite: StoreKind = ["sqlite", createFolderStore((path) => new SqliteDriver({ path, durability: "normal" }))];
const json: StoreKind = ["json", createFolderStore((path) => new LowdbJsonDriver({ path, durability: "normal" }))];

const { STORES: selection = "" } = process.env;
const stores: readonly StoreKind[] = [memory, sqlite, ...(NO_POSTGRES ? [] : [postgres]), json];

/**
 * Stores for driver tests. `STORES=postgres` selects only PostgreSQL, `STORES=all` all. Default: all except PostgreSQL.
 */
export const ALL_STORES: readonly StoreKind[] =
  selection === "all" ? stores : stores.filter((kind) => (kind === postgres) === (selection === "postgres"));

/**
 * Stores for tests of modules above the drivers; the driver kit proves that drivers are equivalent. Default: SQLite
 * only.
 */
export const STORES: readonly StoreKind[] =
  selection === "" ? [sqlite] : selection === "postgres" ? ALL_STORES : stores;

/** Stores for long conversations: excludes the JSON driver, which is slow with many messages. */
export const QUICK_STORES: readonly StoreKind[] = STORES.filter((kind) => kind !== json);

export { memory as memoryStore, sqlite as sqliteStore };

// A selected store that is not available is reported as a skipped test.
if (selection !== "" && NO_POSTGRES) it("on postgres", { skip: NO_POSTGRES });
