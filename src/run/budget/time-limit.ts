import { ticks } from "../../base/clock.js";

/** Ends a run after so many seconds of its own time: while it waits for people, none of it passes. */
export class RunClock {
  #leftMs: number;
  /** Undefined while it stands. */
  #since: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #onEnd: () => void;

  constructor(seconds: number, onEnd: () => void) {
    this.#leftMs = seconds * 1000;
    this.#onEnd = onEnd;
  }

  go(): void {
    if (this.#since !== undefined) return;
    this.#since = ticks();
    this.#timer = setTimeout(this.#onEnd, Math.max(0, this.#leftMs));
  }

  stand(): void {
    if (this.#since === undefined) return;
    clearTimeout(this.#timer);
    this.#leftMs -= ticks() - this.#since;
    this.#since = undefined;
  }
}
