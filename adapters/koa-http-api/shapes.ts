/**
 * Every shape that goes over the wire of the HTTP API, once: requests are read through these schemas, types are inferred
 * from them, and `openapi.ts` describes them. Fields are named as clients write them; a description is what OpenAPI says.
 */
import * as v from "valibot";

const text = (description: string) => v.pipe(v.string(), v.description(description));
const time = (description: string) => v.pipe(v.string(), v.description(`${description}; ISO 8601 UTC`));
const count = v.pipe(v.number(), v.integer(), v.minValue(0));
/** Text of a request; what is not set is `""` in clients of typed languages, and counts as left out. */
const optionalText = v.optional(v.string());

/* What is told. */

export const Usage = v.object({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  cost: v.pipe(v.number(), v.description("USD; 0 when prices are unknown")),
});
export const Tokens = v.object({ prompt_tokens: count, completion_tokens: count, total_tokens: count });

export const Mode = v.picklist(["auto", "ask", "plan"]);
export const Effort = v.picklist(["", "minimal", "low", "medium", "high"]);
export const FinishReason = v.nullable(v.picklist(["stop", "length", "content_filter", "tool_calls"]));
export const RunState = v.picklist(["queued", "running", "waiting", "finished", "failed", "cancelled", "interrupted"]);

export const Failure = v.object({
  error: text("for people"),
  code: text("for programs: a stable word"),
  detail: v.optional(v.unknown()),
});

export const Health = v.object({ status: v.literal("ok"), version: v.string() });
export const Ready = v.object({ status: v.literal("ready"), version: v.string() });
export const NotReady = v.object({
  error: v.string(),
  code: v.literal("not_ready"),
  status: v.literal("not_ready"),
  reasons: v.array(v.object({ code: v.string(), message: v.string() })),
});

export const Model = v.object({
  provider: v.string(),
  model: v.object({ id: v.string(), name: v.string(), owned_by: v.string() }),
});
export const ModelList = v.object({ models: v.array(Model) });

export const Session = v.object({
  id: v.string(),
  title: v.string(),
  provider: text("last used"),
  model: text("last used"),
  reasoning_effort: v.string(),
  project_dir: text("the folder of its tools, recorded when it was created"),
  parent_id: text('of a fork; "" without'),
  created_at: time("when it was created"),
  updated_at: time("lists are sorted by this, descending"),
  usage: Usage,
  mode: Mode,
  run: v.optional(v.object({ id: v.string(), state: RunState })),
});
export const SessionList = v.object({ sessions: v.array(Session), total: count, page: count, size: count });

export const ContentPart = v.variant("type", [
  v.object({ type: v.literal("text"), text: v.string() }),
  v.object({ type: v.literal("image"), media_type: v.string(), data: text("base64") }),
  v.object({ type: v.literal("file"), media_type: v.string(), filename: v.string(), data: text("base64") }),
]);
export const ToolCall = v.object({
  id: v.string(),
  type: v.literal("function"),
  function: v.object({ name: v.string(), arguments: text("JSON text, as the model gave it") }),
});
export const Diff = v.object({
  path: v.string(),
  old_text: v.pipe(v.nullable(v.string()), v.description("null of a new file")),
  new_text: v.string(),
});
export const Location = v.object({ path: v.string(), line: v.optional(v.pipe(count, v.minValue(1))) });
export const Message = v.object({
  id: v.string(),
  session_id: text("the session of the chain that stores it"),
  seq: v.pipe(count, v.description("position within the conversation")),
  role: v.picklist(["user", "assistant", "system", "tool"]),
  content: v.pipe(v.union([v.string(), v.array(ContentPart)]), v.description("a string where it is text alone")),
  reasoning: v.nullable(v.string()),
  name: text("of the tool, where its role is tool"),
  tool_call_id: v.string(),
  tool_calls: v.array(ToolCall),
  created_at: time("when it was said"),
  failed: v.optional(v.pipe(v.literal(true), v.description("the tool failed"))),
  diff: v.optional(v.pipe(v.array(Diff), v.description("what the tool changed"))),
  locations: v.optional(v.array(Location)),
  finished: v.optional(v.pipe(v.literal(false), v.description("it grows, or was broken off"))),
});
export const MessageList = v.object({ messages: v.array(Message) });

