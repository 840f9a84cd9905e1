import type { About } from "../about.js";
import { CONFIG_FLAGS } from "./flags.js";

export const webConsole = {
  name: "console",
  summary: "open the console of a served agent in the browser",
  usage: ["[options]"],
  flags: {
    url: { type: "string", value: "URL", about: "the server (default: where the config says that it listens)" },
    ...CONFIG_FLAGS,
  },
} as const satisfies About;
