import type { CommandDescription } from "../command-description.js";

export const init = {
  name: "init",
  summary: "connect a language model: asks, checks the key, and writes the config",
  usage: ["[options]"],
  flags: {
    provider: { type: "string", value: "NAME", description: "a known provider, or a name for --base-url" },
    baseUrl: { type: "string", value: "URL", description: "address of the provider's API, for your own server" },
    keyEnv: { type: "string", value: "NAME", description: "environment variable of the key; the config names it" },
    model: { type: "string", value: "MODEL", description: "preferred model (model.model)" },
    yes: { type: "boolean", description: "ask nothing; write the config even if the provider cannot be reached" },
  },
} as const satisfies CommandDescription;
