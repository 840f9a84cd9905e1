import type { Ask } from "./ask.js";
import type { UndoneFile } from "./file-history.js";
import type { ProviderErrorKind } from "./provider-error-kind.js";
import type { WorktreeFile } from "./worktrees.js";
export type { ProviderErrorKind } from "./provider-error-kind.js";
const ERROR_BRAND = Symbol.for("gantry.error");
/** Default delay before a retry, in ms. */
const RETRY_AFTER_MS = 1_000;
const MAX_PROVIDER_MESSAGE_CHARACTERS = 500;

/**
 * Base class of every error that gantry throws deliberately. Distinguish these errors by `code`, which also works
 * across copies of the package.
 */
export abstract class GantryError extends Error {
  abstract readonly code: string;
  /** Makes `instanceof` accept errors from other copies of the package, which plugins may bring. */
  static override [Symbol.hasInstance](this: unknown, error: unknown): boolean {
    // Only the prototype of the base class has the brand. Names are not compared, because bundlers can change them.
    if (Object.hasOwn((this as typeof GantryError).prototype, ERROR_BRAND))
      return error instanceof Error && ERROR_BRAND in error;
    return Function.prototype[Symbol.hasInstance].call(this as typeof GantryError, error);
  }
  get [ERROR_BRAND](): true {
    return true;
  }
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
  /** Returns code, message and the fields of the class, for events in JSON. Never includes the stack or the cause. */
  toJSON(): { code: string; message: string; [field: string]: unknown } {
    const { code, message, name: _name, ...fields } = this;
    return { code, message, ...fields };
  }
}

/** Whether `error` is a gantry error with this code, from any copy of the package. */
export function hasCode<C extends keyof ErrorByCode>(error: unknown, code: C): error is ErrorByCode[C] {
  return error instanceof Error && (error as { code?: unknown }).code === code;
}

/** Parts of an error that its constructor passes on: the message, the fields, and the options with the cause. */
type ErrorParts<Fields = Record<never, never>> = [message: string, fields?: Fields, options?: ErrorOptions];
type ErrorInstance<Code, Fields> = GantryError & { readonly code: Code } & Readonly<Fields>;
type ErrorClass<Code, Args extends unknown[], Fields> = new (...args: Args) => ErrorInstance<Code, Fields>;

/**
 * Creates the base class of an error class; `toParts` has the parameters of the constructor. Fields that need a comment
 * are also declared in the class, because inferred types have no comments.
 *
 * @__NO_SIDE_EFFECTS__ Bundlers remove the classes that a program does not use.
 */
function errorClass<Code extends string, Args extends unknown[], Fields extends object = Record<never, never>>(
  code: Code,
  toParts: (...args: Args) => ErrorParts<Fields>,
): ErrorClass<Code, Args, Fields> {
  class CodedError extends GantryError {
    readonly code = code;
    constructor(...args: Args) {
      const [message, fields, options] = toParts(...args);
      super(message, options);
      Object.assign(this, fields);
    }
  }
  // The compiler does not know the fields that `Object.assign` adds.
  return CodedError as unknown as ErrorClass<Code, Args, Fields>;
}

const withMessage = (message: string, options?: ErrorOptions): ErrorParts => [message, {}, options];

function withReason<Reason>(reason: Reason, message: string, options?: ErrorOptions): ErrorParts<{ reason: Reason }> {
  return [message, { reason }, options];
}

/** The caller's value has the wrong shape; `field` names the value. */
export class InputError extends errorClass("invalid_input", (field: string, expected: string) => [
  `${field}: expected ${expected}`,
  { field },
]) {}

/** A config file, flag or adapter option is invalid. The message has the location and the expected value. */
export class ConfigError extends errorClass("config", withMessage) {}

/** A transport cannot listen, for instance because the port is in use or the bind was refused. */
export class ListenError extends errorClass("listen", withMessage) {}

/** A module named in the config cannot be loaded or is not an adapter of the required kind. */
export class AdapterError extends errorClass("adapter", withMessage) {}

/** The session id or alias is unknown, or the session was deleted. */
export class SessionNotFoundError extends errorClass("session_not_found", (sessionId: string) => [
  "session not found",
  { sessionId },
]) {}

/** The run id is unknown, or the run's session was deleted. */
export class RunNotFoundError extends errorClass("run_not_found", (runId: string) => ["run not found", { runId }]) {}

/** The ask id is unknown, or the ask's session was deleted. */
export class AskNotFoundError extends errorClass("ask_not_found", (askId: string) => ["ask not found", { askId }]) {}

