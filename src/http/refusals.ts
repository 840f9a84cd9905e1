import type { IncomingMessage } from "node:http";
import { RefusalLog } from "../base/refusal-log.js";
import type { Refusal } from "../ports/http-host.js";
import type { Logger } from "../ports/logger.js";
import { getRequestId } from "./request-fields.js";

/** Maximum characters of a path in the log. */
const MAX_PATH_CHARACTERS = 200;
/** Statuses that say that a client may not send a request, or that a limit is reached. Others are usual errors. */
const LOGGED_STATUSES: ReadonlySet<number> = new Set([401, 403, 413, 415, 429, 503]);

const logsByLogger = new WeakMap<Logger, RefusalLog>();

/**
 * Logs a refused HTTP request with its reason, in one line. Equal reasons are counted. The line has no query, and no
 * value of a header except a valid `X-Request-Id`. Refusals with other statuses are logged only for an upgrade.
 */
export function logRefusal(
  logger: Logger,
  request: IncomingMessage,
  { status, message, code }: Pick<Refusal, "status" | "message" | "code">,
  isUpgrade = false,
): void {
  if (!isUpgrade && !LOGGED_STATUSES.has(status)) return;
  let log = logsByLogger.get(logger);
  if (!log) logsByLogger.set(logger, (log = new RefusalLog(logger)));
  const path = (request.url ?? "/").split(/[?#]/, 1)[0]!.slice(0, MAX_PATH_CHARACTERS);
  const client = `http@${request.socket.remoteAddress ?? "unknown"}`;
  log.log(message, { status, code, method: request.method ?? "", path, request: getRequestId(request), client });
}
