import type { About } from "../about.js";
import { CONFIG_FLAGS, MODEL_FLAGS, SESSION_FLAGS } from "./flags.js";

export const chat = {
  name: "chat",
  summary: "talk to the agent in this terminal (so does gantry alone)",
  usage: ["[options]"],
  flags: {
    url: { type: "string", value: "URL", about: "a served agent (default: one of its own, in this folder)" },
    ...SESSION_FLAGS,
    ...MODEL_FLAGS,
    ...CONFIG_FLAGS,
  },
} as const satisfies About;
