import { MemoryDriver, MemoryStore, type SessionDriver } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { tempDir, type Hooks } from "./temp.js";

/** A store of one kind; each call of the function gives another driver on it, as another process would have. */
export type StoreKind = readonly [name: string, make: (hooks: Hooks) => Promise<() => SessionDriver>];

export const STORES: readonly StoreKind[] = [
  [
    "memory",
    () => {
      const store = new MemoryStore();
      return Promise.resolve(() => new MemoryDriver(store));
    },
  ],
  [
    "sqlite",
    async (hooks) => {
      const folder = await tempDir(hooks);
      return () => new SqliteDriver({ path: folder.at("sessions.db"), durability: "normal" });
    },
  ],
];
