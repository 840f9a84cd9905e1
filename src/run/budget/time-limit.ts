import { monotonicMs } from "../../base/clock.js";

/** Ends a run after its time limit in seconds. The clock is paused while the run waits for a user. */
export class RunClock {
  #leftMs: number;
  /** Undefined while the clock is paused. */
  #since: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #onEnd: () => void;

  constructor(seconds: number, onEnd: () => void) {
    this.#leftMs = seconds * 1000;
    this.#onEnd = onEnd;
  }

  go(): void {
    if (this.#since !== undefined) return;
    this.#since = monotonicMs();
    this.#timer = setTimeout(this.#onEnd, Math.max(0, this.#leftMs));
  }

  stand(): void {
    if (this.#since === undefined) return;
    clearTimeout(this.#timer);
    this.#leftMs -= monotonicMs() - this.#since;
    this.#since = undefined;
  }
}
