import type { About } from "../about.js";
import { CONFIG_FLAGS, JSON_FLAG } from "./flags.js";

export const models = {
  name: "models",
  summary: "list the models that can be used",
  usage: ["[TEXT] [options]"],
  flags: { ...JSON_FLAG, ...CONFIG_FLAGS },
  details: "With a text: only those with it in their name. Prices are USD per million tokens.",
} as const satisfies About;
