import type { AgentEvent, RunRecord, RunResult, Usage } from "gantry";
import { roundCost } from "gantry/plugin";
import type * as shapes from "./shapes.js";
import type { ResponseBody } from "./shapes.js";

/** Token counts for streams. */
export function toWireTokens(usage: Usage): ResponseBody<typeof shapes.Tokens> {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.totalTokens,
  };
}

export function toWireUsage(usage: Usage): ResponseBody<typeof shapes.Usage> {
  return { ...toWireTokens(usage), cost: roundCost(usage.cost) };
}

export function toWireResult(result: RunResult): ResponseBody<typeof shapes.RunResult> {
  return {
    output: result.output,
    usage: toWireUsage(result.usage),
    iterations: result.iterations,
    finish_reason: result.finishReason,
    ...toWireEndedBy(result.endedBy),
    ...pickStructured(result),
  };
}

/** The field `ended_by`, for a run that its budget ended; empty for other runs. */
export function toWireEndedBy(endedBy: RunRecord["endedBy"]): { ended_by?: "budget" } {
  return endedBy === "budget" ? { ended_by: endedBy } : {};
}

/** The field `structured` of an answer; empty if the answer is null or has no structured output. */
export function pickStructured(answer: { structured?: unknown } | null): { structured?: unknown } {
  return answer?.structured === undefined ? {} : { structured: answer.structured };
}

/** Payload of an `agent` event. Undefined for events that this stream does not contain, and for the end of the run. */
export function toWireEvent(event: AgentEvent): ResponseBody<typeof shapes.AgentEvent> | undefined {
  switch (event.type) {
    case "token": {
      const { agentId, agentName, text, reasoning } = event;
      // Built directly, because this runs for each token.
      if (text) return { type: "token", agent_id: agentId, agent_name: agentName, content: text };
      return reasoning ? { type: "token", agent_id: agentId, agent_name: agentName, reasoning } : undefined;
    }
    case "tool_call":
      return omitEmptyFields<ResponseBody<typeof shapes.ToolCallEvent>>({
        type: "tool_call",
        tool_call_id: event.callId,
        tool_name: event.name,
        tool_args: event.arguments,
      });
    case "tool_result":
      return omitEmptyFields<ResponseBody<typeof shapes.ToolResultEvent>>({
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
    // Sent only in the session's stream.
    case "tool_progress":
    // The stream does not report retries. Its last events are made from the run's result.
    case "retry":
    case "done":
    case "error":
      return undefined;
  }
}

export function toWireDone(
  usage: Usage,
  answer: { structured?: unknown } | null,
  endedBy: RunRecord["endedBy"],
): ResponseBody<typeof shapes.DoneEvent> {
  const earlyEndFields = endedBy === "budget" ? { finish_reason: "length" as const, ...toWireEndedBy(endedBy) } : {};
  return { type: "done", done: true, usage: toWireTokens(usage), ...earlyEndFields, ...pickStructured(answer) };
}

/** Removes undefined and empty fields. */
export function omitEmptyFields<Payload extends object>(payload: Payload): Payload {
  const entries = Object.entries(payload).filter(([, value]) => value !== undefined && value !== "");
  return Object.fromEntries(entries) as Payload;
}
