import {
  roundCost,
  type AgentEvent,
  type Message,
  type ModelEntry,
  type Part,
  type RunRecord,
  type RunResult,
  type Session,
  type Usage,
} from "gantry";

/** Token counts, as streams carry them. */
export function wireTokens(usage: Usage) {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.totalTokens,
  };
}

export function wireUsage(usage: Usage) {
  return { ...wireTokens(usage), cost: roundCost(usage.cost) };
}

/** `run`: one that is under way in it. */
export function wireSession(session: Session, run?: RunRecord) {
  return {
    id: session.id,
    title: session.title,
    provider: session.provider,
    model: session.model,
    reasoning_effort: session.reasoningEffort,
    project_dir: session.projectDir,
    parent_id: session.parentId,
    created_at: session.createdAt,
    updated_at: session.updatedAt,
    usage: wireUsage(session.usage),
    mode: session.mode,
    ...(run && { run: { id: run.id, state: run.state } }),
  };
}

export function wireMessage(message: Message) {
  const reasoning = textOf(message.parts, "reasoning");
  return {
    id: message.id,
    session_id: message.sessionId,
    seq: message.seq,
    role: message.role,
    content: wireContent(message.parts),
    reasoning: reasoning === "" ? null : reasoning,
    name: message.name,
    tool_call_id: message.toolCallId,
    tool_calls: message.parts.flatMap((part) =>
      part.type === "tool_call"
        ? [{ id: part.id, type: "function", function: { name: part.name, arguments: part.arguments } }]
        : [],
    ),
    created_at: message.createdAt,
    // Where it is true of most, nobody need read it.
    ...(message.finished ? {} : { finished: false }),
  };
}

type WirePart =
  | { type: "text"; text: string }
  | { type: "image"; media_type: string; data: string }
  | { type: "file"; media_type: string; filename: string; data: string };

/** A string when there is text alone, else a list of parts. */
function wireContent(parts: readonly Part[]): string | WirePart[] {
  if (!parts.some((part) => part.type === "image" || part.type === "file")) return textOf(parts, "text");
  return parts.flatMap((part): WirePart[] => {
    switch (part.type) {
      case "text":
        return [{ type: "text", text: part.text }];
      case "image":
        return [{ type: "image", media_type: part.mediaType, data: part.data }];
      case "file":
        return [{ type: "file", media_type: part.mediaType, filename: part.filename, data: part.data }];
      default:
        return [];
    }
  });
}

/** All text, or all reasoning, of a message. */
export function textOf(parts: readonly Part[], type: "text" | "reasoning"): string {
  return parts.map((part) => (part.type === type ? part.text : "")).join("");
}

export function wireModel({ provider, model }: ModelEntry) {
  return { provider, model: { id: model.id, name: model.name, owned_by: model.ownedBy } };
}

export function wireResult(result: RunResult) {
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
export function wireEvent(event: AgentEvent): Record<string, unknown> | undefined {
  switch (event.type) {
    case "token": {
      const { agentId, agentName, text, reasoning } = event;
      // By hand: there is one for each token.
      if (text) return { type: "token", agent_id: agentId, agent_name: agentName, content: text };
      return reasoning ? { type: "token", agent_id: agentId, agent_name: agentName, reasoning } : undefined;
    }
    case "tool_call":
      return filled({
        type: "tool_call",
        tool_call_id: event.callId,
        tool_name: event.name,
        tool_args: event.arguments,
      });
    case "tool_result":
      return filled({
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

export function wireDone(usage: Usage, answer: { structured?: unknown } | null, endedBy: RunRecord["endedBy"]) {
  const early = endedBy === "budget" ? { finish_reason: "length", ...endedEarly(endedBy) } : {};
  return { type: "done", done: true, usage: wireTokens(usage), ...early, ...structuredOf(answer) };
}

/** Without its empty fields. */
export function filled(payload: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(payload).filter(([, value]) => value !== undefined && value !== ""));
}
