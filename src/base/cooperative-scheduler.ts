import { monotonicMs } from "./clock.js";

/** Time in ms that all tasks together may use before the event loop continues. */
const SLICE_MS = 5;
/** Time in ms that one task may use while others wait. */
const STEP_MS = 1;

/**
 * Shares the event loop between tasks that could run without a pause, for example while processing answers that arrived
 * in one piece.
 *
 * Each task calls `turn` before its next step. New connections and tasks that have not started run in between.
 */
export class CooperativeScheduler {
  /**
   * Time, on the clock of `monotonicMs`, until which a caller may continue at once. 0 if `turn` was not called in this
   * iteration of the event loop.
   */
  #end = 0;
  readonly #waiting: (() => void)[] = [];

  /**
   * Returns undefined if the caller may continue at once. Otherwise returns a promise that resolves at the caller's
   * turn, in order of arrival.
   */
  turn(): Promise<void> | undefined {
    const now = monotonicMs();
    if (this.#end === 0) this.#begin(now);
    return now < this.#end ? undefined : new Promise((resolve) => this.#waiting.push(resolve));
  }

  #begin(now: number): void {
    this.#end = now + SLICE_MS;
    setImmediate(() => void this.#release());
  }

  async #release(): Promise<void> {
    let now = monotonicMs();
    const end = now + SLICE_MS;
    // Always releases at least one task, so that waiting tasks make progress however long a step takes.
    for (let go = this.#waiting.shift(); go; go = now < end ? this.#waiting.shift() : undefined) {
      this.#end = now + STEP_MS;
      go();
      // This callback runs after the step ends, if the step does not wait for I/O.
      await new Promise<void>((resolve) => process.nextTick(resolve));
      now = monotonicMs();
    }
    if (this.#waiting.length > 0) this.#begin(now);
    else this.#end = 0;
  }
}
