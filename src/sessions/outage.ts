import { ticks } from "../base/clock.js";
import { hasCode } from "../ports/errors.js";
import type { LogFields, Logger } from "../ports/logger.js";

/** While the store is away, each message is logged so often, in ms. */
const AGAIN_MS = 60_000;
/** So many messages are told apart; a program has no more of them. */
const MESSAGES = 100;

/** Whether a failure is that the session store cannot be reached now, and passes by itself. */
export function isAway(error: unknown): boolean {
  return hasCode(error, "store") && error.unavailable === true;
}

/**
 * The same logger, but for what fails because the store is away: that is said once a minute in the same words, with how
 * often it was so meanwhile. Every request fails then, a thousand times a second, and the reason is always the same.
 */
export function quietInOutage(logger: Logger): Logger {
  const said = new Map<string, { at: number; more: number }>();
  const seldom =
    (level: "info" | "warn" | "error") =>
    (message: string, fields?: LogFields): void => {
      if (!fields || !isAway(fields["error"])) {
        logger[level](message, fields);
        return;
      }
      const before = said.get(message);
      if (before && ticks() - before.at < AGAIN_MS) {
        before.more += 1;
        return;
      }
      if (said.size >= MESSAGES) said.clear();
      said.set(message, { at: ticks(), more: 0 });
      logger[level](message, before && before.more > 0 ? { ...fields, times: before.more + 1 } : fields);
    };
  return {
    debug: (message, fields) => logger.debug(message, fields),
    info: seldom("info"),
    warn: seldom("warn"),
    error: seldom("error"),
  };
}
