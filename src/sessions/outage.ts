import { monotonicMs } from "../base/clock.js";
import { hasCode } from "../ports/errors.js";
import type { LogFields, Logger } from "../ports/logger.js";

/** Minimum interval between two logs of the same message during an outage, in ms. */
const LOG_INTERVAL_MS = 60_000;
/** Maximum number of remembered messages; a program logs fewer. */
const MAX_MESSAGES = 100;

/** Whether an error means that the session store is temporarily unavailable. */
export function isUnavailable(error: unknown): boolean {
  return hasCode(error, "store") && error.isUnavailable === true;
}

/**
 * Returns a logger that passes its messages to `logger` and throttles messages about an unavailable store: each is
 * logged once a minute, with the number of repetitions since. Debug messages are not throttled. During an outage every
 * request fails, a thousand times a second, always for the same reason.
 */
export function throttleOutageLogs(logger: Logger): Logger {
  const loggedMessages = new Map<string, { loggedAtMs: number; suppressedCount: number }>();
  const createThrottledMethod =
    (level: "info" | "warn" | "error") =>
    (message: string, fields?: LogFields): void => {
      if (!fields || !isUnavailable(fields["error"])) {
        logger[level](message, fields);
        return;
      }
      const previousLog = loggedMessages.get(message);
      if (previousLog && monotonicMs() - previousLog.loggedAtMs < LOG_INTERVAL_MS) {
        previousLog.suppressedCount += 1;
        return;
      }
      if (loggedMessages.size >= MAX_MESSAGES) loggedMessages.clear();
      loggedMessages.set(message, { loggedAtMs: monotonicMs(), suppressedCount: 0 });
      logger[level](
        message,
        previousLog && previousLog.suppressedCount > 0 ? { ...fields, times: previousLog.suppressedCount + 1 } : fields,
      );
    };
  return {
    debug: (message, fields) => logger.debug(message, fields),
    info: createThrottledMethod("info"),
    warn: createThrottledMethod("warn"),
    error: createThrottledMethod("error"),
  };
}
