import type { Ask, Failure } from "../shapes.js";

/** What every refused or failed request throws. `code` is the server's word for it, or one of the client's own. */
export class GantryError extends Error {
  /** For programs: `session_not_found`, `provider`, ...; of the client itself `disconnected` and `invalid_answer`. */
  readonly code: string;
  /** Of the answer; 0 where there was none. */
  readonly status: number;
  /** Seconds after which the server would like to be asked again. */
  readonly retryAfter: number | undefined;
  /** The answer that it is, as it came. */
  readonly body: unknown;
  constructor(
    message: string,
    { code, status, retryAfter, body, cause }: Pick<GantryError, "code" | "status"> & Partial<GantryError>,
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.code = code;
    this.status = status;
    this.retryAfter = retryAfter;
    this.body = body;
  }
}

/** 401: a required header is missing or wrong. */
export class UnauthorizedError extends GantryError {}
/** 404: there is no such session, run, ask or path. */
export class NotFoundError extends GantryError {}
/** 409: the session has a run under way. */
export class BusyError extends GantryError {}
/** 503: a limit was reached, the store is away, or the server stops: it may be asked again. */
export class UnavailableError extends GantryError {}
/** The server could not be reached, or the connection broke before the answer was whole. */
export class DisconnectedError extends GantryError {}
/** 409: the question was answered or withdrawn before; `ask` says how. */
export class AskClosedError extends GantryError {
  readonly ask: Ask;
  constructor(message: string, fields: ConstructorParameters<typeof GantryError>[1], ask: Ask) {
    super(message, fields);
    this.ask = ask;
  }
}

/** No answer, or half of one. */
export function disconnected(message: string, cause?: unknown): DisconnectedError {
  return new DisconnectedError(message, { code: "disconnected", status: 0, cause });
}

/** The error that an answer is. */
export function errorOf(status: number, body: Partial<Failure> & { ask?: Ask }, retryAfter?: number): GantryError {
  const { error = `the server answered ${status}`, code = "invalid_answer", ask } = body;
  const fields = { code, status, retryAfter, body };
  if (ask) return new AskClosedError(error, fields, ask);
  const Kind =
    status === 401
      ? UnauthorizedError
      : status === 404
        ? NotFoundError
        : code === "session_busy"
          ? BusyError
          : status === 503
            ? UnavailableError
            : GantryError;
  return new Kind(error, fields);
}