export const RunResult = v.object({
  output: v.string(),
  usage: Usage,
  iterations: v.pipe(count, v.description("model calls")),
  finish_reason: FinishReason,
  ended_by: v.optional(v.literal("budget")),
  structured: v.optional(v.pipe(v.unknown(), v.description("where output_schema asked for a form"))),
});
export const RunBegun = v.object({ run_id: v.string(), session_id: v.string() });
export const Run = v.object({
  id: v.string(),
  session_id: v.string(),
  state: RunState,
  started_at: time("when it began, or was asked for"),
  ended_at: time('"" while it goes on'),
  provider: v.string(),
  model: v.string(),
  usage: Usage,
  iterations: count,
  ended_by: v.picklist(["", "model", "max_iterations", "budget"]),
  error: v.nullable(v.object({ code: v.string(), message: v.string() })),
  structured: v.optional(v.unknown()),
  retry: v.optional(
    v.pipe(
      v.object({ attempt: count, at: time("when"), reason: v.string() }),
      v.description("while it waits to ask its model again"),
    ),
  ),
});
export const RunList = v.object({ runs: v.array(Run) });
export const SessionRun = v.object({ run: v.nullable(Run) });
export const Steered = v.object({ run_id: v.string() });
export const Deleted = v.object({ status: v.literal("deleted") });

export const AskReply = v.object({ choice: v.string(), text: v.string() });
export const Ask = v.object({
  id: v.string(),
  session_id: v.string(),
  run_id: v.string(),
  tool_call_id: v.string(),
  kind: v.picklist(["permission", "question"]),
  tool: v.string(),
  title: v.string(),
  input: v.pipe(v.unknown(), v.description("arguments of the call")),
  locations: v.array(Location),
  diff: v.array(Diff),
  reason: v.string(),
  choices: v.array(v.object({ id: v.string(), label: v.string() })),
  free_text: v.boolean(),
  created_at: time("when it was asked"),
  deadline: time('when it is withdrawn; "": with its run'),
  state: v.picklist(["open", "answered", "withdrawn"]),
  reply: v.nullable(AskReply),
  answered_by: v.string(),
  closed_at: time('"" while it is open'),
});
export const AskList = v.object({ asks: v.array(Ask) });
export const AskClosed = v.object({ error: v.string(), code: v.literal("ask_closed"), ask: Ask });

/* What is asked. */

const bound = v.optional(v.pipe(v.number(), v.finite(), v.gtValue(0)));
export const Budget = v.strictObject({ usd: bound, tokens: bound, seconds: bound });
export const Attachment = v.object({ filename: v.string(), media_type: v.string(), data: text("base64") });
export const RunRequest = v.object({
  message: v.pipe(v.string(), v.description("the prompt")),
  provider: optionalText,
  model: optionalText,
  session_id: v.optional(text("go on in this session")),
  files: v.optional(v.pipe(v.array(v.string()), v.description("paths on the server's machine"))),
  attachments: v.optional(
    v.pipe(v.array(Attachment), v.description("files that come with the request; the message may then be empty")),
  ),
  reasoning_effort: v.optional(Effort),
  stream: v.optional(v.boolean()),
  background: v.optional(v.boolean()),
  queue: v.optional(v.boolean()),
  on_disconnect: v.optional(v.picklist(["", "cancel", "continue"])),
  project_dir: optionalText,
  mode: v.optional(v.picklist(["", ...Mode.options])),
  budget: v.optional(Budget),
  output_schema: v.optional(v.pipe(v.record(v.string(), v.unknown()), v.description("JSON Schema of the answer"))),
});
export const SessionChange = v.object({
  title: v.optional(v.string()),
  provider: optionalText,
  model: optionalText,
  reasoning_effort: v.optional(Effort),
  mode: v.optional(v.picklist(["", ...Mode.options])),
});
export const SteerRequest = v.object({ message: v.string() });
export const AnswerRequest = v.object({ choice: optionalText, text: optionalText });

/* What streams tell. `POST /api/run`: */