/** The ask is already answered or withdrawn; `ask` has the details. */
export class AskClosedError extends errorClass("ask_closed", (ask: Ask) => [
  ask.state === "answered" ? "the question was answered already" : "the question was withdrawn",
  { ask },
]) {}

/** A session's id or alias, or a chain's index, is already in use. */
export class SessionExistsError extends errorClass("session_exists", (sessionId: string) => [
  "session exists already",
  { sessionId },
]) {}

/** Another run, in this or another process, holds the session. */
export class SessionBusyError extends errorClass("session_busy", (retryAfterMs?: number) => [
  "session is busy",
  { retryAfterMs: retryAfterMs ?? RETRY_AFTER_MS },
]) {}

/** A message's `seq` is already in use: two writers write without a lease. */
export class SeqTakenError extends errorClass("seq_taken", (seq: number) => [`message seq ${seq} is taken`, { seq }]) {}

/** Another run has this idempotency key, or a run of another chain has this id. */
export class RunKeyTakenError extends errorClass("run_key_taken", (key: string) => [
  "another run has this key",
  { key },
]) {}

/** Another holder took the lease of the session. */
export class LeaseLostError extends errorClass("lease_lost", (rootId: string) => [
  "the session was taken over by another process",
  { rootId },
]) {}

/** The session has no message or snapshot with that id. */
export class PointNotFoundError extends errorClass("point_not_found", (kind: "message" | "snapshot") => [
  `${kind} not found in the session`,
]) {}

/** No run can be undone, or no undo can be reverted. */
export class NothingToUndoError extends errorClass("nothing_to_undo", withMessage) {}

/** A conflict prevents an undo; no file was changed. */
export class UndoConflictError extends errorClass("undo_conflict", (files: readonly UndoneFile[]) => [
  `${describeConflict(files)}; nothing was undone`,
  { files },
]) {
  /** All files that the undo would change. The outcomes `conflict`, `lost` and `failed` mark the reasons. */
  declare readonly files: readonly UndoneFile[];
}

function describeConflict(files: readonly UndoneFile[]): string {
  const countFiles = (outcome: UndoneFile["outcome"]) => files.filter((file) => file.outcome === outcome).length;
  const formatCount = (count: number) => (count === 1 ? "a file" : `${count} files`);
  const [conflictCount, lostCount] = [countFiles("conflict"), countFiles("lost")];
  if (conflictCount > 0)
    return `${formatCount(conflictCount)} ${conflictCount === 1 ? "was" : "were"} changed outside the session since`;
  if (lostCount > 0) return `no copy of ${formatCount(lostCount)} is stored`;
  return `${formatCount(countFiles("failed"))} cannot be restored`;
}

/** Changes of a worktree cannot be applied to its project folder. No file was changed. */
export class WorktreeConflictError extends errorClass("worktree_conflict", (files: readonly WorktreeFile[]) => [
  `${files.filter(({ reason }) => reason !== "").length} of ${files.length} changed files conflict with the project folder; nothing was applied`,
  { files },
]) {}

type StoreFlags = ErrorOptions &
  Partial<Record<"isFull" | "isUnavailable", boolean | undefined> & Record<"lockHolder", string | undefined>>;

/** The session store cannot be opened, read or written. The message states the reason and the remedy. */
export class StoreError extends errorClass("store", (message: string, flags: StoreFlags = {}) => {
  const { isFull = false, lockHolder, isUnavailable = lockHolder !== undefined } = flags;
  return [message, { isFull, isUnavailable, lockHolder }, flags];
}) {
  /** Whether the store is full. Clients may learn this flag; the message names files and stays private. */
  declare readonly isFull: boolean;
  /** Whether the store is unavailable for a time (server down, disk not mounted, lock), so that a retry can succeed. */
  declare readonly isUnavailable: boolean;
  /** The process that blocks the store, for clients too: `the process 42, which is stopped`. Undefined: none. */
  declare readonly lockHolder: string | undefined;
}

/** The session's project folder does not exist. */
export class ProjectFolderError extends errorClass("project_folder", () => ["project folder not found"]) {}

/** An attachment cannot be used. `path` is the caller's own path. */
export class AttachmentError extends errorClass("attachment", (path: string, reason: string) => [
  `failed to load attachments: ${path}: ${reason}`,
  { path },
]) {}

/** The requested model is unavailable. */
export class ModelSelectionError extends errorClass("model_selection", (reason: string) => [
  `model selection failed: ${reason}`,
]) {}

/** No model became available in time. The specification fixes the message. `reason`: the providers' last errors. */
export class ModelTimeoutError extends errorClass("model_timeout", (reason?: string) => [
  "timed out selecting model",
  { reason: reason ?? "" },
]) {}

