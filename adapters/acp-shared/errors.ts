import { GantryError, hasCode, type Logger } from "gantry";
import { ERROR_CODES, type ErrorObject } from "./wire.js";

/** An error for the wire: a JSON-RPC code, a message without internal details, and data. */
export class RpcError extends Error {
  constructor(
    readonly rpcCode: number,
    message: string,
    readonly data?: unknown,
    /** Whether a limit or a shutdown refuses the request. */
    readonly isLimit = false,
  ) {
    super(message);
    this.name = "RpcError";
  }

  toObject(): ErrorObject {
    return { code: this.rpcCode, message: this.message, ...(this.data === undefined ? {} : { data: this.data }) };
  }
}

/** Error -32602 with the field and the expected value. */
export function toParamsError(field: string, expected: string): RpcError {
  return new RpcError(ERROR_CODES.invalidParams, `invalid params: ${field}: expected ${expected}`, { field });
}

export function createSessionNotFoundError(sessionId: string): RpcError {
  return new RpcError(ERROR_CODES.invalidParams, "session not found", { sessionId });
}

export function createSessionBusyError(sessionId: string): RpcError {
  return new RpcError(ERROR_CODES.invalidRequest, "session is busy", { sessionId });
}

export function createCancelledError(): RpcError {
  return new RpcError(ERROR_CODES.cancelled, "request cancelled");
}

/** Converts the failure of a run to a text for the client's user. Logs internal errors. */
export function toFailureText(error: unknown, logger: Logger): string {
  if (hasCode(error, "model_timeout") && error.reason !== "") return `${error.message}: ${error.reason}`;
  if (error instanceof Error && isGantryError(error) && !hasCode(error, "store")) return error.message;
  logger.error("a run failed", { error });
  return toStoreText(error) ?? "internal error";
}

/**
 * Text for a full, locked or unavailable store; undefined for other errors. The store's own message may contain file and
 * host names and is not sent.
 */
export function toStoreText(error: unknown): string | undefined {
  if (!hasCode(error, "store")) return undefined;
  if (error.isFull) return "session store: no space left";
  if (error.lockHolder !== undefined) return "session store locked";
  return error.isUnavailable ? "session store unavailable" : undefined;
}

/**
 * Whether the error's message is for users. Also compares the code, so that errors of another copy of the package
 * match.
 */
function isGantryError(error: Error): boolean {
  return (
    error instanceof GantryError ||
    (typeof (error as { code?: unknown }).code === "string" &&
      SENT_ERROR_CODES.has((error as unknown as { code: string }).code))
  );
}

/** Codes of run errors whose messages are for users. */
const SENT_ERROR_CODES: ReadonlySet<string> = new Set([
  "budget",
  "forbidden",
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

/** Settles like `work`, or rejects with error -32800 as soon as the signal aborts. */
export function raceCancellation<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(createCancelledError());
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
