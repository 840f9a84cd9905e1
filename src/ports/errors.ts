import type { Ask } from "./ask.js";
import type { UndoneFile } from "./file-history.js";

const BRAND = Symbol.for("gantry.error");

/** Base of every error that gantry throws on purpose. Tell them apart by `code`, which also works across copies of the package. */
export abstract class GantryError extends Error {
  abstract readonly code: string;
  /** Plugins may bring a copy of the package; their errors are ours. */
  static override [Symbol.hasInstance](this: unknown, error: unknown): boolean {
    // The base class; by its own name it would lose that in a bundle.
    if (Object.hasOwn((this as typeof GantryError).prototype, BRAND)) return error instanceof Error && BRAND in error;
    return Function.prototype[Symbol.hasInstance].call(this as typeof GantryError, error);
  }
  get [BRAND](): true {
    return true;
  }
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
  }
  /** Code, message and the fields of the class, so that an event in JSON keeps its error. Never the stack or the cause. */
  toJSON(): { code: string; message: string; [field: string]: unknown } {
    const { code, message, name: _name, ...fields } = this;
    return { code, message, ...fields };
  }
}

/** Whether `error` is a gantry error with this code, from whichever copy of the package. */
export function hasCode<C extends keyof ErrorByCode>(error: unknown, code: C): error is ErrorByCode[C] {
  return error instanceof Error && (error as { code?: unknown }).code === code;
}

/** A caller gave something of the wrong shape; `field` names it. */
export class InputError extends GantryError {
  readonly code = "invalid_input";
  constructor(
    readonly field: string,
    expected: string,
  ) {
    super(`${field}: expected ${expected}`);
  }
}

/** A config file, flag or adapter option is wrong; the message is one line that says where and what was expected. */
export class ConfigError extends GantryError {
  readonly code = "config";
}

/** A transport cannot listen: port in use, bind refused. */
export class ListenError extends GantryError {
  readonly code = "listen";
}

/** A module named in the config cannot be loaded, or is no adapter of the kind wanted. */
export class AdapterError extends GantryError {
  readonly code = "adapter";
}

/** No session has this id or alias, or it was deleted. */
export class SessionNotFoundError extends GantryError {
  readonly code = "session_not_found";
  constructor(readonly sessionId: string) {
    super("session not found");
  }
}

/** No run has this id, or its session was deleted. */
export class RunNotFoundError extends GantryError {
  readonly code = "run_not_found";
  constructor(readonly runId: string) {
    super("run not found");
  }
}

/** No ask has this id, or its session was deleted. */
export class AskNotFoundError extends GantryError {
  readonly code = "ask_not_found";
  constructor(readonly askId: string) {
    super("ask not found");
  }
}

/** An ask was answered already, or withdrawn; `ask` says how. */
export class AskClosedError extends GantryError {
  readonly code = "ask_closed";
  constructor(readonly ask: Ask) {
    super(ask.state === "answered" ? "the question was answered already" : "the question was withdrawn");
  }
}

/** A session's id or alias, or a chain's index, is taken. */
export class SessionExistsError extends GantryError {
  readonly code = "session_exists";
  constructor(readonly sessionId: string) {
    super("session exists already");
  }
}

/** Another run, here or in another process, holds the session. */
export class SessionBusyError extends GantryError {
  readonly code = "session_busy";
  constructor(readonly retryAfterMs = 1000) {
    super("session is busy");
  }
}

/** A message's `seq` is taken: two writers without a lease. */
export class SeqTakenError extends GantryError {
  readonly code = "seq_taken";
  constructor(readonly seq: number) {
    super(`message seq ${seq} is taken`);
  }
}

/** Another run has this idempotency key, or a run of another chain this id. */
export class RunKeyTakenError extends GantryError {
  readonly code = "run_key_taken";
  constructor(readonly key: string) {
    super("another run has this key");
  }
}

/** The right to write to the session went to another holder. */
export class LeaseLostError extends GantryError {
  readonly code = "lease_lost";
  constructor(readonly rootId: string) {
    super("the session was taken over by another process");
  }
}

/** No message or snapshot of that id in the session. */
export class PointNotFoundError extends GantryError {
  readonly code = "point_not_found";
  constructor(what: "message" | "snapshot") {
    super(`${what} not found in the session`);
  }
}

/** There is no run whose work could be undone, or no undo that could be taken back. */
export class NothingToUndoError extends GantryError {
  readonly code = "nothing_to_undo";
}

/** Something is in the way of an undo, so that nothing was undone. */
export class UndoConflictError extends GantryError {
  readonly code = "undo_conflict";
  /** All that would be undone; `conflict`, `lost` and `failed` say why not. */
  readonly files: readonly UndoneFile[];
  constructor(files: readonly UndoneFile[]) {
    const of = (outcome: UndoneFile["outcome"]): string => {
      const count = files.filter((file) => file.outcome === outcome).length;
      return count === 0 ? "" : count === 1 ? "a file" : `${count} files`;
    };
    const [changed, lost, failed] = [of("conflict"), of("lost"), of("failed")];
    const why = changed
      ? `${changed} ${changed === "a file" ? "was" : "were"} changed by somebody else since`
      : lost
        ? `of ${lost} no copy is kept`
        : `${failed} cannot be brought back`;
    super(`${why}; nothing was undone`);
    this.files = files;
  }
}

