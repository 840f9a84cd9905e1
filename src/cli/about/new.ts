import type { About } from "../about.js";

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
  summary: "begin an adapter: a folder with code, a test and a config that work",
  usage: [`${Object.keys(TEMPLATES).join("|")} NAME [options]`],
  flags: { dir: { type: "string", value: "PATH", about: "the folder (default: NAME, here)", completes: "folder" } },
  words: Object.keys(TEMPLATES),
  wrongUsage: 2,
  details: `NAME is the name of the package. The folder must be empty or not be there. The code is that of the pages in docs.`,
} as const satisfies About;
