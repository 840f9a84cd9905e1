import { defineAdapter } from "gantry";
import { LowdbJsonDriver } from "./lowdb-json-driver.js";
import { parseOptions } from "./options.js";

export { LowdbJsonDriver } from "./lowdb-json-driver.js";
export type { LowdbJsonOptions } from "./options.js";

export default defineAdapter({
  kind: "session-driver",
  name: "lowdb-json-driver",
  parse: parseOptions,
  use: LowdbJsonDriver,
});
