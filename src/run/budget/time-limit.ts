import { monotonicMs } from "../../base/clock.js";

/** Ends a run after its time limit in seconds. The clock is paused while the run waits for a user. */
export class RunClock {
  #remainingMs: number;
  /** Undefined while the clock is paused. */
  #startedAt: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #onEnd: () => void;

  constructor(seconds: number, onEnd: () => void) {
    this.#remainingMs = seconds * 1000;
    this.#onEnd = onEnd;
  }

  start(): void {
    if (this.#startedAt !== undefined) return;
    this.#startedAt = monotonicMs();
    this.#timer = setTimeout(this.#onEnd, Math.max(0, this.#remainingMs));
  }

  pause(): void {
    if (this.#startedAt === undefined) return;
    clearTimeout(this.#timer);
    this.#remainingMs -= monotonicMs() - this.#startedAt;
    this.#startedAt = undefined;
  }
}
