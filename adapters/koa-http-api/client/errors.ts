import type { ApiAsk } from "../shapes.js";

/** Error of every rejected or failed request. */
export class ApiError extends Error {
  override readonly name: string = "ApiError";
  /**
   * Stable code for programs: the server's, like `session_not_found` or `provider`, or the client's own `disconnected`
   * and `invalid_answer`.
   */
  readonly code: string;
  /** HTTP status of the answer; 0 without an answer. */
  readonly status: number;
  /** Seconds to wait before a retry; undefined if the server did not request a delay. */
  readonly retryAfter: number | undefined;
  /** Body of the answer; undefined if the body was not JSON. */
  readonly body: unknown;
  constructor(
    message: string,
    fields: { code: string; status: number; retryAfter?: number | undefined; body?: unknown; cause?: unknown },
  ) {
    const { code, status, retryAfter, body, cause } = fields;
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.status = status;
    this.retryAfter = retryAfter;
    this.body = body;
  }
}

/** 401: a required header is missing or wrong. */
export class UnauthorizedError extends ApiError {
  override readonly name = "UnauthorizedError";
}

/** 404: the session, run, ask or path does not exist. */
export class NotFoundError extends ApiError {
  override readonly name = "NotFoundError";
}

/** 409: the session has an active run. */
export class BusyError extends ApiError {
  override readonly name = "BusyError";
}

/** 409: the question was already answered or withdrawn; `ask` has its final state. */
export class AskConflictError extends ApiError {
  override readonly name = "AskConflictError";
  get ask(): ApiAsk {
    return (this.body as { ask: ApiAsk }).ask;
  }
}

/** 503: a limit is reached, the store is unavailable, or the server is stopping. The request may be retried. */
export class UnavailableError extends ApiError {
  override readonly name = "UnavailableError";
}

/** The server is unreachable, or the connection broke before the answer was complete. */
export class DisconnectedError extends ApiError {
  override readonly name = "DisconnectedError";
}

/** Error for a missing or incomplete answer. */
export function createDisconnectedError(message: string, cause?: unknown): DisconnectedError {
  return new DisconnectedError(message, { code: "disconnected", status: 0, cause });
}

/** Error for an id that would change the address when it is the last part of a path. */
export function createInvalidIdError(resource: "session" | "run" | "ask" | "mcp_server", id: string): NotFoundError {
  return new NotFoundError(`${JSON.stringify(id)} is not a valid ${resource} id`, {
    code: `${resource}_not_found`,
    status: 404,
  });
}

/** Error for an answer that is not gantry's, most likely from a proxy. */
export function createInvalidAnswerError(
  status: number,
  message = `the server answered ${status}`,
  retryAfter?: number,
): ApiError {
  const code = "invalid_answer";
  return new (selectErrorClass(status, code))(message, { code, status, retryAfter });
}

/**
 * Converts an error response. A body without `error` and `code` gives `invalid_answer`. `retryAfter`: seconds;
 * undefined if the server did not request a delay.
 */
export function toApiError(status: number, body: unknown, retryAfter?: number): ApiError {
  const { error, code } = (body ?? {}) as { error?: unknown; code?: unknown };
  if (typeof error !== "string" || typeof code !== "string")
    return createInvalidAnswerError(status, undefined, retryAfter);
  return new (selectErrorClass(status, code))(error, { code, status, retryAfter, body });
}

function selectErrorClass(status: number, code: string): typeof ApiError {
  if (code === "ask_closed") return AskConflictError;
  if (code === "session_busy") return BusyError;
  return { 401: UnauthorizedError, 404: NotFoundError, 503: UnavailableError }[status] ?? ApiError;
}
