import { homedir } from "node:os";
import path from "node:path";
import { ConfigError } from "gantry";
import type { OptionsContext } from "gantry";
import { LOCAL_SERVERS } from "./local-servers.js";
import type { LocalServer } from "./local-servers.js";

export interface OfflineOptions {
  /** Said to the user among the ways to attach a model, for instance `Ollama (llama3.2)`. Default none. */
  hints?: readonly string[];
  /** Servers of this host to look for while models are listed. Default Ollama and LM Studio on their usual ports. */
  servers?: readonly LocalServer[];
  /** Named to the user as the place to configure a model. Default `~/.gantry/config.json`. */
  configFile?: string;
}

const KEYS = new Set(["provider", "name", "driver", "hints", "detect"]);

/** Options from config: `hints`, an array of strings, and `detect`, false to look for no local server. */
export function parseOptions(raw: Readonly<Record<string, unknown>>, context: OptionsContext): OfflineOptions {
  const fail = (key: string, expected: string): never => {
    throw new ConfigError(`${context.where}.${key}: expected ${expected}`);
  };
  for (const key of Object.keys(raw)) {
    // What a provider's entry says of itself is read by the composition.
    if (!KEYS.has(key))
      throw new ConfigError(`${context.where}.${key}: unknown key; expected one of ${[...KEYS].join(", ")}`);
  }
  const { hints = [], detect = true } = raw;
  if (!Array.isArray(hints) || !hints.every((hint) => typeof hint === "string")) fail("hints", "an array of strings");
  if (typeof detect !== "boolean") fail("detect", "true or false");
  return {
    hints: hints as string[],
    servers: detect === true ? LOCAL_SERVERS : [],
    configFile: fromHome(path.join(context.home, "config.json")),
  };
}

/** With `~` for the user's own folder, as people write it. */
function fromHome(file: string): string {
  const relative = path.relative(homedir(), file);
  return relative.startsWith("..") || path.isAbsolute(relative) ? file : `~/${relative.split(path.sep).join("/")}`;
}
