import { isAbsolute } from "node:path";
import { isRecord } from "../../base/json.js";
import { EFFORTS } from "../../models/efforts.js";
import { PROMPT_USES } from "../../ports/agent-options.js";
import { InputError } from "../../ports/errors.js";
import type { RunInput, RunRewind } from "../../ports/run.js";
import { SESSION_MODES } from "../../sessions/session-modes.js";
import { checkBudget } from "./budget-check.js";
import { checkFields, checkOneOf, createToolList, type FieldTypes } from "./input-checks.js";
import { checkServers } from "./server-check.js";

const INPUT_TYPES: FieldTypes<RunInput> = {
  message: "string",
  compact: "boolean",
  rewind: "any",
  retry: "boolean",
  commands: "boolean",
  attachments: "any",
  attach: "any",
  provider: "string",
  model: "string",
  reasoningEffort: "any",
  mode: "any",
  budget: "any",
  outputSchema: "any",
  queue: "boolean",
  mcpServers: "any",
  onQueued: "function",
  sessionId: "string",
  projectDir: "string",
  worktree: "boolean",
  folders: "any",
  systemPrompt: "string",
  promptUse: "any",
  tools: "any",
  signal: "any",
  onWaiting: "any",
  overflow: "any",
  ask: "any",
  alwaysAsk: "boolean",
  hasResponder: "function",
  clientName: "string",
  user: "string",
  logFields: "any",
  idempotencyKey: "string",
  fingerprint: "string",
  trace: "string",
};

/** Checks the input of a run. Throws `InputError`. */
export function checkInput(input: RunInput): void {
  if (typeof input.message !== "string") throw new InputError("message", "a string");
  checkFields(input, INPUT_TYPES);
  // Headers, paths and databases do not accept lone surrogates. A truncated prompt may contain one.
  for (const [field, value] of Object.entries(input))
    if (field !== "message" && field !== "systemPrompt" && typeof value === "string" && /\p{Surrogate}/u.test(value))
      throw new InputError(field, "no lone surrogates");
  if (input.reasoningEffort !== undefined) checkOneOf("reasoningEffort", EFFORTS, input.reasoningEffort);
  if (input.promptUse !== undefined) checkOneOf("promptUse", PROMPT_USES, input.promptUse);
  if (input.mode !== undefined) checkOneOf("mode", SESSION_MODES, input.mode);
  if (input.budget !== undefined) checkBudget("budget", input.budget);
  if (input.overflow !== undefined) checkOneOf("overflow", ["drop", "merge"], input.overflow);
  const { folders = [] }: { folders?: unknown } = input;
  if (!Array.isArray(folders) || !folders.every((folder) => typeof folder === "string" && isAbsolute(folder)))
    throw new InputError("folders", "a list of absolute paths");
  const { logFields = {} }: { logFields?: unknown } = input;
  if (!isRecord(logFields) || !Object.values(logFields).every((value) => typeof value === "string"))
    throw new InputError("logFields", "an object of strings");
  if (input.tools !== undefined) createToolList(input.tools);
  if (input.mcpServers !== undefined) checkServers("mcpServers", input.mcpServers);
  if (input.worktree && input.sessionId !== undefined)
    throw new InputError("worktree", "false for an existing session");
  if (input.rewind !== undefined) checkRewind(input);
  if (input.retry) return checkRetry(input);
  if (input.compact) return checkCompact(input);
  if (input.message.trim() === "" && (input.attachments ?? []).length === 0)
    throw new InputError("message", "a non-empty prompt");
}

/** Rejects fields for a prompt or an answer, because a run that compacts has neither. */
function checkCompact({ sessionId, attachments = [], attach, outputSchema }: RunInput): void {
  if (sessionId === undefined) throw new InputError("sessionId", "the session to compact");
  if (attachments.length > 0) throw new InputError("attachments", "none beside compact");
  if (attach) throw new InputError("attach", "none beside compact");
  if (outputSchema !== undefined) throw new InputError("outputSchema", "none beside compact");
}

const REWIND_TYPES: FieldTypes<RunRewind> = { before: "string", files: "boolean", force: "boolean" };

function checkRewind({ rewind, sessionId, compact, queue }: RunInput): void {
  if (!isRecord(rewind)) throw new InputError("rewind", "an object with before");
  checkFields(rewind as unknown as RunRewind, REWIND_TYPES);
  if (typeof rewind["before"] !== "string" || rewind["before"] === "")
    throw new InputError("rewind", "an object with before");
  if (sessionId === undefined) throw new InputError("sessionId", "the session to rewind");
  if (compact) throw new InputError("compact", "false beside rewind");
  // The results of the runs that are ahead would be hidden.
  if (queue) throw new InputError("queue", "false beside rewind");
}

/** Rejects what belongs to a prompt, because a retry has none. */
function checkRetry({ message, sessionId, attachments = [], attach, compact, rewind, commands }: RunInput): void {
  if (sessionId === undefined) throw new InputError("sessionId", "the session to continue");
  if (message !== "") throw new InputError("retry", "false beside a message");
  if (attachments.length > 0 || attach) throw new InputError("retry", "false beside attachments");
  if (compact || rewind || commands) throw new InputError("retry", "false beside compact, rewind and commands");
}
