import { join, resolve } from "node:path";
import { defineAdapter } from "gantry/plugin";
import { lowdbJsonOptions } from "./options.js";
import { LowdbJsonDriver } from "./lowdb-json-driver.js";

export { LowdbJsonDriver } from "./lowdb-json-driver.js";
export type { LowdbJsonOptions } from "./options.js";

export default defineAdapter({
  kind: "session-driver",
  name: "lowdb-json-driver",
  schema: lowdbJsonOptions,
  create: ({ path, durability }, { home, configDir, logger }) =>
    new LowdbJsonDriver({ path: path === "" ? join(home, "sessions") : resolve(configDir, path), durability }, logger),
});
