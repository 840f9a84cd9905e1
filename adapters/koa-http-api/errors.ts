import { hasCode, type GantryError } from "gantry";
import { JsonError } from "gantry/plugin";
import type { Refusal } from "gantry/http";
import { SHUTTING_DOWN_REFUSAL } from "./http-serving.js";

/** An error response; thrown anywhere below the Koa application. */
export class HttpError extends Error {
  readonly status: number;
  /** Error code for programs. Default: the code of the status in `DEFAULT_CODE_BY_STATUS`, else `internal`. */
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;
  constructor(
    status: number,
    message: string,
    headers: Readonly<Record<string, string>> = {},
    code = DEFAULT_CODE_BY_STATUS[status] ?? "internal",
  ) {
    super(message);
    this.name = "HttpError";
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

const DEFAULT_CODE_BY_STATUS: Readonly<Record<number, string>> = {
  400: "invalid_request",
  404: "not_found",
  405: "method_not_allowed",
  413: "body_too_large",
  415: "unsupported_media_type",
  503: "too_many",
};

export const INVALID_BODY_MESSAGE = "invalid request body";
/** Generic message of internal errors; the details are in the log. */
export const INTERNAL_ERROR_MESSAGE = "internal error";
const UNEXPECTED_ERROR_REFUSAL: Refusal = { status: 500, message: INTERNAL_ERROR_MESSAGE, code: "internal" };
/** The store's own message names files and is not sent. */
const STORE_FULL_REFUSAL: Refusal = {
  status: 503,
  message: "session store: no space left",
  code: "store_full",
  headers: { "Retry-After": "30" },
};

/** Another process holds the lock of the store. A process that is stopped can hold it for hours. */
const STORE_LOCKED_REFUSAL: Refusal = {
  status: 503,
  message: "session store locked",
  code: "store_locked",
  headers: { "Retry-After": "5" },
};

/** A temporary failure. The store's own message may name hosts and is not sent. */
const STORE_UNAVAILABLE_REFUSAL: Refusal = {
  status: 503,
  message: "session store unavailable",
  code: "store_unavailable",
  headers: { "Retry-After": "1" },
};

/** Throws the error for a request that starts work, while the event loop is late. */
export function requireCapacity({ isOverloaded }: { isOverloaded: () => boolean }): void {
  if (isOverloaded()) throw new HttpError(503, "server overloaded", { "Retry-After": "2" }, "overloaded");
}

/** Whether the message is generic, so that only the log has the details. */
export function isInternal({ message }: Refusal | HttpError): boolean {
  return (
    message === INTERNAL_ERROR_MESSAGE ||
    message === STORE_FULL_REFUSAL.message ||
    message === STORE_LOCKED_REFUSAL.message ||
    message === STORE_UNAVAILABLE_REFUSAL.message
  );
}

/** Wire names of the fields of a run's input. */
const WIRE_FIELD_NAMES: Readonly<Record<string, string>> = {
  sessionId: "session_id",
  projectDir: "project_dir",
  outputSchema: "output_schema",
  attach: "files",
  idempotencyKey: "Idempotency-Key",
};

/** Converts an error before or outside a run to a refusal. The refusal has no details of internal errors. */
export function toRefusal(error: unknown): Refusal {
  if (error instanceof HttpError) return error;
  if (error instanceof JsonError) return { status: 400, message: INVALID_BODY_MESSAGE, code: "invalid_body" };
  if (!(error instanceof Error) || typeof (error as Partial<GantryError>).code !== "string")
    return UNEXPECTED_ERROR_REFUSAL;
  if (hasCode(error, "invalid_input")) {
    const { field } = error;
    if (field === "message") return { status: 400, message: "message is required", code: "message_required" };
    // The reason is sent for schemas, commands, retries and worktrees only, where clients cannot guess it.
    const reason =
      field === "outputSchema" || field === "commands" || field === "retry" || field === "worktree"
        ? error.message.slice(field.length)
        : "";
    return {
      status: 400,
      message: `invalid field: ${WIRE_FIELD_NAMES[field] ?? field}${reason}`,
      code: "invalid_field",
    };
  }
  if (hasCode(error, "session_busy") || hasCode(error, "too_many_runs")) {
    const headers = { "Retry-After": String(Math.max(1, Math.ceil(error.retryAfterMs / 1000))) };
    const { code, message } = error;
    return { status: code === "session_busy" ? 409 : 503, message, code, headers };
  }
  if (hasCode(error, "store") && error.isFull) return STORE_FULL_REFUSAL;
  if (hasCode(error, "store") && error.lockHolder !== undefined) return STORE_LOCKED_REFUSAL;
  if (hasCode(error, "store") && error.isUnavailable) return STORE_UNAVAILABLE_REFUSAL;
  if (hasCode(error, "shutting_down")) return SHUTTING_DOWN_REFUSAL;
  const { code } = error as GantryError;
  const status = STATUS_BY_CODE[code];
  return status === undefined ? UNEXPECTED_ERROR_REFUSAL : { status, message: error.message, code };
}

const STATUS_BY_CODE: Readonly<Record<string, number>> = {
  session_not_found: 404,
  run_not_found: 404,
  point_not_found: 404,
  nothing_to_undo: 409,
  undo_conflict: 409,
  worktree_conflict: 409,
  ask_not_found: 404,
  ask_closed: 409,
  budget: 429,
  forbidden: 403,
  commands_disabled: 403,
  project_folder: 400,
  attachment: 400,
  model_selection: 400,
  model_timeout: 504,
  run_cancelled: 500,
  provider: 500,
  repeated_calls: 500,
  output_schema: 500,
  lease_lost: 500,
};

/** Converts the error of a run that failed after its start to a refusal. */
export function toRunRefusal(error: unknown): Refusal {
  // The session existed when the run started: it was deleted meanwhile.
  if (hasCode(error, "session_not_found")) return { status: 500, message: "session deleted", code: "session_deleted" };
  return toRefusal(error);
}
