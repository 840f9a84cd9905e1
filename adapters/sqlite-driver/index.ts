import { join, resolve } from "node:path";
import { defineAdapter } from "gantry/plugin";
import { sqliteOptions } from "./options.js";
import { SqliteDriver } from "./sqlite-driver.js";

export { SqliteDriver } from "./sqlite-driver.js";
export type { SqliteOptions } from "./options.js";

export default defineAdapter({
  kind: "session-driver",
  name: "sqlite-driver",
  schema: sqliteOptions,
  create: ({ path, ...options }, { home, configDir, logger }) =>
    new SqliteDriver({ path: path === "" ? join(home, "sessions.db") : resolve(configDir, path), ...options }, logger),
});
