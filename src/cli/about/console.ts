import type { About } from "../about.js";
import { CONFIG_FLAGS } from "./flags.js";

export const webConsole = {
  name: "console",
  summary: "open the console of a served agent in the browser",
  usage: ["[options]"],
  flags: {
    url: { type: "string", value: "URL", about: "the server (default: where the config says that it listens)" },
    host: { type: "string", value: "HOST", about: "its address (server.host, default 127.0.0.1)" },
    port: { type: "string", value: "PORT", about: "its port (server.port, default 8080)" },
    anyUser: { type: "boolean", about: "also where another user's process listens, or it cannot be told whose" },
    config: CONFIG_FLAGS.config,
  },
  details: `Where server.required_headers are asked for, the address holds a code that works once and for a minute.
Without a browser the address is printed.`,
} as const satisfies About;
