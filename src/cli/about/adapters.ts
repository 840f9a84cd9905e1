import type { About } from "../about.js";
import { JSON_FLAG, SERVING_FLAGS } from "./flags.js";

export const adapters = {
  name: "adapters",
  summary: "list what can be plugged in, and what the config selects",
  usage: ["[options]"],
  flags: { ...SERVING_FLAGS, ...JSON_FLAG },
  details: "Nothing is started. Exit code 1 where something that is selected cannot be used.",
} as const satisfies About;
