import { monotonicMs } from "./clock.js";
import type { LogFields, Logger } from "../ports/logger.js";

/** Minimum interval between two lines with the same reason, in ms. */
const LOG_INTERVAL_MS = 10_000;
/** Maximum number of remembered reasons. Reasons are texts of the program, which has fewer. */
const MAX_REASONS = 100;

/**
 * Logs refused requests: a line for the first request with a reason, then a line each 10 s with the number of requests
 * since. A client can send thousands of such requests a second.
 */
export class RefusalLog {
  readonly #logger: Logger;
  readonly #linesByReason = new Map<string, { loggedAtMs: number; unloggedCount: number }>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** `fields` must not contain values of headers. */
  log(reason: string, fields: LogFields): void {
    const previousLine = this.#linesByReason.get(reason);
    if (previousLine && monotonicMs() - previousLine.loggedAtMs < LOG_INTERVAL_MS) {
      previousLine.unloggedCount += 1;
      return;
    }
    if (this.#linesByReason.size >= MAX_REASONS) this.#linesByReason.clear();
    this.#linesByReason.set(reason, { loggedAtMs: monotonicMs(), unloggedCount: 0 });
    const times = (previousLine?.unloggedCount ?? 0) + 1;
    this.#logger.info(`request refused: ${reason}`, times === 1 ? fields : { ...fields, times });
  }
}
