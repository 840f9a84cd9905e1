import { hasCode, type Logger } from "gantry";
import { RefusalLog } from "gantry/plugin";
import { createSessionNotFoundError, RpcError, toParamsError, toStoreText } from "./errors.js";
import { escapeInvisible } from "./printable-line.js";
import { ERROR_CODES, type RequestId } from "./wire.js";

/** Maximum characters of a client's text, such as the id of a request, in the log. */
const MAX_LOGGED_CHARACTERS = 64;

const refusalLogs = new WeakMap<Logger, RefusalLog>();

/** Converts the error of a handler for the client. Also logs a request that is refused: without a login, out of order, or at a limit. */
export function toAnswerError(error: unknown, logger: Logger, id: RequestId, method: string): RpcError {
  const rpcError = toRpcError(error, logger);
  const { rpcCode, message, isLimit } = rpcError;
  if (rpcCode === ERROR_CODES.authRequired || rpcCode === ERROR_CODES.invalidRequest || isLimit) {
    const log = refusalLogs.get(logger) ?? new RefusalLog(logger);
    refusalLogs.set(logger, log);
    log.log(message, { code: rpcCode, method: toLoggedText(method), request: toLoggedText(String(id)) });
  }
  return rpcError;
}

/** Logs internal errors, whose details are not sent. */
function toRpcError(error: unknown, logger: Logger): RpcError {
  if (error instanceof RpcError) return error;
  if (hasCode(error, "invalid_input"))
    return new RpcError(ERROR_CODES.invalidParams, `invalid params: ${error.message}`, { field: error.field });
  if (hasCode(error, "attachment")) return new RpcError(ERROR_CODES.invalidParams, error.message);
  if (hasCode(error, "session_not_found")) return createSessionNotFoundError(error.sessionId);
  if (hasCode(error, "session_busy")) return new RpcError(ERROR_CODES.invalidRequest, error.message);
  if (hasCode(error, "project_folder")) return toParamsError("cwd", "the absolute path of an existing folder");
  if (hasCode(error, "run_cancelled")) return new RpcError(ERROR_CODES.cancelled, "request cancelled");
  if (hasCode(error, "too_many_runs") || hasCode(error, "shutting_down"))
    return new RpcError(ERROR_CODES.internal, error.message, undefined, true);
  logger.error("a request failed", { error });
  return new RpcError(ERROR_CODES.internal, toStoreText(error) ?? "internal error");
}

function toLoggedText(text: string): string {
  return escapeInvisible(text.slice(0, MAX_LOGGED_CHARACTERS));
}
