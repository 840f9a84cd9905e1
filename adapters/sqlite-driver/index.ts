import { defineAdapter } from "gantry";
import { parseOptions } from "./options.js";
import { SqliteDriver } from "./sqlite-driver.js";

export { SqliteDriver } from "./sqlite-driver.js";
export type { SqliteOptions } from "./options.js";

export default defineAdapter({
  kind: "session-driver",
  name: "sqlite-driver",
  parse: parseOptions,
  use: SqliteDriver,
});
