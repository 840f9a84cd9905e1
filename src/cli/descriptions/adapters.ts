import type { CommandDescription } from "../command-description.js";
import { JSON_FLAG, SERVING_FLAGS } from "./flags.js";

export const adapters = {
  name: "adapters",
  summary: "list the available adapters, and those that the config selects",
  usage: ["[options]"],
  flags: { ...SERVING_FLAGS, ...JSON_FLAG },
} as const satisfies CommandDescription;
