import { monotonicMs } from "../base/clock.js";
import { hasCode } from "../ports/errors.js";
import type { LogFields, Logger } from "../ports/logger.js";

/** Minimum interval between two logs of the same message during an outage, in ms. */
const AGAIN_MS = 60_000;
/** Maximum number of distinct messages; a program logs fewer. */
const MESSAGES = 100;

/** Whether an error means that the session store is temporarily unavailable. */
export function isUnavailable(error: unknown): boolean {
  return hasCode(error, "store") && error.unavailable === true;
}

/**
 * Returns the same logger, which throttles messages about an unavailable store. Each message is logged once a minute,
 * with the number of repetitions in between. During an outage every request fails, a thousand times a second, always
 * for the same reason.
 */
export function throttleOutageLogs(logger: Logger): Logger {
  const said = new Map<string, { at: number; more: number }>();
  const seldom =
    (level: "info" | "warn" | "error") =>
    (message: string, fields?: LogFields): void => {
      if (!fields || !isUnavailable(fields["error"])) {
        logger[level](message, fields);
        return;
      }
      const before = said.get(message);
      if (before && monotonicMs() - before.at < AGAIN_MS) {
        before.more += 1;
        return;
      }
      if (said.size >= MESSAGES) said.clear();
      said.set(message, { at: monotonicMs(), more: 0 });
      logger[level](message, before && before.more > 0 ? { ...fields, times: before.more + 1 } : fields);
    };
  return {
    debug: (message, fields) => logger.debug(message, fields),
    info: seldom("info"),
    warn: seldom("warn"),
    error: seldom("error"),
  };
}
