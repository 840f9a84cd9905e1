import type { About } from "../about.js";
import { SERVING_FLAGS } from "./flags.js";

/** Imported by the entry point, so that starting an agent loads no other command description. */
export const serve = {
  name: "serve",
  summary: "serve the agent to programs, editors and browsers",
  usage: ["[options]"],
  flags: SERVING_FLAGS,
  details: "The agent works on the folder that it is started in. Its tools run without asking.",
} as const satisfies About;
