import { join, resolve } from "node:path";
import { ConfigError } from "gantry";
import type { OptionsContext } from "gantry";

export interface LowdbJsonOptions {
  /** Absolute path of the folder with one JSON file per session. All else is in the folder `<path>.d` beside it. */
  path: string;
  /** `full`: what was answered survives a power cut. `normal`: it survives a crash of the process. Default `full`. */
  durability?: "full" | "normal";
}

/** Options from config: `path` (default `<home>/sessions`) and `durability` (default `full`). */
export function parseOptions(raw: Readonly<Record<string, unknown>>, context: OptionsContext): LowdbJsonOptions {
  for (const key of Object.keys(raw)) {
    if (key !== "driver" && key !== "path" && key !== "durability") {
      throw new ConfigError(`${context.where}.${key}: unknown key; expected one of driver, path, durability`);
    }
  }
  const { path = "", durability = "full" } = raw;
  if (typeof path !== "string" || path.includes("\0")) {
    throw new ConfigError(`${context.where}.path: expected a path as a string`);
  }
  if (durability !== "full" && durability !== "normal") {
    throw new ConfigError(`${context.where}.durability: expected "full" or "normal"`);
  }
  return { path: path === "" ? join(context.home, "sessions") : resolve(context.configDir, path), durability };
}
