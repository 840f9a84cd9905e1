import { ticks } from "./clock.js";

/** So long, in ms, all sharers together may work on in one go before the event loop has its turn. */
const SLICE_MS = 5;
/** So long, in ms, one of them may while others wait. */
const STEP_MS = 1;

/**
 * Shares the event loop between those who could work on without end, as answers that came in one piece can: each asks
 * before its next step. Connections that are accepted and whoever has not begun come in between.
 */
export class LoopShare {
  /** Until when, by `ticks`, whoever asks may go on; 0 where nobody asked in this turn of the event loop. */
  #end = 0;
  readonly #waiting: (() => void)[] = [];

  /** Undefined: go on. Else it resolves when it is the caller's turn, first come, first served. */
  turn(): Promise<void> | undefined {
    const now = ticks();
    if (this.#end === 0) this.#begin(now);
    return now < this.#end ? undefined : new Promise((resolve) => this.#waiting.push(resolve));
  }

  #begin(now: number): void {
    this.#end = now + SLICE_MS;
    setImmediate(() => void this.#release());
  }

  async #release(): Promise<void> {
    let now = ticks();
    const end = now + SLICE_MS;
    // At least one: whoever waits gets on, however long a step takes.
    for (let go = this.#waiting.shift(); go; go = now < end ? this.#waiting.shift() : undefined) {
      this.#end = now + STEP_MS;
      go();
      // Comes when the step is done, as far as it needs nothing from outside.
      await new Promise<void>((resolve) => process.nextTick(resolve));
      now = ticks();
    }
    if (this.#waiting.length > 0) this.#begin(now);
    else this.#end = 0;
  }
}
