import type { Ask, RunRecord, WatchEvent } from "gantry";
import type { ProcessState, RunAnswer } from "gantry/plugin";
import type * as shapes from "./shapes.js";
import type { Told } from "./response-body.js";
import { textOf, wireDiff, wireMessage, wireSession } from "./wire-stored.js";
import { endedEarly, filled, structuredOf, wireUsage } from "./wire.js";

type AgentEvent = Told<typeof shapes.AgentEvent>;
/** Data of each event of a session's stream, by its name. */
type Watched = { [Name in keyof typeof shapes.SESSION_EVENTS]: Told<(typeof shapes.SESSION_EVENTS)[Name]> };

export function wireRun(run: RunRecord): Told<typeof shapes.Run> {
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

export function wireAsk(ask: Ask): Told<typeof shapes.Ask> {
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

function wireProcess({ exitCode, ...process }: ProcessState) {
  return { ...process, exit_code: exitCode };
}

/** Data of an event of a session's stream. */
export function wireWatched(event: WatchEvent): Watched[keyof Watched] {
  switch (event.type) {
    case "state": {
      const { session, run, asks, plan, processes, elsewhere } = event.state;
      const { leave } = session;
      return {
        session: { ...wireSession(session), leave },
        run: run && wireRun(run),
        asks: asks.map(wireAsk),
        plan,
        ...(processes && { processes: processes.map(wireProcess) }),
        elsewhere,
      } satisfies Watched["state"];
    }
    case "message":
      return { message: wireMessage(event.message) } satisfies Watched["message"];
    case "delta": {
      const { messageId, seq, kind, text } = event;
      const said = kind === "text" ? { content: text } : { reasoning: text };
      return { message_id: messageId, seq, ...said } satisfies Watched["delta"];
    }
    case "message_end": {
      const { content, reasoning: _, ...rest } = wireMessage(event.message);
      // Texts were told as they came.
      return { message: typeof content === "string" ? rest : { ...rest, content } } satisfies Watched["message_end"];
    }
    case "cut":
      return { after: event.after } satisfies Watched["cut"];
    case "tool_progress":
      return { tool_call_id: event.callId, content: event.text } satisfies Watched["tool_progress"];
    case "deleted":
      return {} satisfies Watched["deleted"];
  }
}

/** As `wireResult`, of a run that ended before. */
export function wireFinished(
  { usage, iterations, endedBy }: RunRecord,
  answer: RunAnswer,
): Told<typeof shapes.RunResult> {
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
export function wireOfWatched(event: WatchEvent, run: RunRecord, agentName: string): AgentEvent[] {
  const token = (said: { content: string } | { reasoning: string }): Told<typeof shapes.TokenEvent> => ({
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
      filled<Told<typeof shapes.ToolResultEvent>>({
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
        ? [
            filled<Told<typeof shapes.ToolCallEvent>>({
              type: "tool_call",
              tool_call_id: part.id,
              tool_name: part.name,
              tool_args: part.arguments,
            }),
          ]
        : [],
    ),
  ];
}
