import type { AgentEvent, RunRecord, RunResult, Usage } from "gantry";
import { roundCost } from "gantry/plugin";
import type * as shapes from "./shapes.js";
import type { Told } from "./response-body.js";

/** Token counts, as streams carry them. */
export function wireTokens(usage: Usage): Told<typeof shapes.Tokens> {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.totalTokens,
  };
}

export function wireUsage(usage: Usage): Told<typeof shapes.Usage> {
  return { ...wireTokens(usage), cost: roundCost(usage.cost) };
}

export function wireResult(result: RunResult): Told<typeof shapes.RunResult> {
  return {
    output: result.output,
    usage: wireUsage(result.usage),
    iterations: result.iterations,
    finish_reason: result.finishReason,
    ...endedEarly(result.endedBy),
    ...structuredOf(result),
  };
}

/** Told only of runs that have a budget, and came to its end. */
export function endedEarly(endedBy: RunRecord["endedBy"]): { ended_by?: "budget" } {
  return endedBy === "budget" ? { ended_by: endedBy } : {};
}

/** Where an answer of a certain form was asked for. */
export function structuredOf(answer: { structured?: unknown } | null): { structured?: unknown } {
  return answer?.structured === undefined ? {} : { structured: answer.structured };
}

/** Payload of a stream's `agent` event; undefined for one that says nothing, and for `done`, whose time is not yet. */
export function wireEvent(event: AgentEvent): Told<typeof shapes.AgentEvent> | undefined {
  switch (event.type) {
    case "token": {
      const { agentId, agentName, text, reasoning } = event;
      // By hand: there is one for each token.
      if (text) return { type: "token", agent_id: agentId, agent_name: agentName, content: text };
      return reasoning ? { type: "token", agent_id: agentId, agent_name: agentName, reasoning } : undefined;
    }
    case "tool_call":
      return filled<Told<typeof shapes.ToolCallEvent>>({
        type: "tool_call",
        tool_call_id: event.callId,
        tool_name: event.name,
        tool_args: event.arguments,
      });
    case "tool_result":
      return filled<Told<typeof shapes.ToolResultEvent>>({
        type: "tool_result",
        tool_call_id: event.callId,
        tool_name: event.name,
        tool_output: event.output,
        failed: event.failed ? true : undefined,
      });
    case "compaction":
      return { type: "compaction", strategy: event.strategy, messages: event.messages, tokens: event.tokens };
    case "steered":
      return { type: "steered", content: event.text };
    // Of the session's stream alone.
    case "tool_progress":
    // The stream's own words for these come from the run's result; of a retry it knows nothing, and goes on.
    case "retry":
    case "done":
    case "error":
      return undefined;
  }
}

export function wireDone(
  usage: Usage,
  answer: { structured?: unknown } | null,
  endedBy: RunRecord["endedBy"],
): Told<typeof shapes.DoneEvent> {
  const early = endedBy === "budget" ? { finish_reason: "length" as const, ...endedEarly(endedBy) } : {};
  return { type: "done", done: true, usage: wireTokens(usage), ...early, ...structuredOf(answer) };
}

/** Without its empty fields. */
export function filled<Payload extends object>(payload: Payload): Payload {
  const entries = Object.entries(payload).filter(([, value]) => value !== undefined && value !== "");
  return Object.fromEntries(entries) as Payload;
}