export const TokenEvent = v.object({
  type: v.literal("token"),
  agent_id: v.string(),
  agent_name: v.string(),
  content: v.optional(v.string()),
  reasoning: v.optional(v.string()),
});
export const ToolCallEvent = v.object({
  type: v.literal("tool_call"),
  tool_call_id: v.optional(v.string()),
  tool_name: v.optional(v.string()),
  tool_args: v.optional(text("JSON text, as the model gave it")),
});
export const ToolResultEvent = v.object({
  type: v.literal("tool_result"),
  tool_call_id: v.optional(v.string()),
  tool_name: v.optional(v.string()),
  tool_output: v.optional(v.string()),
  failed: v.optional(v.literal(true)),
});
export const CompactionEvent = v.object({
  type: v.literal("compaction"),
  strategy: v.string(),
  messages: v.pipe(count, v.description("that the model now sees")),
  tokens: v.pipe(count, v.description("before")),
});
export const QueuedEvent = v.object({ type: v.literal("queued"), ahead: count });
export const SteeredEvent = v.object({ type: v.literal("steered"), content: v.string() });
export const DoneEvent = v.object({
  type: v.literal("done"),
  done: v.literal(true),
  usage: Tokens,
  finish_reason: v.optional(v.literal("length")),
  ended_by: v.optional(v.literal("budget")),
  structured: v.optional(v.unknown()),
});
/** Data of an `agent` event; `done` has a `DoneEvent`, `error` a `Failure`. */
export const AgentEvent = v.variant("type", [
  TokenEvent,
  ToolCallEvent,
  ToolResultEvent,
  CompactionEvent,
  QueuedEvent,
  SteeredEvent,
  DoneEvent,
]);

/* ... and `GET /api/sessions/{id}/events`: */

export const PlanEntry = v.object({
  content: v.string(),
  status: v.picklist(["pending", "in_progress", "completed"]),
});
export const StateEvent = v.object({
  session: v.object({ ...Session.entries, leave: v.array(v.unknown()) }),
  run: v.nullable(Run),
  asks: v.array(Ask),
  plan: v.array(PlanEntry),
  elsewhere: v.boolean(),
});
export const MessageEvent = v.object({ message: Message });
export const DeltaEvent = v.object({
  message_id: v.string(),
  seq: count,
  content: v.optional(v.string()),
  reasoning: v.optional(v.string()),
});
/** `content` only where it is no text: texts were told as they came. */
export const MessageEndEvent = v.object({
  message: v.object({
    ...v.omit(Message, ["content", "reasoning"]).entries,
    content: v.optional(v.array(ContentPart)),
  }),
});
export const CutEvent = v.object({ after: v.pipe(count, v.description("messages with a greater seq are void")) });
export const ToolProgressEvent = v.object({ tool_call_id: v.string(), content: v.string() });
export const DeletedEvent = v.object({});

/** By the name of the event. */
export const SESSION_EVENTS = {
  state: StateEvent,
  message: MessageEvent,
  delta: DeltaEvent,
  message_end: MessageEndEvent,
  cut: CutEvent,
  tool_progress: ToolProgressEvent,
  deleted: DeletedEvent,
} as const;

export type Usage = v.InferOutput<typeof Usage>;
export type Tokens = v.InferOutput<typeof Tokens>;
export type Mode = v.InferOutput<typeof Mode>;
export type Effort = v.InferOutput<typeof Effort>;
export type RunState = v.InferOutput<typeof RunState>;
export type Failure = v.InferOutput<typeof Failure>;
export type Health = v.InferOutput<typeof Health>;
export type Ready = v.InferOutput<typeof Ready>;
export type NotReady = v.InferOutput<typeof NotReady>;
export type Model = v.InferOutput<typeof Model>;
export type Session = v.InferOutput<typeof Session>;
export type SessionList = v.InferOutput<typeof SessionList>;
export type ContentPart = v.InferOutput<typeof ContentPart>;
export type ToolCall = v.InferOutput<typeof ToolCall>;
export type Diff = v.InferOutput<typeof Diff>;
export type Message = v.InferOutput<typeof Message>;
export type RunResult = v.InferOutput<typeof RunResult>;
export type RunBegun = v.InferOutput<typeof RunBegun>;
export type Run = v.InferOutput<typeof Run>;
export type Ask = v.InferOutput<typeof Ask>;
export type Attachment = v.InferOutput<typeof Attachment>;
export type RunRequest = v.InferInput<typeof RunRequest>;
export type SessionChange = v.InferInput<typeof SessionChange>;
export type AnswerRequest = v.InferInput<typeof AnswerRequest>;
export type AgentEvent = v.InferOutput<typeof AgentEvent>;
export type DoneEvent = v.InferOutput<typeof DoneEvent>;
export type PlanEntry = v.InferOutput<typeof PlanEntry>;
/** An event of a session's stream. */
export type SessionEvent = {
  [Name in keyof typeof SESSION_EVENTS]: { type: Name } & v.InferOutput<(typeof SESSION_EVENTS)[Name]>;
}[keyof typeof SESSION_EVENTS];
