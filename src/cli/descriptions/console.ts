import type { CommandDescription } from "../command-description.js";
import { CONFIG_FLAGS } from "./flags.js";

export const webConsole = {
  name: "console",
  summary: "open the web console of a running agent in the browser",
  usage: ["[options]"],
  flags: {
    url: {
      type: "string",
      value: "URL",
      description: "address of the server (default: from server.host and server.port)",
    },
    host: { type: "string", value: "HOST", description: "its address (server.host, default 127.0.0.1)" },
    port: { type: "string", value: "PORT", description: "its port (server.port, default 8080)" },
    anyUser: { type: "boolean", description: "also connect to a server of another or unknown user" },
    config: CONFIG_FLAGS.config,
  },
} as const satisfies CommandDescription;
