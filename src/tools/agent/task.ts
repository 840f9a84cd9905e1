import { cutMiddle, MAX_MODEL_TEXT_BYTES } from "../../base/cut-text.js";
import { toPrintable } from "../../base/printable.js";
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
  { schema: { type: "number" } },
);

const schema = defineArguments({
  description: text("A few words for the user", { minLength: 1 }),
  prompt: text("Everything it needs: goal, paths, decisions, what it may change, what to answer", {
    minLength: 1,
    aliases: ["message", "task"],
  }),
  tools: optional(list("", text(), { max: MAX_TOOLS })),
  read_only: optional(flag()),
  budget: optional(
    object({
      usd: optional(usd),
      tokens: optional(integer("", { min: 1 })),
      seconds: optional(integer("", { min: 1 })),
    }),
  ),
});

const toOneLine = (words: string) => toPrintable(words.trim().replace(/\s+/g, " "));

/** Creates the tool `task`, which delegates a task to a subagent with its own context. */
export function taskTool({ maxIterations = DEFAULT_SUBAGENT_ITERATIONS }: { maxIterations?: number } = {}): Tool {
  return defineTool({
    name: "task",
    description:
      "Delegate a self-contained task to a subagent with the same files, which does not see this conversation. " +
      "Several in one answer run in parallel. You receive only the final answer.",
    schema,
    // The tool itself changes nothing. Each tool call of the subagent is checked like a call of this run.
    kind: "think",
    parallel: true,
    describe: ({ description, read_only }) =>
      `${read_only === true ? "Read-only task" : "Task"}: ${toOneLine(description)}`,
    run: async ({ description, prompt, tools, read_only = false, budget = {} }, context) => {
      const subagent = await trySpawn(context, {
        message: prompt,
        title: toOneLine(description),
        ...(tools && { tools }),
        readOnly: read_only,
        budget,
        maxIterations,
      });
      if ("text" in subagent) return subagent;
      try {
        return formatResult(await subagent.result, subagent);
      } catch (error) {
        if (context.signal.aborted) throw error;
        return { text: `${describeFailure(error)}\n\n${sessionReference(subagent)}`, failed: true };
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
    const text = "No subagent could start: the maximum number of runs is active. Do the task yourself, or retry later.";
    return { text, failed: true };
  }
}

function formatResult({ output, endedBy, iterations }: SubagentResult, subagent: Subagent): ToolOutput {
  const answer =
    output.trim() === "" ? "(The subagent gave no answer.)" : cutMiddle(output.trim(), MAX_MODEL_TEXT_BYTES);
  const limits = {
    max_iterations: `it used its ${iterations} model calls`,
    budget: "it used its budget",
    model: "",
  };
  const limit = limits[endedBy];
  const limitNote = limit === "" ? "" : `\n\n[The subagent did not finish: ${limit}.]`;
  return { text: `${answer}${limitNote}\n\n${sessionReference(subagent)}`, failed: endedBy !== "model" };
}

function describeFailure(error: unknown): string {
  if (hasCode(error, "run_cancelled")) return "A user cancelled the subagent. Ask what to do instead.";
  if (hasCode(error, "session_not_found")) return "The subagent's session was deleted during its work.";
  return `The subagent failed: ${error instanceof Error ? error.message : String(error)}`;
}

function sessionReference({ sessionId }: Subagent): string {
  return `[subagent session ${sessionId}]`;
}
