// Shapes of a session's context, of people's commands and of files.

import * as v from "valibot";
import { count, describe, oneOf, optional, string, text, time } from "./shape-builders.js";

export const SessionContext = v.object({
  window: describe(count, "tokens of the context window; 128000 if the model's window is unknown"),
  used: describe(count, "tokens of the next prompt: the sum of the parts"),
  compaction_at: describe(v.nullable(count), "tokens above which the conversation is compacted; null: never"),
  estimated: describe(v.boolean(), "false: the provider counted all messages up to the last answer"),
  parts: v.array(
    v.object({ name: oneOf(["system", "instructions", "tools", "messages", "tool_outputs"]), tokens: count }),
  ),
});

export const ShellRequest = v.object({
  command: text("the shell command, at most 128 KiB"),
  share: optional(describe(v.boolean(), "false: the model does not read command and output; default true")),
  timeout: optional(describe(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(600)), "seconds")),
  stream: optional(v.boolean()),
});
export const ShellResult = v.object({
  exit_code: describe(v.nullable(v.pipe(v.number(), v.integer())), "null if a signal or the time limit ended it"),
  output: string,
  truncated: describe(v.boolean(), "the middle of the output was removed"),
  timed_out: v.boolean(),
  message_id: describe(v.nullable(string), "the stored message; null if the command was not shared"),
});
export const ShellOutputEvent = v.object({ text: string });

export const FileContent = v.object({
  path: text("real path, without symbolic links"),
  size: describe(count, "bytes of the file"),
  text: describe(v.nullable(string), "at most 512 kB from the start; null if the file is not text"),
  data: optional(text("content of an image up to 5 MiB, in base64")),
  truncated: describe(v.boolean(), "the answer contains less than the file"),
  media_type: string,
  modified_at: time("last change"),
});

/** The content of the next model call of a session, in tokens. */
export type ApiSessionContext = v.InferOutput<typeof SessionContext>;
/** A person's shell command. */
export type ShellRequest = v.InferInput<typeof ShellRequest>;
/** The result of a person's shell command. */
export type ApiShellResult = v.InferOutput<typeof ShellResult>;
/** The beginning of a file. */
export type ApiFileContent = v.InferOutput<typeof FileContent>;
