// Shapes of JSON answers.

import * as v from "valibot";
import { Mode, RunState } from "./request-shapes.js";
import { optional, oneOf, string, describe, text, time, count } from "./shape-builders.js";

export const Usage = v.object({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  cost: describe(v.number(), "USD; 0 when prices are unknown"),
});
export const Tokens = v.object({ prompt_tokens: count, completion_tokens: count, total_tokens: count });

export const FinishReason = v.nullable(oneOf(["stop", "length", "content_filter", "tool_calls"]));

export const Failure = v.object({
  error: text("message for users"),
  code: text("stable error code for programs"),
  detail: optional(v.unknown()),
});

export const Health = v.object({ status: v.literal("ok"), version: string });
export const Ready = v.object({ status: v.literal("ready"), version: string });
export const NotReady = v.object({
  error: string,
  code: v.literal("not_ready"),
  status: v.literal("not_ready"),
  reasons: v.array(v.object({ code: string, message: string })),
});

export const Model = v.object({
  provider: string,
  model: v.object({ id: string, name: string, owned_by: string }),
});
export const ModelList = v.object({ models: v.array(Model) });

/** The tool call that created a subagent's session. */
export const SpawnedBy = v.object({ session_id: string, run_id: string, call_id: string });

export const Command = v.object({
  name: text("the text after the slash"),
  description: string,
  hint: text('arguments to type after the name; "" if there are none'),
  origin: text("source of the command, for users"),
});
export const CommandList = v.object({ commands: v.array(Command) });
export const FileList = v.object({
  files: v.array(v.object({ path: text("relative to the project folder, with `/`") })),
  incomplete: describe(v.boolean(), "whether the folder has too many files to compare all of them"),
});

export const Session = v.object({
  id: string,
  title: string,
  provider: text("last used"),
  model: text("last used"),
  reasoning_effort: string,
  project_dir: text("the folder of its tools, recorded at creation"),
  parent_id: text('for a fork, the original session; else ""'),
  created_at: time("time of creation"),
  updated_at: time("lists are sorted by this, descending"),
  usage: Usage,
  mode: Mode,
  run: optional(v.object({ id: string, state: RunState })),
  spawned_by: optional(describe(SpawnedBy, "for a subagent's session, the tool call that created it")),
  archived: optional(v.literal(true)),
  owner: optional(text("the user to whom it belongs")),
  shared: optional(v.literal(true)),
});
export const SessionList = v.object({ sessions: v.array(Session), total: count, page: count, size: count });

export const ContentPart = v.variant("type", [
  v.object({ type: v.literal("text"), text: string }),
  v.object({ type: v.literal("image"), media_type: string, data: text("base64") }),
  v.object({ type: v.literal("file"), media_type: string, filename: string, data: text("base64") }),
]);
export const ToolCall = v.object({
  id: string,
  type: v.literal("function"),
  function: v.object({ name: string, arguments: text("JSON text as the model wrote it") }),
});
export const Diff = v.object({
  path: string,
  old_text: describe(v.nullable(string), "null for a new file"),
  new_text: string,
});
export const Location = v.object({ path: string, line: optional(v.pipe(count, v.minValue(1))) });
export const Message = v.object({
  id: string,
  session_id: text("the session of the chain that stores the message"),
  seq: describe(count, "position within the conversation"),
  role: oneOf(["user", "assistant", "system", "tool"]),
  content: describe(v.union([string, v.array(ContentPart)]), "a string if the message contains only text"),
  expanded_content: optional(text("the expanded text that the model received, if the content is a slash command")),
  reasoning: v.nullable(string),
  name: text("name of the tool, for role tool"),
  tool_call_id: string,
  tool_calls: v.array(ToolCall),
  created_at: time("time of creation"),
  failed: optional(describe(v.literal(true), "the tool failed")),
  diff: optional(describe(v.array(Diff), "the file changes of the tool")),
  locations: optional(v.array(Location)),
  finished: optional(describe(v.literal(false), "the message is still being written or was interrupted")),
});
export const MessageList = v.object({ messages: v.array(Message) });

