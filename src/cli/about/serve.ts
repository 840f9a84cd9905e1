import type { About } from "../about.js";
import { SERVING_FLAGS } from "./flags.js";

/** Loaded with the program itself: whoever starts an agent waits for it. */
export const serve = {
  name: "serve",
  summary: "serve the agent to programs, editors and browsers",
  usage: ["[options]"],
  flags: SERVING_FLAGS,
  details: "The agent works on the folder that it is started in. Its tools run without asking.",
} as const satisfies About;
