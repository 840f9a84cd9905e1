import { McpServerError } from "./connection.js";

/** Delays before a failed server restarts, by the number of failures in a row. */
const PAUSES_MS = [0, 0, 1_000, 3_000, 10_000, 30_000] as const;
/** Delay after a start that timed out. Each new attempt would block a run for the whole timeout. */
const LATE_MS = 120_000;
/** A server that ran longer than this resets the failure count. */
const LIVED_MS = 30_000;

/** Counts a server's failures in a row and delays its next start. It outlives the sessions that use the server. */
export class RestartBackoff {
  #failed = 0;
  #at = 0;
  #why = "";
  #late = false;

  failed(why: string): void {
    this.#failed += 1;
    this.#at = Date.now();
    this.#why = why;
    this.#late = false;
  }

  late(): void {
    this.failed("it was not ready in time");
    this.#late = true;
  }

  lived(ms: number): void {
    if (ms > LIVED_MS) this.#failed = 0;
  }

  /** Throws the last failure while the delay has not elapsed. */
  check(): void {
    const pause = this.#late ? LATE_MS : PAUSES_MS[Math.min(this.#failed, PAUSES_MS.length - 1)]!;
    const left = this.#at + pause - Date.now();
    if (left > 0) throw new McpServerError(`${this.#why} (it is tried again in ${Math.ceil(left / 1000)} s)`);
  }
}
