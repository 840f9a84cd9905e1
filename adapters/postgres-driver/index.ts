import { defineAdapter } from "gantry/plugin";
import { postgresOptions } from "./options.js";
import { PostgresDriver } from "./postgres-driver.js";

export { PostgresDriver } from "./postgres-driver.js";
export type { PostgresOptions } from "./options.js";

export default defineAdapter({
  kind: "session-driver",
  name: "postgres-driver",
  schema: postgresOptions,
  create: (options, { logger }) => new PostgresDriver(options, logger),
});
