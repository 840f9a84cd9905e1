import { cutMiddle, MODEL_BYTES } from "../../base/cut-text.js";
import { printable } from "../../base/printable.js";
import { hasCode } from "../../ports/errors.js";
import type { Subagent, SubagentResult } from "../../ports/spawn.js";
import type { Tool, ToolContext, ToolOutput } from "../../ports/tool.js";
import {
  asNumber,
  defineArguments,
  field,
  flag,
  integer,
  list,
  object,
  optional,
  readerSchema,
  text,
} from "../arguments.js";
import { defineTool } from "../define-tool.js";

/** Default maximum of model calls of a subagent. */
export const DEFAULT_SUBAGENT_ITERATIONS = 50;

const MAX_TOOLS = 100;

const usd = field(
  readerSchema("a number above 0", (value) => {
    const number = asNumber(value);
    return typeof number === "number" && number > 0 && number < Infinity ? number : undefined;
  }),
  { schema: { type: "number", description: "US dollars.", exclusiveMinimum: 0 } },
);

const schema = defineArguments({
  description: text("The task in three to six words, for the user.", { minLength: 1 }),
  prompt: text(
    "What it is to do and all that it must know for it: the goal, paths, what is settled, which files it may change, what its answer must hold.",
    { minLength: 1, aliases: ["message", "task"] },
  ),
  tools: optional(
    list("Names of the tools that it may use, of those that you have; left out: all.", text("A name."), {
      max: MAX_TOOLS,
    }),
  ),
  read_only: optional(flag("Whether it may only look, and change nothing; default false.")),
  budget: optional(
    object({
      usd: optional(usd),
      tokens: optional(integer("Prompt and completion tokens.", { min: 1 })),
      seconds: optional(integer("Seconds.", { min: 1 })),
    }),
  ),
});

const oneLine = (words: string) => printable(words.trim().replace(/\s+/g, " "));

/** Creates the tool `task`, which delegates a task to a subagent with its own context. */
export function taskTool({ maxIterations = DEFAULT_SUBAGENT_ITERATIONS }: { maxIterations?: number } = {}): Tool {
  return defineTool({
    name: "task",
    description:
      "Give a piece of the work to a helper: an agent with its own context, on the same files and with your tools, that sees " +
      "nothing of this conversation. For what takes many calls of which you need the outcome alone; a call or two make " +
      "yourself. Several in one answer run beside each other. Its last answer is all that you get, and may be wrong.",
    schema,
    // The tool itself changes nothing. Each tool call of the subagent is checked like a call of this run.
    kind: "think",
    parallel: true,
    describe: ({ description, read_only }) => `${read_only === true ? "Look" : "Task"}: ${oneLine(description)}`,
    run: async ({ description, prompt, tools, read_only = false, budget = {} }, context) => {
      const helper = await trySpawn(context, {
        message: prompt,
        title: oneLine(description),
        ...(tools && { tools }),
        readOnly: read_only,
        budget,
        maxIterations,
      });
      if ("text" in helper) return helper;
      try {
        return formatResult(await helper.result, helper);
      } catch (error) {
        if (context.signal.aborted) throw error;
        return { text: `${describeFailure(error)}\n\n${sessionReference(helper)}`, failed: true };
      }
    },
  });
}

/** Starts a subagent. Returns a failed tool output if there are too many runs. */
async function trySpawn(
  context: ToolContext,
  input: Parameters<ToolContext["spawn"]>[0],
): Promise<Subagent | ToolOutput> {
  try {
    return await context.spawn(input);
  } catch (error) {
    if (!hasCode(error, "too_many_runs")) throw error;
    const text = "No helper could begin: as many runs as there may be are under way. Do it yourself, or later.";
    return { text, failed: true };
  }
}

function formatResult({ output, endedBy, iterations }: SubagentResult, helper: Subagent): ToolOutput {
  const answer = output.trim() === "" ? "(It said nothing.)" : cutMiddle(output.trim(), MODEL_BYTES);
  const limits = {
    max_iterations: `its ${iterations} model calls were over`,
    budget: "its budget was spent",
    model: "",
  };
  const limit = limits[endedBy];
  const end = limit === "" ? "" : `\n\n[The helper did not come to its end: ${limit}.]`;
  return { text: `${answer}${end}\n\n${sessionReference(helper)}`, failed: endedBy !== "model" };
}

function describeFailure(error: unknown): string {
  if (hasCode(error, "run_cancelled")) return "The helper was cancelled by a person. Ask what to do instead.";
  if (hasCode(error, "session_not_found")) return "The helper's session was deleted while it worked.";
  return `The helper failed: ${error instanceof Error ? error.message : String(error)}`;
}

function sessionReference({ sessionId }: Subagent): string {
  return `[helper session ${sessionId}]`;
}
