import type { About } from "../about.js";
import { CONFIG_FLAGS, MODEL_FLAGS, SESSION_FLAGS } from "./flags.js";

export const run = {
  name: "run",
  summary: "have one prompt done, for scripts and CI",
  usage: ["[options] PROMPT ...", "[options] < FILE"],
  flags: {
    ...SESSION_FLAGS,
    ...MODEL_FLAGS,
    file: {
      type: "string",
      isMultiple: true,
      value: "FILE",
      about: "attach a file, may be repeated",
      completes: "file",
    },
    schema: {
      type: "string",
      value: "FILE",
      about: "JSON Schema of the answer: stdout is that JSON value",
      completes: "file",
    },
    budget: { type: "number", value: "USD", about: "end it when it has cost so much" },
    budgetTokens: { type: "number", value: "COUNT", about: "end it when it has used so many tokens" },
    budgetSeconds: { type: "number", value: "SECONDS", about: "end it after so long" },
    maxIterations: { type: "number", value: "COUNT", about: "ask the model so often at most (agent.max_iterations)" },
    json: { type: "boolean", about: "one event a line, the last is the result" },
    quiet: { type: "boolean", about: "no progress on stderr" },
    ...CONFIG_FLAGS,
  },
  wrongUsage: 2,
  details: `What the model says is written to stdout as it comes, what it does to stderr. The prompt is the arguments, or
standard input, or both, the arguments first. A prompt that begins with - stands behind --.

Nobody is there to be asked: a tool call that needs leave is refused, unless permissions.unattended of the config says
otherwise, and a question of the model stays unanswered. Sessions whose mode is auto need no leave.

Exit codes
  0    done
  1    failed
  2    the command line is wrong, nothing was begun
  3    ended at a budget, or at the most iterations
  4    done, but a tool call was refused by permission
  130  interrupted (SIGINT; 143 by SIGTERM, 129 by SIGHUP, 141 when the reader of stdout left); what was said is stored`,
} as const satisfies About;
