import type { CommandDescription } from "../command-description.js";
import { CONFIG_FLAGS, MODEL_FLAGS, SESSION_FLAGS } from "./flags.js";

export const chat = {
  name: "chat",
  summary: "chat with the agent in this terminal (the default command)",
  usage: ["[options]"],
  flags: {
    url: {
      type: "string",
      value: "URL",
      description: "address of a running agent (default: start one in this folder)",
    },
    header: {
      type: "string",
      isMultiple: true,
      value: "NAME:VALUE",
      description: "with --url: a header of each request (default: server.required_headers, on this machine)",
    },
    anyUser: {
      type: "boolean",
      description: "with --url: also connect to a server of another or unknown user",
    },
    ...SESSION_FLAGS,
    worktree: { type: "boolean", description: "work in a Git worktree of this folder, in a new session" },
    ...MODEL_FLAGS,
    ...CONFIG_FLAGS,
  },
} as const satisfies CommandDescription;
