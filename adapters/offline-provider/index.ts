import { join } from "node:path";
import { defineAdapter } from "gantry/plugin";
import { OfflineProvider } from "./offline-provider.js";
import { abbreviateHome, offlineOptions } from "./options.js";

export { OfflineProvider } from "./offline-provider.js";
export type { OfflineOptions } from "./options.js";
export type { LocalServer } from "./local-servers.js";

export default defineAdapter({
  kind: "model-provider",
  name: "offline-provider",
  schema: offlineOptions,
  create: ({ hints, detect }, { home }) =>
    new OfflineProvider({
      hints,
      servers: detect ? undefined : [],
      configFile: abbreviateHome(join(home, "config.json")),
    }),
});