/** The session store cannot be opened, read or written; the message says why and what to do. */
export class StoreError extends GantryError {
  readonly code = "store";
  /** Nothing more fits: what a client may be told, while the message names files. */
  readonly full: boolean;
  /** It cannot be reached now (its server is away, its disk not mounted): the same asked again later may well be done. */
  readonly unavailable: boolean;
  constructor(
    message: string,
    {
      full = false,
      unavailable = false,
      ...options
    }: { cause?: unknown; full?: boolean | undefined; unavailable?: boolean | undefined } = {},
  ) {
    super(message, options);
    this.full = full;
    this.unavailable = unavailable;
  }
}

/** The folder that a session works on is gone. */
export class ProjectFolderError extends GantryError {
  readonly code = "project_folder";
  constructor() {
    super("project folder not found");
  }
}

/** An attachment cannot be used. The path is the caller's own. */
export class AttachmentError extends GantryError {
  readonly code = "attachment";
  constructor(
    readonly path: string,
    why: string,
  ) {
    super(`failed to load attachments: ${path}: ${why}`);
  }
}

/** The model asked for is not to be had. */
export class ModelSelectionError extends GantryError {
  readonly code = "model_selection";
  constructor(why: string) {
    super(`model selection failed: ${why}`);
  }
}

/** No model was found in time. The message is the specification's; `why` tells what each provider said last, `""`: nothing. */
export class ModelTimeoutError extends GantryError {
  readonly code = "model_timeout";
  constructor(readonly why = "") {
    super("timed out selecting model");
  }
}

/** As many runs as may go on, or as many bytes of attachments as may be held; later there is room again. */
export class TooManyRunsError extends GantryError {
  readonly code = "too_many_runs";
  constructor(
    readonly retryAfterMs = 1000,
    message = "too many concurrent runs",
  ) {
    super(message);
  }
}

/** The agent is closing; also the reason with which it cancels runs. */
export class ShuttingDownError extends GantryError {
  readonly code = "shutting_down";
  constructor() {
    super("server shutting down");
  }
}

/** The run was cancelled by its caller; what was said until then is stored. */
export class RunCancelledError extends GantryError {
  readonly code = "run_cancelled";
  constructor(options?: { cause?: unknown }) {
    super("run cancelled", options);
  }
}

/**
 * What a run or its session may spend is used up; also the reason with which a run ends that took too long. Told to
 * nobody as a failure: the run ends well, `endedBy` its budget.
 */
export class BudgetSpentError extends GantryError {
  readonly code = "budget";
  constructor() {
    super("the budget is used up");
  }
}

/** A model gave no answer that `outputSchema` holds true of, also when it was asked again. */
export class OutputSchemaError extends GantryError {
  readonly code = "output_schema";
  constructor(why: string) {
    super(`the answer does not fit the output schema: ${why}`);
  }
}

/** What went wrong at a provider. */
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
  /** More than anybody can hold; asked again it would be the same. */
  | "too_large"
  /** The model's own slip (an empty answer, a call that cannot be read): asked again with a word, it mostly does better. */
  | "malformed_answer";

const RETRYABLE: ReadonlySet<ProviderErrorKind> = new Set(["rate_limit", "overloaded", "server", "network", "timeout"]);

/**
 * A provider failed. The text is `<provider>: <status or kind>: <message>`; the message is redacted by the adapter
 * and cut at 500 characters.
 */
export class ProviderError extends GantryError {
  readonly code = "provider";
  readonly provider: string;
  readonly kind: ProviderErrorKind;
  /** HTTP status, where there was an answer. */
  readonly status: number | undefined;
  /** How long the provider asked to wait. */
  readonly retryAfterMs: number | undefined;
  /** Whether nobody is there to answer: the connection was refused, or no such host is known. */
  readonly unreachable: boolean;
  /** Of a `malformed_answer`: what to tell the model, one sentence. */
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
    const text = message.length > 500 ? `${message.slice(0, 499)}…` : message;
    super(`${provider}: ${details.status ?? kind}: ${text}`, { cause: details.cause });
    this.provider = provider;
    this.kind = kind;
    this.status = details.status;
    this.retryAfterMs = details.retryAfterMs;
    this.unreachable = details.unreachable ?? false;
    this.hint = details.hint;
  }
  /** Whether asking the same again may help. */
  get retryable(): boolean {
    return RETRYABLE.has(this.kind);
  }
}

/** A model made the same call again and again and got the same result each time; the run was ended. */
export class RepeatedCallsError extends GantryError {
  readonly code = "repeated_calls";
  constructor(
    readonly tool: string,
    readonly times: number,
  ) {
    super(`the model called ${tool} ${times} times without getting anything new; the run was ended`);
  }
}

/** Why a path was refused. */
export type PathRefusal =
  "not_found" | "outside" | "denied" | "protected" | "folder" | "not_regular" | "permission" | "invalid" | "io";

/** A path is not to be had; the message says why, without the path. */
export class PathError extends GantryError {
  readonly code = "path";
  constructor(
    readonly reason: PathRefusal,
    why: string,
    options?: { cause?: unknown },
  ) {
    super(why, options);
  }
}

/** Work on foreign input was given up: it took too much time or memory, or failed. */
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

/** What the model sent does not fit a tool; the message is shown to the model. */
export class ToolInputError extends GantryError {
  readonly code = "tool_input";
}

/** A tool could not do its work; the message is shown to the model and says the next step. */
export class ToolError extends GantryError {
  readonly code = "tool";
}

type Thrown<Module> = {
  [Name in keyof Module]: Module[Name] extends new (...args: never) => GantryError ? InstanceType<Module[Name]> : never;
}[keyof Module];
/** The class of an error by its code: what `hasCode` tells TypeScript. */
export type ErrorByCode = { [E in Thrown<typeof import("./errors.js")> as E["code"]]: E };
