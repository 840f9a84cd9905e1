import type { CommandDescription } from "../command-description.js";
import { adapters } from "./adapters.js";

/** Has the flags of `adapters`: both read what a server would use. */
export const doctor = {
  ...adapters,
  name: "doctor",
  summary: "check the set-up",
} as const satisfies CommandDescription;