/** The limit of concurrent runs or of attachment bytes is reached. A later retry can succeed. */
export class TooManyRunsError extends errorClass("too_many_runs", (retryAfterMs?: number, message?: string) => [
  message ?? "too many concurrent runs",
  { retryAfterMs: retryAfterMs ?? RETRY_AFTER_MS },
]) {}

/** The user for whom the agent acts may not do this. The message names what is missing. */
export class ForbiddenError extends errorClass("forbidden", withMessage) {}

/** The agent has no tool `bash`. */
export class CommandsDisabledError extends errorClass("commands_disabled", () => ["the tool bash is disabled"]) {}

/** The agent is closing. Also the abort reason of the runs that it cancels. */
export class ShuttingDownError extends errorClass("shutting_down", () => ["server shutting down"]) {}

/** The caller cancelled the run. All output up to then is stored. */
export class RunCancelledError extends errorClass("run_cancelled", (options?: ErrorOptions) =>
  withMessage("run cancelled", options),
) {}

/**
 * The budget of a run or its session is used up. Also the abort reason of a run that exceeds its time limit. Clients
 * never see this error: the run succeeds with `endedBy: "budget"`.
 */
export class BudgetExceededError extends errorClass("budget", () => ["the budget is used up"]) {}

/** The model gave no answer that fits `outputSchema`, also after retries. */
export class OutputSchemaError extends errorClass("output_schema", (reason: string) => [
  `the answer does not fit the output schema: ${reason}`,
]) {}

const RETRYABLE_KINDS = new Set<ProviderErrorKind>(["rate_limit", "overloaded", "server", "network", "timeout"]);

/** A provider failed. Text: `<provider>: <status or kind>: <message>`, redacted by the adapter, cut at 500 characters. */
export class ProviderError extends errorClass(
  "provider",
  (
    provider: string,
    kind: ProviderErrorKind,
    message: string,
    details: ErrorOptions & {
      status?: number | undefined;
      retryAfterMs?: number | undefined;
      unreachable?: boolean | undefined;
      hint?: string | undefined;
      contextTokens?: number | undefined;
    } = {},
  ) => {
    const { status, retryAfterMs, unreachable = false, hint, contextTokens } = details;
    const isLong = message.length > MAX_PROVIDER_MESSAGE_CHARACTERS;
    const shortMessage = isLong ? `${message.slice(0, MAX_PROVIDER_MESSAGE_CHARACTERS - 1)}…` : message;
    const text = `${provider}: ${status ?? kind}: ${shortMessage}`;
    return [text, { provider, kind, status, retryAfterMs, unreachable, hint, contextTokens }, details];
  },
) {
  /** HTTP status; undefined without a response. */
  declare readonly status: number | undefined;
  /** Delay that the provider requested before a retry, in ms; undefined if it requested none. */
  declare readonly retryAfterMs: number | undefined;
  /** Whether no server answered: the connection was refused, or the host name is unknown. */
  declare readonly unreachable: boolean;
  /** For `malformed_answer`: one sentence for the model about how to correct its answer; otherwise undefined. */
  declare readonly hint: string | undefined;
  /** For `context_length`: the limit in tokens that the provider reported; undefined if it reported none. */
  declare readonly contextTokens: number | undefined;
  /** Whether the same request can succeed on a retry. */
  get retryable(): boolean {
    return RETRYABLE_KINDS.has(this.kind);
  }
}

/** The run ended because the model repeated a call that always returned the same result. */
export class RepeatedCallsError extends errorClass("repeated_calls", (tool: string, times: number) => [
  `the model called ${tool} ${times} times without getting anything new; the run was ended`,
  { tool, times },
]) {}

/** Why a path was rejected. */
export type PathRefusal =
  "not_found" | "outside" | "denied" | "protected" | "folder" | "not_regular" | "permission" | "invalid" | "io";

/** A path is not accessible. The message states the reason without the path. */
export class PathError extends errorClass("path", withReason<PathRefusal>) {}

/** Work on untrusted input was aborted: the work exceeded a time or memory limit, or failed. */
export class WorkLimitError extends errorClass("work_limit", withReason<"time" | "memory" | "failed">) {}

/** The model's arguments do not fit the tool. The message is shown to the model. */
export class ToolInputError extends errorClass("tool_input", withMessage) {}

/** A tool failed. The message is shown to the model and names the next step. */
export class ToolError extends errorClass("tool", withMessage) {}

type ErrorsOf<M> = InstanceType<Extract<M[keyof M], new (...args: never) => GantryError>>;
/** Error class by code. `hasCode` narrows with this type. */
export type ErrorByCode = { [E in ErrorsOf<typeof import("./errors.js")> as E["code"]]: E };
