import { monotonicMs } from "./clock.js";

/** Time in ms that all tasks together may use before the event loop continues. */
const SLICE_MS = 5;
/** Time in ms that one task may use while others wait. */
const STEP_MS = 1;

/**
 * Shares the event loop between tasks that could run without a pause, for example while processing answers that arrived
 * in one piece.
 *
 * Each task calls `waitForTurn` before its next step. New connections and tasks that have not started run in between.
 */
export class CooperativeScheduler {
  /**
   * Time, on the clock of `monotonicMs`, until which a caller may continue at once. 0 if no task has called
   * `waitForTurn` in this iteration of the event loop.
   */
  #sliceEndMs = 0;
  readonly #waitingTasks: (() => void)[] = [];

  /**
   * Returns undefined if the caller may continue at once. Otherwise returns a promise that resolves at the caller's
   * turn, in order of arrival.
   */
  waitForTurn(): Promise<void> | undefined {
    const nowMs = monotonicMs();
    if (this.#sliceEndMs === 0) this.#startSlice(nowMs);
    return nowMs < this.#sliceEndMs ? undefined : new Promise((resolve) => this.#waitingTasks.push(resolve));
  }

  #startSlice(nowMs: number): void {
    this.#sliceEndMs = nowMs + SLICE_MS;
    setImmediate(() => void this.#releaseTasks());
  }

  async #releaseTasks(): Promise<void> {
    let nowMs = monotonicMs();
    const releaseEndMs = nowMs + SLICE_MS;
    // Always releases at least one task, so that waiting tasks make progress however long a step takes.
    for (
      let resume = this.#waitingTasks.shift();
      resume;
      resume = nowMs < releaseEndMs ? this.#waitingTasks.shift() : undefined
    ) {
      this.#sliceEndMs = nowMs + STEP_MS;
      resume();
      // This callback runs after the step ends, if the step does not wait for I/O.
      await new Promise<void>((resolve) => process.nextTick(resolve));
      nowMs = monotonicMs();
    }
    if (this.#waitingTasks.length > 0) this.#startSlice(nowMs);
    else this.#sliceEndMs = 0;
  }
}
