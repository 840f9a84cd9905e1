// Shapes of requests. A first run loads them, and none of the other shapes.

import * as v from "valibot";
import { optional, oneOf, string, describe, text } from "./shape-builders.js";

export const Mode = oneOf(["auto", "ask", "plan"]);
export const Effort = oneOf(["", "minimal", "low", "medium", "high", "xhigh", "max"]);
/** State of a run; a request can filter by it. */
export const RunState = oneOf(["queued", "running", "waiting", "finished", "failed", "cancelled", "interrupted"]);

/** Optional text of a request. Clients in typed languages send unset fields as `""`, which counts as absent. */
const optionalText = optional(string);

const positiveNumber = optional(v.pipe(v.number(), v.finite(), v.gtValue(0)));
const flag = optional(v.boolean());
const optionalMode = optional(oneOf(["", ...Mode.options]));
export const Budget = v.strictObject({ usd: positiveNumber, tokens: positiveNumber, seconds: positiveNumber });
export const Attachment = v.object({ filename: string, media_type: string, data: text("base64") });
export const RunRewind = v.object({
  before_message_id: text("the first message that is hidden"),
  files: optional(describe(v.boolean(), "restore the files that tools changed since")),
  force: optional(describe(v.boolean(), "overwrite files that changed outside the session")),
});
export const RunRequest = v.object({
  message: text("the prompt"),
  provider: optionalText,
  model: optionalText,
  session_id: optional(text("continue this session")),
  files: optional(describe(v.array(string), "paths on the server's machine")),
  attachments: optional(
    describe(v.array(Attachment), "files that come with the request; the message may then be empty"),
  ),
  reasoning_effort: optional(Effort),
  stream: flag,
  background: flag,
  queue: flag,
  can_answer: flag,
  on_disconnect: optional(oneOf(["", "cancel", "continue"])),
  project_dir: optionalText,
  worktree: optional(describe(v.boolean(), "whether the new session works in a Git worktree of the folder")),
  mode: optionalMode,
  budget: optional(Budget),
  compact: optional(
    describe(v.boolean(), "compact the session instead; the message may be empty or name what to keep"),
  ),
  rewind: optional(describe(RunRewind, "hide earlier messages, which the message replaces; requires session_id")),
  retry: optional(
    describe(
      v.boolean(),
      "continue the session's last run, which failed, was cancelled or was interrupted; the message must be empty",
    ),
  ),
  commands: optional(describe(v.boolean(), "whether to expand a message that is a slash command")),
  output_schema: optional(describe(v.record(string, v.unknown()), "JSON Schema of the answer")),
});
export const SessionChange = v.object({
  title: optional(string),
  provider: optionalText,
  model: optionalText,
  reasoning_effort: optional(Effort),
  mode: optionalMode,
  archived: flag,
  shared: flag,
});
export const SteerRequest = v.object({ message: string });
/** Without `tool_call_id`: all running calls. */
export const BackgroundRequest = v.object({ tool_call_id: optionalText });
export const AnswerRequest = v.object({ choice: optionalText, text: optionalText });

/** The permission mode of a session. */
export type Mode = v.InferOutput<typeof Mode>;
/** The reasoning effort of a model. */
export type Effort = v.InferOutput<typeof Effort>;
/** The state of a run. */
export type ApiRunState = v.InferOutput<typeof RunState>;
export type Attachment = v.InferOutput<typeof Attachment>;
/** The prompt of a run and its options. */
export type RunRequest = v.InferInput<typeof RunRequest>;
/** The fields of a session that a client can change. */
export type ApiSessionChange = v.InferInput<typeof SessionChange>;
/** The answer to a question: the id of a choice, or a text. */
export type AnswerRequest = v.InferInput<typeof AnswerRequest>;
