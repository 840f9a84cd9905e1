import type { CommandDescription } from "../command-description.js";
import { SERVING_FLAGS } from "./flags.js";

/** Imported by the entry point, so that starting an agent loads no other command description. */
export const serve = {
  name: "serve",
  summary: "start a server for programs, editors and browsers",
  usage: ["[options]"],
  flags: SERVING_FLAGS,
} as const satisfies CommandDescription;
