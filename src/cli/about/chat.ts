import type { About } from "../about.js";
import { CONFIG_FLAGS, MODEL_FLAGS, SESSION_FLAGS } from "./flags.js";

export const chat = {
  name: "chat",
  summary: "talk to the agent in this terminal; gantry alone does so too",
  usage: ["[options]"],
  flags: {
    url: { type: "string", value: "URL", about: "a served agent (default: one of its own, in this folder)" },
    header: {
      type: "string",
      isMultiple: true,
      value: "NAME:VALUE",
      about: "with --url: what requests carry (default: server.required_headers, for this machine)",
    },
    anyUser: {
      type: "boolean",
      about: "with --url: also where another user's process listens, or it cannot be told whose",
    },
    ...SESSION_FLAGS,
    ...MODEL_FLAGS,
    ...CONFIG_FLAGS,
  },
  details: `  The agent is one of its own, on the folder where it is started, and ends with it; with --url it is a served one, whose
  runs go on. Prompts of several lines, files named with @, and commands like /model are told by /help.`,
} as const satisfies About;
