import type { Ask } from "../shapes.js";

/** Error of every rejected or failed request. */
export class GantryError extends Error {
  override readonly name: string = "GantryError";
  /**
   * Stable code for programs: the server's, like `session_not_found` or `provider`, or the client's own `disconnected`
   * and `invalid_answer`.
   */
  readonly code: string;
  /** HTTP status of the answer; 0 without an answer. */
  readonly status: number;
  /** Seconds to wait before a retry, as the server requested; undefined if it did not. */
  readonly retryAfter: number | undefined;
  /** Body of the answer; undefined if it was not JSON. */
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
export class UnauthorizedError extends GantryError {
  override readonly name = "UnauthorizedError";
}

/** 404: the session, run, ask or path does not exist. */
export class NotFoundError extends GantryError {
  override readonly name = "NotFoundError";
}

/** 409: the session has an active run. */
export class BusyError extends GantryError {
  override readonly name = "BusyError";
}

/** 409: the question was already answered or withdrawn; `ask` has its final state. */
export class AskClosedError extends GantryError {
  override readonly name = "AskClosedError";
  get ask(): Ask {
    return (this.body as { ask: Ask }).ask;
  }
}

/** 503: a limit is reached, the store is unavailable, or the server is stopping. The request may be retried. */
export class UnavailableError extends GantryError {
  override readonly name = "UnavailableError";
}

/** The server is unreachable, or the connection broke before the answer was complete. */
export class DisconnectedError extends GantryError {
  override readonly name = "DisconnectedError";
}

/** Error for a missing or incomplete answer. */
export function disconnected(message: string, cause?: unknown): DisconnectedError {
  return new DisconnectedError(message, { code: "disconnected", status: 0, cause });
}

/** Error for an id that would change the address when it is the last part of a path. */
export function invalidId(what: "session" | "run" | "ask", id: string): NotFoundError {
  return new NotFoundError(`${JSON.stringify(id)} is not a valid ${what} id`, {
    code: `${what}_not_found`,
    status: 404,
  });
}

/** Error for an answer that is not gantry's, most likely from a proxy. */
export function invalidAnswer(
  status: number,
  message = `the server answered ${status}`,
  retryAfter?: number,
): GantryError {
  const code = "invalid_answer";
  return new (errorClass(status, code))(message, { code, status, retryAfter });
}

/** Converts an error response; a body without `error` and `code` gives `invalid_answer`. */
export function toGantryError(status: number, body: unknown, retryAfter?: number): GantryError {
  const { error, code } = (body ?? {}) as { error?: unknown; code?: unknown };
  if (typeof error !== "string" || typeof code !== "string") return invalidAnswer(status, undefined, retryAfter);
  return new (errorClass(status, code))(error, { code, status, retryAfter, body });
}

function errorClass(status: number, code: string): typeof GantryError {
  if (code === "ask_closed") return AskClosedError;
  if (code === "session_busy") return BusyError;
  return { 401: UnauthorizedError, 404: NotFoundError, 503: UnavailableError }[status] ?? GantryError;
}
