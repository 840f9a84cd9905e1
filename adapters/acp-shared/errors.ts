import { GantryError, hasCode, type Logger } from "gantry";
import { CODES, type ErrorObject } from "./wire.js";

/** An error for the wire: a JSON-RPC code, a message without internal details, and data. */
export class RpcError extends Error {
  constructor(
    readonly rpcCode: number,
    message: string,
    readonly data?: unknown,
  ) {
    super(message);
    this.name = "RpcError";
  }

  toObject(): ErrorObject {
    return { code: this.rpcCode, message: this.message, ...(this.data === undefined ? {} : { data: this.data }) };
  }
}

/** Error -32602 with the field and the expected value. */
export function invalidParams(field: string, expected: string): RpcError {
  return new RpcError(CODES.invalidParams, `invalid params: ${field}: expected ${expected}`, { field });
}

export function sessionNotFound(sessionId: string): RpcError {
  return new RpcError(CODES.invalidParams, "session not found", { sessionId });
}

export function sessionBusy(sessionId: string): RpcError {
  return new RpcError(CODES.invalidRequest, "session is busy", { sessionId });
}

export function requestCancelled(): RpcError {
  return new RpcError(CODES.cancelled, "request cancelled");
}

/** Converts the error of a handler for the client. Logs internal errors, whose details are not sent. */
export function toRpcError(error: unknown, logger: Logger): RpcError {
  if (error instanceof RpcError) return error;
  if (hasCode(error, "invalid_input"))
    return new RpcError(CODES.invalidParams, `invalid params: ${error.message}`, { field: error.field });
  if (hasCode(error, "attachment")) return new RpcError(CODES.invalidParams, error.message);
  if (hasCode(error, "session_not_found")) return sessionNotFound(error.sessionId);
  if (hasCode(error, "session_busy")) return new RpcError(CODES.invalidRequest, error.message);
  if (hasCode(error, "project_folder")) return invalidParams("cwd", "the absolute path of an existing folder");
  if (hasCode(error, "run_cancelled")) return requestCancelled();
  if (hasCode(error, "too_many_runs") || hasCode(error, "shutting_down"))
    return new RpcError(CODES.internal, error.message);
  logger.error("a request failed", { error });
  return new RpcError(CODES.internal, storeText(error) ?? "internal error");
}

/** Failure of a run as text for the client's user. Logs internal errors. */
export function failureText(error: unknown, logger: Logger): string {
  // A store's own message contains file names of the server and is not sent.
  if (hasCode(error, "model_timeout") && error.reason !== "") return `${error.message}: ${error.reason}`;
  if (error instanceof Error && isGantryError(error) && !hasCode(error, "store")) return error.message;
  logger.error("a run failed", { error });
  return storeText(error) ?? "internal error";
}

/**
 * Text for a store failure: that the user can fix it, or that it is temporary. The store's own message contains files
 * and hosts.
 */
function storeText(error: unknown): string | undefined {
  if (!hasCode(error, "store")) return undefined;
  if (error.full) return "session store: no room left";
  return error.unavailable ? "session store unavailable" : undefined;
}

/** Compares the code, so that errors of another copy of the package match too. */
function isGantryError(error: Error): boolean {
  return (
    error instanceof GantryError ||
    (typeof (error as { code?: unknown }).code === "string" && KNOWN.has((error as unknown as { code: string }).code))
  );
}

const KNOWN: ReadonlySet<string> = new Set([
  "lease_lost",
  "model_selection",
  "model_timeout",
  "project_folder",
  "provider",
  "repeated_calls",
  "too_many_runs",
]);

/** Whether a run ended on request: by a cancel, a shutdown or a deletion. */
export function isCancellation(error: unknown): boolean {
  return hasCode(error, "run_cancelled") || hasCode(error, "shutting_down") || hasCode(error, "session_not_found");
}