export const RunResult = v.object({
  output: string,
  usage: Usage,
  iterations: describe(count, "model calls"),
  finish_reason: FinishReason,
  ended_by: optional(v.literal("budget")),
  structured: optional(describe(v.unknown(), "set if output_schema was requested")),
});
export const RunAccepted = v.object({ run_id: string, session_id: string });
export const Run = v.object({
  id: string,
  session_id: string,
  state: RunState,
  started_at: time("start, or request while queued"),
  ended_at: time('"" while the run is active'),
  provider: string,
  model: string,
  usage: Usage,
  iterations: count,
  user: optional(text("the user who started it")),
  ended_by: oneOf(["", "model", "max_iterations", "budget"]),
  error: v.nullable(v.object({ code: string, message: string })),
  structured: optional(v.unknown()),
  retry: optional(
    describe(
      v.object({ attempt: count, next_attempt_at: time("time of the next attempt"), reason: string }),
      "set while the run waits to retry a model call",
    ),
  ),
});
export const RunList = v.object({ runs: v.array(Run) });
export const SessionRun = v.object({ run: v.nullable(Run) });
export const SteerAccepted = v.object({ run_id: string });
export const BackgroundAccepted = v.object({ run_id: string });
export const Deleted = v.object({ status: v.literal("deleted") });

export const AskReply = v.object({ choice: string, text: string });
export const Ask = v.object({
  id: string,
  session_id: string,
  run_id: string,
  tool_call_id: string,
  kind: oneOf(["permission", "question"]),
  tool: string,
  title: string,
  input: describe(v.unknown(), "arguments of the call"),
  locations: v.array(Location),
  diff: v.array(Diff),
  reason: string,
  choices: v.array(v.object({ id: string, label: string })),
  free_text: v.boolean(),
  created_at: time("time of creation"),
  deadline: time('time at which the question is withdrawn; "": at the end of its run'),
  state: oneOf(["open", "answered", "withdrawn"]),
  reply: v.nullable(AskReply),
  answered_by: string,
  closed_at: time('"" while the question is open'),
});
export const AskList = v.object({ asks: v.array(Ask) });
export const AskClosed = v.object({ error: string, code: v.literal("ask_closed"), ask: Ask });

/** Tokens and their cost. */
export type ApiUsage = v.InferOutput<typeof Usage>;
export type Tokens = v.InferOutput<typeof Tokens>;
export type Failure = v.InferOutput<typeof Failure>;
/** The answer of `GET /api/health`: the process is alive. */
export type Health = v.InferOutput<typeof Health>;
/** The answer of `GET /api/ready` while the server accepts runs. */
export type Ready = v.InferOutput<typeof Ready>;
/** The answer of `GET /api/ready` while the server accepts no runs, with all reasons. */
export type NotReady = v.InferOutput<typeof NotReady>;
/** A model with its provider. */
export type ApiModel = v.InferOutput<typeof Model>;
/** A slash command. */
export type Command = v.InferOutput<typeof Command>;
/** A session, as lists show it. */
export type ApiSession = v.InferOutput<typeof Session>;
/** A page of sessions. */
export type SessionList = v.InferOutput<typeof SessionList>;
/** A part of a message's content: text, image or file. */
export type ContentPart = v.InferOutput<typeof ContentPart>;
/** A tool call as the model wrote it. */
export type ApiToolCall = v.InferOutput<typeof ToolCall>;
/** A file before and after a tool changed it. */
export type ApiDiff = v.InferOutput<typeof Diff>;
/** A message of a conversation. */
export type ApiMessage = v.InferOutput<typeof Message>;
/** The result of a finished run. */
export type ApiRunResult = v.InferOutput<typeof RunResult>;
/** A run that continues in the background, or is queued. */
export type RunAccepted = v.InferOutput<typeof RunAccepted>;
/** A run as stored. */
export type ApiRun = v.InferOutput<typeof Run>;
/** A question of a run to a user. */
export type ApiAsk = v.InferOutput<typeof Ask>;
