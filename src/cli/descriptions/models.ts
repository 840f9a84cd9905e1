import type { CommandDescription } from "../command-description.js";
import { CONFIG_FLAGS, JSON_FLAG } from "./flags.js";

export const models = {
  name: "models",
  summary: "list the available models",
  usage: ["[TEXT] [options]"],
  flags: { ...JSON_FLAG, ...CONFIG_FLAGS },
} as const satisfies CommandDescription;
