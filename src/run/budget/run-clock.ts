import { monotonicMs } from "../../base/clock.js";

/** Ends a run after its time limit in seconds. The clock is paused while the run waits for a user. */
export class RunClock {
  #remainingMs: number;
  /** Undefined while the clock is paused. */
  #startedAtMs: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #onExpired: () => void;

  constructor(seconds: number, onExpired: () => void) {
    this.#remainingMs = seconds * 1000;
    this.#onExpired = onExpired;
  }

  start(): void {
    if (this.#startedAtMs !== undefined) return;
    this.#startedAtMs = monotonicMs();
    this.#timer = setTimeout(this.#onExpired, Math.max(0, this.#remainingMs));
  }

  pause(): void {
    if (this.#startedAtMs === undefined) return;
    clearTimeout(this.#timer);
    this.#remainingMs -= monotonicMs() - this.#startedAtMs;
    this.#startedAtMs = undefined;
  }
}
