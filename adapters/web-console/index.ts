import { defineAdapter } from "gantry/plugin";
import { webConsoleOptions } from "./options.js";
import { WebConsoleTransport } from "./web-console-transport.js";

export type { WebConsoleOptions } from "./options.js";
export { WebConsoleTransport } from "./web-console-transport.js";

export default defineAdapter({
  kind: "transport",
  name: "web-console",
  schema: webConsoleOptions,
  create: (options, { http, logger }) => new WebConsoleTransport(options, http, logger),
});
