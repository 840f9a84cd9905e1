import { monotonicMs } from "../base/clock.js";

/** Offsets up to this limit, in ms, count as 0: two measurements differ by the duration of a call. */
const MIN_OFFSET_MS = 50;
/** Time for which a measured offset is used, in ms. Clocks without synchronisation drift by seconds a day. */
const MAX_AGE_MS = 600_000;
/** A change of this process's clock against the monotonic clock, in ms, after which the offset is measured again. */
const MAX_STEP_MS = 500;

/** The offset of a store's clock from the clock of this process, as last measured. */
export class MeasuredClock {
  #offsetMs = 0;
  #measuredAtMs = -Infinity;
  /** `Date.now()` minus the monotonic clock at the last measurement. A clock that is set changes this difference. */
  #baseMs = 0;

  /** In ms; positive if the store's clock is ahead. 0 before the first measurement. */
  get offsetMs(): number {
    return this.#offsetMs;
  }

  /** Whether the offset must be measured again: it is old, or the clock of this process was set. */
  get isOutdated(): boolean {
    const stepMs = Math.abs(Date.now() - monotonicMs() - this.#baseMs);
    return monotonicMs() - this.#measuredAtMs > MAX_AGE_MS || stepMs > MAX_STEP_MS;
  }

  /**
   * Takes over a time of the store's clock, in ms since 1970, that was read between `startedAtMs` (`Date.now()`) and
   * now.
   */
  update(storeTimeMs: number, startedAtMs: number): void {
    const endedAtMs = Date.now();
    const offsetMs = Math.round(storeTimeMs - (startedAtMs + endedAtMs) / 2);
    const toleranceMs = MIN_OFFSET_MS + (endedAtMs - startedAtMs) / 2;
    this.#offsetMs = Math.abs(offsetMs) <= toleranceMs ? 0 : offsetMs;
    this.#measuredAtMs = monotonicMs();
    this.#baseMs = endedAtMs - this.#measuredAtMs;
  }
}
