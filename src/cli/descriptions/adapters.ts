import type { CommandDescription } from "../command-description.js";
import { JSON_FLAG } from "./flags.js";
import { serve } from "./serve.js";

export const adapters = {
  ...serve,
  name: "adapters",
  summary: "list the available adapters, and those that the config selects",
  flags: { ...serve.flags, ...JSON_FLAG },
} as const satisfies CommandDescription;
