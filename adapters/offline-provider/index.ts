import { defineAdapter } from "gantry";
import { OfflineProvider } from "./offline-provider.js";
import { parseOptions } from "./options.js";

export { OfflineProvider } from "./offline-provider.js";
export type { OfflineOptions } from "./options.js";
export type { LocalServer } from "./local-servers.js";

export default defineAdapter({
  kind: "model-provider",
  name: "offline-provider",
  parse: parseOptions,
  use: OfflineProvider,
});
