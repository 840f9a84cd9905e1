import type { Ask, RunAnswer, RunRecord, WatchEvent } from "gantry";
import { textOf, wireDiff, wireMessage, wireSession } from "./wire-stored.js";
import { endedEarly, filled, structuredOf, wireUsage } from "./wire.js";

export function wireRun(run: RunRecord) {
  return {
    id: run.id,
    session_id: run.sessionId,
    state: run.state,
    started_at: run.startedAt,
    ended_at: run.endedAt,
    provider: run.provider,
    model: run.model,
    usage: wireUsage(run.usage),
    iterations: run.iterations,
    ended_by: run.endedBy,
    error: run.error,
    ...structuredOf(run.answer),
    // While it waits to ask its model again.
    ...(run.retry && { retry: run.retry }),
  };
}

export function wireAsk(ask: Ask) {
  return {
    id: ask.id,
    session_id: ask.sessionId,
    run_id: ask.runId,
    tool_call_id: ask.callId,
    kind: ask.kind,
    tool: ask.tool,
    title: ask.title,
    input: ask.input,
    locations: ask.locations,
    diff: ask.diff.map(wireDiff),
    reason: ask.reason,
    choices: ask.choices,
    free_text: ask.freeText,
    created_at: ask.createdAt,
    deadline: ask.deadline,
    state: ask.state,
    reply: ask.reply,
    answered_by: ask.answeredBy,
    closed_at: ask.closedAt,
  };
}

/** Data of an event of a session's stream. */
export function wireWatched(event: WatchEvent): Record<string, unknown> {
  switch (event.type) {
    case "state": {
      const { session, run, asks, plan, elsewhere } = event.state;
      const { leave } = session;
      return {
        session: { ...wireSession(session), leave },
        run: run && wireRun(run),
        asks: asks.map(wireAsk),
        plan,
        elsewhere,
      };
    }
    case "message":
      return { message: wireMessage(event.message) };
    case "delta": {
      const { messageId, seq, kind, text } = event;
      return { message_id: messageId, seq, [kind === "text" ? "content" : "reasoning"]: text };
    }
    case "message_end": {
      const { content, reasoning: _, ...rest } = wireMessage(event.message);
      // Texts were told as they came.
      return { message: typeof content === "string" ? rest : { ...rest, content } };
    }
    case "cut":
      return { after: event.after };
    case "tool_progress":
      return { tool_call_id: event.callId, content: event.text };
    case "deleted":
      return {};
  }
}

/** As `wireResult`, of a run that ended before. */
export function wireFinished({ usage, iterations, endedBy }: RunRecord, answer: RunAnswer) {
  const { output, finishReason } = answer;
  return {
    output,
    usage: wireUsage(usage),
    iterations,
    finish_reason: finishReason,
    ...endedEarly(endedBy),
    ...structuredOf(answer),
  };
}

/** Payloads of the `agent` events of a run's stream, of what its session told; what is not the run's is left out. */
export function wireOfWatched(event: WatchEvent, run: RunRecord, agentName: string): Record<string, unknown>[] {
  const token = (said: Record<string, unknown>) => ({
    type: "token",
    agent_id: run.id,
    agent_name: agentName,
    ...said,
  });
  if (event.type === "delta")
    return [token(event.kind === "text" ? { content: event.text } : { reasoning: event.text })];
  if (event.type !== "message" && event.type !== "message_end") return [];
  const { role, parts, name, toolCallId, failed } = event.message;
  if (role === "user" || role === "system") return [];
  if (role === "tool")
    return [
      filled({
        type: "tool_result",
        tool_call_id: toolCallId,
        tool_name: name,
        tool_output: textOf(parts, "text"),
        failed: failed ? true : undefined,
      }),
    ];
  const [reasoning, text] = [textOf(parts, "reasoning"), textOf(parts, "text")];
  return [
    ...(event.type === "message" && reasoning !== "" ? [token({ reasoning })] : []),
    ...(event.type === "message" && text !== "" ? [token({ content: text })] : []),
    ...parts.flatMap((part) =>
      part.type === "tool_call"
        ? [filled({ type: "tool_call", tool_call_id: part.id, tool_name: part.name, tool_args: part.arguments })]
        : [],
    ),
  ];
}
