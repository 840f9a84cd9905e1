import type { Ask } from "./ask.js";
import type { UndoneFile } from "./file-history.js";

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
    // Only the prototype of the base class has the brand. Class names are not compared, because bundlers can change
    // them.
    if (Object.hasOwn((this as typeof GantryError).prototype, ERROR_BRAND))
      return error instanceof Error && ERROR_BRAND in error;
    return Function.prototype[Symbol.hasInstance].call(this as typeof GantryError, error);
  }
  get [ERROR_BRAND](): true {
    return true;
  }
  constructor(message: string, options?: { cause?: unknown }) {
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

/** The caller's value has the wrong shape; `field` names the value. */
export class InputError extends GantryError {
  readonly code = "invalid_input";
  constructor(
    readonly field: string,
    expected: string,
  ) {
    super(`${field}: expected ${expected}`);
  }
}

/** A config file, flag or adapter option is invalid. The message has the location and the expected value. */
export class ConfigError extends GantryError {
  readonly code = "config";
}

/** A transport cannot listen, for instance because the port is in use or the bind was refused. */
export class ListenError extends GantryError {
  readonly code = "listen";
}

/** A module named in the config cannot be loaded or is not an adapter of the required kind. */
export class AdapterError extends GantryError {
  readonly code = "adapter";
}

/** The session id or alias is unknown, or the session was deleted. */
export class SessionNotFoundError extends GantryError {
  readonly code = "session_not_found";
  constructor(readonly sessionId: string) {
    super("session not found");
  }
}

/** The run id is unknown, or the run's session was deleted. */
export class RunNotFoundError extends GantryError {
  readonly code = "run_not_found";
  constructor(readonly runId: string) {
    super("run not found");
  }
}

/** The ask id is unknown, or the ask's session was deleted. */
export class AskNotFoundError extends GantryError {
  readonly code = "ask_not_found";
  constructor(readonly askId: string) {
    super("ask not found");
  }
}

/** The ask is already answered or withdrawn; `ask` has the details. */
export class AskClosedError extends GantryError {
  readonly code = "ask_closed";
  constructor(readonly ask: Ask) {
    super(ask.state === "answered" ? "the question was answered already" : "the question was withdrawn");
  }
}

/** A session's id or alias, or a chain's index, is already in use. */
export class SessionExistsError extends GantryError {
  readonly code = "session_exists";
  constructor(readonly sessionId: string) {
    super("session exists already");
  }
}

/** Another run, in this or another process, holds the session. */
export class SessionBusyError extends GantryError {
  readonly code = "session_busy";
  constructor(readonly retryAfterMs = RETRY_AFTER_MS) {
    super("session is busy");
  }
}

/** A message's `seq` is already in use: two writers write without a lease. */
export class SeqTakenError extends GantryError {
  readonly code = "seq_taken";
  constructor(readonly seq: number) {
    super(`message seq ${seq} is taken`);
  }
}

/** Another run has this idempotency key, or a run of another chain has this id. */
export class RunKeyTakenError extends GantryError {
  readonly code = "run_key_taken";
  constructor(readonly key: string) {
    super("another run has this key");
  }
}

/** Another holder took the lease of the session. */
export class LeaseLostError extends GantryError {
  readonly code = "lease_lost";
  constructor(readonly rootId: string) {
    super("the session was taken over by another process");
  }
}

/** The session has no message or snapshot with that id. */
export class PointNotFoundError extends GantryError {
  readonly code = "point_not_found";
  constructor(kind: "message" | "snapshot") {
    super(`${kind} not found in the session`);
  }
}

/** No run can be undone, or no undo can be reverted. */
export class NothingToUndoError extends GantryError {
  readonly code = "nothing_to_undo";
}

/** A conflict prevents an undo; no file was changed. */
export class UndoConflictError extends GantryError {
  readonly code = "undo_conflict";
  /** All files that the undo would change. The outcomes `conflict`, `lost` and `failed` mark the reasons. */
  readonly files: readonly UndoneFile[];
  constructor(files: readonly UndoneFile[]) {
    const formatCount = (outcome: UndoneFile["outcome"]): string => {
      const count = files.filter((file) => file.outcome === outcome).length;
      return count === 0 ? "" : count === 1 ? "a file" : `${count} files`;
    };
    const [conflictText, lostText, failedText] = [formatCount("conflict"), formatCount("lost"), formatCount("failed")];
    const reason = conflictText
      ? `${conflictText} ${conflictText === "a file" ? "was" : "were"} changed outside the session since`
      : lostText
        ? `no copy of ${lostText} is stored`
        : `${failedText} cannot be restored`;
    super(`${reason}; nothing was undone`);
    this.files = files;
  }
}

/** The session store cannot be opened, read or written. The message states the reason and the remedy. */
export class StoreError extends GantryError {
  readonly code = "store";
  /** Whether the store is full. Clients may learn this flag; the message names files and stays private. */
  readonly isFull: boolean;
  /**
   * Whether the store is temporarily unreachable, for instance because its server is down or its disk is not mounted. A
   * later retry can succeed.
   */
  readonly isUnavailable: boolean;
  constructor(
    message: string,
    {
      isFull = false,
      isUnavailable = false,
      ...options
    }: { cause?: unknown; isFull?: boolean | undefined; isUnavailable?: boolean | undefined } = {},
  ) {
    super(message, options);
    this.isFull = isFull;
    this.isUnavailable = isUnavailable;
  }
}

/** The session's project folder does not exist. */
export class ProjectFolderError extends GantryError {
  readonly code = "project_folder";
  constructor() {
    super("project folder not found");
  }
}

/** An attachment cannot be used. `path` is the caller's own path. */
export class AttachmentError extends GantryError {
  readonly code = "attachment";
  constructor(
    readonly path: string,
    reason: string,
  ) {
    super(`failed to load attachments: ${path}: ${reason}`);
  }
}

/** The requested model is unavailable. */
export class ModelSelectionError extends GantryError {
  readonly code = "model_selection";
  constructor(reason: string) {
    super(`model selection failed: ${reason}`);
  }
}

/**
 * No model became available in time. The specification fixes the message. `reason` has the last error of each
 * provider; `""`: none.
 */
export class ModelTimeoutError extends GantryError {
  readonly code = "model_timeout";
  constructor(readonly reason = "") {
    super("timed out selecting model");
  }
}

/** The limit of concurrent runs or of attachment bytes is reached. A later retry can succeed. */
export class TooManyRunsError extends GantryError {
  readonly code = "too_many_runs";
  constructor(
    readonly retryAfterMs = RETRY_AFTER_MS,
    message = "too many concurrent runs",
  ) {
    super(message);
  }
}

/** The agent is closing. Also the abort reason of the runs that it cancels. */
export class ShuttingDownError extends GantryError {
  readonly code = "shutting_down";
  constructor() {
    super("server shutting down");
  }
}

/** The caller cancelled the run. All output up to then is stored. */
export class RunCancelledError extends GantryError {
  readonly code = "run_cancelled";
  constructor(options?: { cause?: unknown }) {
    super("run cancelled", options);
  }
}

/**
 * The budget of a run or its session is used up. Also the abort reason of a run that exceeds its time limit. Clients
 * never see this error: the run succeeds with `endedBy: "budget"`.
 */
export class BudgetExceededError extends GantryError {
  readonly code = "budget";
  constructor() {
    super("the budget is used up");
  }
}

/** The model gave no answer that fits `outputSchema`, also after retries. */
export class OutputSchemaError extends GantryError {
  readonly code = "output_schema";
  constructor(reason: string) {
    super(`the answer does not fit the output schema: ${reason}`);
  }
}

/** Category of a provider error. */
export type ProviderErrorKind =
  | "authentication"
  | "permission"
  | "not_found"
  | "bad_request"
  | "context_length"
  | "content_filter"
  | "rate_limit"
  | "overloaded"
  | "server"
  | "network"
  | "timeout"
  | "protocol"
  /** The content exceeds a fixed limit; a retry would fail too. */
  | "too_large"
  /**
   * The model's answer is invalid, for instance empty or with an unreadable call. A retry with a hint mostly succeeds.
   */
  | "malformed_answer";

const RETRYABLE_KINDS = new Set<ProviderErrorKind>(["rate_limit", "overloaded", "server", "network", "timeout"]);

/**
 * A provider failed. The text is `<provider>: <status or kind>: <message>`. The adapter redacts the message; this class
 * truncates it to 500 characters.
 */
export class ProviderError extends GantryError {
  readonly code = "provider";
  readonly provider: string;
  readonly kind: ProviderErrorKind;
  /** HTTP status; undefined without a response. */
  readonly status: number | undefined;
  /** Delay that the provider requested before a retry, in ms; undefined if it requested none. */
  readonly retryAfterMs: number | undefined;
  /** Whether no server answered: the connection was refused, or the host name is unknown. */
  readonly unreachable: boolean;
  /** For `malformed_answer`: one sentence for the model about how to correct its answer; otherwise undefined. */
  readonly hint: string | undefined;
  constructor(
    provider: string,
    kind: ProviderErrorKind,
    message: string,
    details: {
      status?: number | undefined;
      retryAfterMs?: number | undefined;
      unreachable?: boolean | undefined;
      hint?: string | undefined;
      cause?: unknown;
    } = {},
  ) {
    const maxCharacters = MAX_PROVIDER_MESSAGE_CHARACTERS;
    const text = message.length > maxCharacters ? `${message.slice(0, maxCharacters - 1)}…` : message;
    super(`${provider}: ${details.status ?? kind}: ${text}`, { cause: details.cause });
    this.provider = provider;
    this.kind = kind;
    this.status = details.status;
    this.retryAfterMs = details.retryAfterMs;
    this.unreachable = details.unreachable ?? false;
    this.hint = details.hint;
  }
  /** Whether the same request can succeed on a retry. */
  get retryable(): boolean {
    return RETRYABLE_KINDS.has(this.kind);
  }
}

/** The run ended because the model repeated a call that always returned the same result. */
export class RepeatedCallsError extends GantryError {
  readonly code = "repeated_calls";
  constructor(
    readonly tool: string,
    readonly times: number,
  ) {
    super(`the model called ${tool} ${times} times without getting anything new; the run was ended`);
  }
}

/** Why a path was rejected. */
export type PathRefusal =
  "not_found" | "outside" | "denied" | "protected" | "folder" | "not_regular" | "permission" | "invalid" | "io";

/** A path is not accessible. The message states the reason without the path. */
export class PathError extends GantryError {
  readonly code = "path";
  constructor(
    readonly reason: PathRefusal,
    message: string,
    options?: { cause?: unknown },
  ) {
    super(message, options);
  }
}

/** Work on untrusted input was aborted: the work exceeded a time or memory limit, or failed. */
export class WorkLimitError extends GantryError {
  readonly code = "work_limit";
  constructor(
    readonly reason: "time" | "memory" | "failed",
    message: string,
    options?: { cause?: unknown },
  ) {
    super(message, options);
  }
}

/** The model's arguments do not fit the tool. The message is shown to the model. */
export class ToolInputError extends GantryError {
  readonly code = "tool_input";
}

/** A tool failed. The message is shown to the model and names the next step. */
export class ToolError extends GantryError {
  readonly code = "tool";
}

type ErrorsOf<Module> = {
  [Name in keyof Module]: Module[Name] extends new (...args: never) => GantryError ? InstanceType<Module[Name]> : never;
}[keyof Module];
/** Error class by code. `hasCode` narrows with this type. */
export type ErrorByCode = { [E in ErrorsOf<typeof import("./errors.js")> as E["code"]]: E };
