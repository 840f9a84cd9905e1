import type { CommandDescription } from "../command-description.js";
import { CONFIG_FLAGS, FILE_VALUE, MODEL_FLAGS, SESSION_FLAGS } from "./flags.js";

export const run = {
  name: "run",
  summary: "run one prompt, for scripts and CI",
  usage: ["[options] PROMPT ...", "[options] < FILE"],
  flags: {
    ...SESSION_FLAGS,
    worktree: { type: "boolean", description: "work in a Git worktree of this folder, in a new session" },
    ...MODEL_FLAGS,
    file: { ...FILE_VALUE, isMultiple: true, description: "attach a file, may be repeated" },
    schema: { ...FILE_VALUE, description: "JSON Schema of the answer; stdout receives that JSON value" },
    budget: { type: "number", value: "USD", description: "end the run at this cost" },
    budgetTokens: { type: "number", value: "COUNT", description: "end the run at this number of tokens" },
    budgetSeconds: { type: "number", value: "SECONDS", description: "end the run after this time" },
    maxIterations: {
      type: "number",
      value: "COUNT",
      description: "maximum number of model requests (agent.max_iterations)",
    },
    json: { type: "boolean", description: "print events as JSON lines; the last one is the result" },
    quiet: { type: "boolean", description: "no progress on stderr" },
    ...CONFIG_FLAGS,
  },
  usageExitCode: 2,
} as const satisfies CommandDescription;
