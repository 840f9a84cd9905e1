// Shapes of the events of both streams.

import * as v from "valibot";
import { Ask, ContentPart, Failure, Message, Run, Session, Tokens } from "./response-shapes.js";
import { optional, oneOf, string, describe, text, extend, count } from "./shape-builders.js";

/* Events of `POST /api/run`. */

export const TokenEvent = v.object({
  type: v.literal("token"),
  agent_id: string,
  agent_name: string,
  content: optional(string),
  reasoning: optional(string),
});
export const ToolCallEvent = v.object({
  type: v.literal("tool_call"),
  tool_call_id: optional(string),
  tool_name: optional(string),
  tool_args: optional(text("JSON text as the model wrote it")),
});
export const ToolResultEvent = v.object({
  type: v.literal("tool_result"),
  tool_call_id: optional(string),
  tool_name: optional(string),
  tool_output: optional(string),
  failed: optional(v.literal(true)),
});
export const CompactionEvent = v.object({
  type: v.literal("compaction"),
  strategy: string,
  messages: describe(count, "number of messages that the model now sees"),
  tokens: describe(count, "tokens before the compaction"),
});
export const QueuedEvent = v.object({ type: v.literal("queued"), runs_ahead: count });
export const SteeredEvent = v.object({ type: v.literal("steered"), content: string });
export const DoneEvent = v.object({
  type: v.literal("done"),
  done: v.literal(true),
  usage: Tokens,
  finish_reason: optional(v.literal("length")),
  ended_by: optional(v.literal("budget")),
  structured: optional(v.unknown()),
});
export const AgentEvent = v.variant("type", [
  TokenEvent,
  ToolCallEvent,
  ToolResultEvent,
  CompactionEvent,
  QueuedEvent,
  SteeredEvent,
  DoneEvent,
]);

/** Shapes of events by event name. */
export const RUN_EVENTS = { agent: AgentEvent, done: DoneEvent, error: Failure } as const;

/* Events of `GET /api/sessions/{id}/events`. */

export const PlanEntry = v.object({
  content: string,
  status: oneOf(["pending", "in_progress", "completed"]),
  priority: optional(string),
});
export const ProcessState = v.object({
  id: string,
  command: string,
  state: oneOf(["running", "ended"]),
  started_at: string,
  exit_code: v.nullable(v.number()),
  detached: v.boolean(),
});
const PermissionGrant = v.object({
  tool: string,
  scope: string,
  title: string,
  granted_by: string,
  granted_at: string,
});
export const StateEvent = v.object({
  session: extend(Session, { permission_grants: v.array(PermissionGrant) }),
  run: v.nullable(Run),
  asks: v.array(Ask),
  plan: v.array(PlanEntry),
  processes: optional(v.array(ProcessState)),
  running_elsewhere: v.boolean(),
});
export const MessageEvent = v.object({ message: Message });
export const DeltaEvent = v.object({
  message_id: string,
  seq: count,
  content: optional(string),
  reasoning: optional(string),
});
/** `content` is set only if the message has more than text: the `delta` events have already sent the text. */
export const MessageEndEvent = v.object({
  message: extend(v.omit(Message, ["content", "reasoning"]), { content: optional(v.array(ContentPart)) }),
});
export const RewindEvent = v.object({ after: describe(count, "messages with a greater seq are void") });
export const ToolProgressEvent = v.object({ tool_call_id: string, content: string });
export const DeletedEvent = v.object({});

/** Shapes of events by event name. */
export const SESSION_EVENTS = {
  state: StateEvent,
  message: MessageEvent,
  delta: DeltaEvent,
  message_end: MessageEndEvent,
  rewind: RewindEvent,
  tool_progress: ToolProgressEvent,
  deleted: DeletedEvent,
} as const;

/** An event of a run's stream. */
export type ApiAgentEvent = v.InferOutput<typeof AgentEvent>;
/** The last event of the stream of a successful run. */
export type DoneEvent = v.InferOutput<typeof DoneEvent>;
/** An entry of a run's todo list. */
export type ApiPlanEntry = v.InferOutput<typeof PlanEntry>;
/** A background command of a session. */
export type ApiProcessState = v.InferOutput<typeof ProcessState>;
/** An event of a session's stream; `type` is its name. */
export type SessionEvent = {
  [Name in keyof typeof SESSION_EVENTS]: { type: Name } & v.InferOutput<(typeof SESSION_EVENTS)[Name]>;
}[keyof typeof SESSION_EVENTS];
