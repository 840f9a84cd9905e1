import type { CommandDescription } from "../command-description.js";
import { JSON_FLAG, SERVING_FLAGS } from "./flags.js";

export const doctor = {
  name: "doctor",
  summary: "check the set-up, and name a remedy for each problem",
  usage: ["[options]"],
  flags: { ...SERVING_FLAGS, ...JSON_FLAG },
} as const satisfies CommandDescription;
