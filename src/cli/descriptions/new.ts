import type { CommandDescription } from "../command-description.js";

/** The templates of `gantry new`, each with the documentation page that contains its code. */
export const TEMPLATES = {
  transport: "writing-a-transport.md",
  driver: "writing-a-driver.md",
  provider: "writing-a-provider.md",
  tool: "plugins.md",
  hook: "hooks.md",
} as const;

export const newAdapter = {
  name: "new",
  summary: "create an adapter: a folder with working code, a test and a config",
  usage: [`${Object.keys(TEMPLATES).join("|")} NAME [options]`],
  flags: {
    dir: { type: "string", value: "PATH", description: "the folder (default: NAME, here)", completionKind: "folder" },
  },
  firstArguments: Object.keys(TEMPLATES),
  usageExitCode: 2,
} as const satisfies CommandDescription;
