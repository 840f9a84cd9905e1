import type { Ask, RunRecord, WatchEvent } from "gantry";
import type { PermissionGrant, ProcessState, RunAnswer } from "gantry/plugin";
import type * as shapes from "./shapes.js";
import type { ResponseBody } from "./shapes.js";
import { joinText, toWireDiff, toWireMessage, toWireSession } from "./wire-stored.js";
import { toWireEndedBy, omitEmptyFields, pickStructured, toWireUsage } from "./wire.js";

type AgentEvent = ResponseBody<typeof shapes.AgentEvent>;
/** Data of each event of a session's stream, by event name. */
type SessionEventData = {
  [Name in keyof typeof shapes.SESSION_EVENTS]: ResponseBody<(typeof shapes.SESSION_EVENTS)[Name]>;
};

export function toWireRun(run: RunRecord): ResponseBody<typeof shapes.Run> {
  return {
    id: run.id,
    session_id: run.sessionId,
    state: run.state,
    started_at: run.startedAt,
    ended_at: run.endedAt,
    provider: run.provider,
    model: run.model,
    usage: toWireUsage(run.usage),
    iterations: run.iterations,
    ended_by: run.endedBy,
    error: run.error,
    ...(run.user !== undefined && { user: run.user }),
    ...pickStructured(run.answer),
    // Set only while the run waits to retry a model call.
    ...(run.retry && { retry: toWireRetry(run.retry) }),
  };
}

export function toWireAsk(ask: Ask): ResponseBody<typeof shapes.Ask> {
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
    diff: ask.diff.map(toWireDiff),
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

function toWireProcess({ startedAt, exitCode, ...process }: ProcessState) {
  return { ...process, started_at: startedAt, exit_code: exitCode };
}

/** Converts an event of a session to the data of the stream's event. */
export function toWireSessionEvent(event: WatchEvent): SessionEventData[keyof SessionEventData] {
  switch (event.type) {
    case "state": {
      const { session, run, asks, plan, processes, runningElsewhere } = event.state;
      const { permissionGrants } = session;
      return {
        session: { ...toWireSession(session), permission_grants: permissionGrants.map(toWireGrant) },
        run: run && toWireRun(run),
        asks: asks.map(toWireAsk),
        plan,
        ...(processes && { processes: processes.map(toWireProcess) }),
        running_elsewhere: runningElsewhere,
      } satisfies SessionEventData["state"];
    }
    case "message":
      return { message: toWireMessage(event.message) } satisfies SessionEventData["message"];
    case "delta": {
      const { messageId, seq, kind, text } = event;
      const textField = kind === "text" ? { content: text } : { reasoning: text };
      return { message_id: messageId, seq, ...textField } satisfies SessionEventData["delta"];
    }
    case "message_end": {
      const { content, reasoning: _, ...messageFields } = toWireMessage(event.message);
      // The `delta` events have already sent the text.
      return {
        message: typeof content === "string" ? messageFields : { ...messageFields, content },
      } satisfies SessionEventData["message_end"];
    }
    case "rewind":
      return { after: event.after } satisfies SessionEventData["rewind"];
    case "tool_progress":
      return { tool_call_id: event.callId, content: event.text } satisfies SessionEventData["tool_progress"];
    case "deleted":
      return {} satisfies SessionEventData["deleted"];
  }
}

/** Like `toWireResult`, for the stored record of an ended run. */
export function toWireRecordResult(
  { usage, iterations, endedBy }: RunRecord,
  answer: RunAnswer,
): ResponseBody<typeof shapes.RunResult> {
  const { output, finishReason } = answer;
  return {
    output,
    usage: toWireUsage(usage),
    iterations,
    finish_reason: finishReason,
    ...toWireEndedBy(endedBy),
    ...pickStructured(answer),
  };
}

/**
 * Converts an event of a session to `agent` events of a run's stream. Empty for events that this stream does not
 * contain.
 */
export function toAgentEvents(event: WatchEvent, run: RunRecord, agentName: string): AgentEvent[] {
  const toTokenEvent = (
    textField: { content: string } | { reasoning: string },
  ): ResponseBody<typeof shapes.TokenEvent> => ({
    type: "token",
    agent_id: run.id,
    agent_name: agentName,
    ...textField,
  });
  if (event.type === "delta")
    return [toTokenEvent(event.kind === "text" ? { content: event.text } : { reasoning: event.text })];
  if (event.type !== "message" && event.type !== "message_end") return [];
  const { role, parts, name, toolCallId, failed } = event.message;
  if (role === "user" || role === "system") return [];
  if (role === "tool")
    return [
      omitEmptyFields<ResponseBody<typeof shapes.ToolResultEvent>>({
        type: "tool_result",
        tool_call_id: toolCallId,
        tool_name: name,
        tool_output: joinText(parts, "text"),
        failed: failed ? true : undefined,
      }),
    ];
  const [reasoning, text] = [joinText(parts, "reasoning"), joinText(parts, "text")];
  return [
    ...(event.type === "message" && reasoning !== "" ? [toTokenEvent({ reasoning })] : []),
    ...(event.type === "message" && text !== "" ? [toTokenEvent({ content: text })] : []),
    ...parts.flatMap((part) =>
      part.type === "tool_call"
        ? [
            omitEmptyFields<ResponseBody<typeof shapes.ToolCallEvent>>({
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

function toWireRetry({ attempt, nextAttemptAt, reason }: NonNullable<RunRecord["retry"]>) {
  return { attempt, next_attempt_at: nextAttemptAt, reason };
}

function toWireGrant({ tool, scope, title, grantedBy, grantedAt }: PermissionGrant) {
  return { tool, scope, title, granted_by: grantedBy, granted_at: grantedAt };
}
