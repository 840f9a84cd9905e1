import { MemoryDriver, MemoryStore, type SessionDriver } from "gantry";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import { PostgresDriver, type PostgresOptions } from "gantry/adapters/postgres-driver";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { NO_POSTGRES, postgresSchema } from "./postgres.js";
import { makeTempDir, type Hooks } from "./temp.js";

/** A store of one kind; each call of the function gives another driver on it, as another process would have. */
export type StoreKind = readonly [name: string, make: (hooks: Hooks) => Promise<() => SessionDriver>];

/** In a folder that goes when every driver on it is closed. */
function onDisk(open: (path: string) => SessionDriver): StoreKind[1] {
  return async (hooks) => {
    const folder = await makeTempDir();
    const drivers: SessionDriver[] = [];
    hooks.after(async () => {
      for (const driver of drivers) await driver.close();
      await folder.remove();
    });
    return () => {
      const driver = open(folder.at("store"));
      drivers.push(driver);
      return driver;
    };
  };
}

const memory: StoreKind = [
  "memory",
  () => {
    const store = new MemoryStore();
    return Promise.resolve(() => new MemoryDriver(store));
  },
];

/** Options of a PostgresDriver, as a config that names url and schema alone leads to, but for what is given. */
export function postgresOptions(
  place: { url: string; schema: string },
  others: Partial<PostgresOptions> = {},
): PostgresOptions {
  const pool = { size: 10, connectTimeout: 10, idleTimeout: 30, statementTimeout: 30 };
  return { ...place, durability: "full", pool, ...others };
}

/** Those that are quick enough for long conversations. */
export const QUICK_STORES: readonly StoreKind[] = [
  memory,
  ["sqlite", onDisk((path) => new SqliteDriver({ path, durability: "normal" }))],
];

export const STORES: readonly StoreKind[] = [
  ...QUICK_STORES,
  ["json", onDisk((path) => new LowdbJsonDriver({ path, durability: "normal" }))],
];
