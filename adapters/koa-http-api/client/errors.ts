import type { Ask } from "../shapes.js";

/** What every refused or failed request throws. */
export class GantryError extends Error {
  override readonly name: string = "GantryError";
  /** The server's word, for programs: `session_not_found`, `provider`; of the client itself `disconnected` and `invalid_answer`. */
  readonly code: string;
  /** Of the answer; 0 where there was none. */
  readonly status: number;
  /** Seconds after which the server would like to be asked again. */
  readonly retryAfter: number | undefined;
  /** The answer, where it was JSON. */
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

/** 404: there is no such session, run, ask or path. */
export class NotFoundError extends GantryError {
  override readonly name = "NotFoundError";
}

/** 409: the session has a run under way. */
export class BusyError extends GantryError {
  override readonly name = "BusyError";
}

/** 409: the question was answered or withdrawn before; `ask` says how. */
export class AskClosedError extends GantryError {
  override readonly name = "AskClosedError";
  get ask(): Ask {
    return (this.body as { ask: Ask }).ask;
  }
}

/** 503: a limit was reached, the store is away, or the server stops: it may be asked again. */
export class UnavailableError extends GantryError {
  override readonly name = "UnavailableError";
}

/** The server could not be reached, or the connection broke before the answer was whole. */
export class DisconnectedError extends GantryError {
  override readonly name = "DisconnectedError";
}

/** No answer, or half of one. */
export function disconnected(message: string, cause?: unknown): DisconnectedError {
  return new DisconnectedError(message, { code: "disconnected", status: 0, cause });
}

/** Nothing has this id: as the last name of an address it would make it another one. */
export function noId(what: "session" | "run" | "ask", id: string): NotFoundError {
  return new NotFoundError(`${JSON.stringify(id)} is the id of no ${what}`, { code: `${what}_not_found`, status: 404 });
}

/** An answer that no gantry gives: of something between, most likely. */
export function invalidAnswer(
  status: number,
  message = `the server answered ${status}`,
  retryAfter?: number,
): GantryError {
  const code = "invalid_answer";
  return new (kindOf(status, code))(message, { code, status, retryAfter });
}

/** The error that an answer is. */
export function errorOf(status: number, body: unknown, retryAfter?: number): GantryError {
  const { error, code } = (body ?? {}) as { error?: unknown; code?: unknown };
  if (typeof error !== "string" || typeof code !== "string") return invalidAnswer(status, undefined, retryAfter);
  return new (kindOf(status, code))(error, { code, status, retryAfter, body });
}

function kindOf(status: number, code: string): typeof GantryError {
  if (code === "ask_closed") return AskClosedError;
  if (code === "session_busy") return BusyError;
  return { 401: UnauthorizedError, 404: NotFoundError, 503: UnavailableError }[status] ?? GantryError;
}
