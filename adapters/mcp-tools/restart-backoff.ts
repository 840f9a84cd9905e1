import { McpServerError } from "./server-error.js";

/** Delays before a failed server restarts, by the number of failures in a row. */
const RETRY_DELAYS_MS = [0, 0, 1_000, 3_000, 10_000, 30_000] as const;
/** Delay after a start that timed out. Each new attempt would block a run for the whole timeout. */
const START_TIMEOUT_DELAY_MS = 120_000;
/** Uptime after which a server's failure count is reset. */
const MIN_STABLE_UPTIME_MS = 30_000;

/** Counts a server's failures in a row and delays its next start. Outlives the sessions that use the server. */
export class RestartBackoff {
  #failureCount = 0;
  #failedAtMs = 0;
  #reason = "";
  #isStartTimeout = false;
  #isLoginRequired = false;

  recordFailure(reason: string, isLoginRequired = false): void {
    this.#failureCount += 1;
    this.#failedAtMs = Date.now();
    this.#reason = reason;
    this.#isStartTimeout = false;
    this.#isLoginRequired = isLoginRequired;
  }

  recordStartTimeout(): void {
    this.recordFailure("the server did not start in time");
    this.#isStartTimeout = true;
  }

  recordUptime(uptimeMs: number): void {
    if (uptimeMs > MIN_STABLE_UPTIME_MS) this.#failureCount = 0;
  }

  /**
   * Throws the last failure while the delay has not elapsed. There is no delay if the server required a login and no
   * longer does, because a person has logged in.
   */
  check(isLoginRequired: boolean): void {
    if (this.#isLoginRequired && !isLoginRequired) return;
    const delayMs = this.#isStartTimeout
      ? START_TIMEOUT_DELAY_MS
      : RETRY_DELAYS_MS[Math.min(this.#failureCount, RETRY_DELAYS_MS.length - 1)]!;
    const remainingMs = this.#failedAtMs + delayMs - Date.now();
    if (remainingMs > 0)
      throw new McpServerError(`${this.#reason} (next attempt in ${Math.ceil(remainingMs / 1000)} s)`);
  }
}
