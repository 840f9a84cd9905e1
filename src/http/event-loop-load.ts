import { monotonicMs } from "../base/clock.js";
import type { Logger } from "../ports/logger.js";

/** Interval between samples of the delay, in ms. */
const SAMPLE_INTERVAL_MS = 500;
/**
 * Consecutive samples over the limit that mean overload. A long garbage collection, a stopped process and a suspended
 * machine cause one late sample, however long they last.
 */
const LATE_SAMPLES = 3;
/** Consecutive samples under half of the limit that end an overload. */
const TIMELY_SAMPLES = 2;
/** Time without a request that asks for the state, after which the measurement stops, in ms. */
const IDLE_MS = 60_000;

/**
 * Whether the event loop is overloaded: all its callbacks together take so long that each request waits. The delay is
 * the lateness of a timer. A histogram of `perf_hooks` uses a timer too, and wakes the process more often.
 *
 * Nothing is measured before the first call of `isOverloaded`, nor a minute after the last one.
 */
export class EventLoopLoad {
  readonly #limitMs: number;
  readonly #logger: Logger;
  #timer: NodeJS.Timeout | undefined;
  #lastCallAtMs = 0;
  #lateCount = 0;
  #timelyCount = 0;
  #isOverloaded = false;

  constructor(limitMs: number, logger: Logger) {
    this.#limitMs = limitMs;
    this.#logger = logger;
  }

  /** Whether requests that start work should be refused now. Starts the measurement. */
  isOverloaded(): boolean {
    this.#lastCallAtMs = monotonicMs();
    if (this.#timer === undefined) this.#scheduleSample();
    return this.#isOverloaded;
  }

  #scheduleSample(): void {
    const dueAtMs = monotonicMs() + SAMPLE_INTERVAL_MS;
    this.#timer = setTimeout(() => this.#addSample(monotonicMs() - dueAtMs), SAMPLE_INTERVAL_MS).unref();
  }

  #addSample(exactDelayMs: number): void {
    const delayMs = Math.round(exactDelayMs);
    this.#lateCount = delayMs > this.#limitMs ? this.#lateCount + 1 : 0;
    this.#timelyCount = delayMs < this.#limitMs / 2 ? this.#timelyCount + 1 : 0;
    const isOverloaded = this.#isOverloaded ? this.#timelyCount < TIMELY_SAMPLES : this.#lateCount >= LATE_SAMPLES;
    if (isOverloaded && !this.#isOverloaded)
      this.#logger.warn("the event loop is overloaded; requests that start work are refused", {
        delay_ms: delayMs,
        limit_ms: this.#limitMs,
      });
    else if (!isOverloaded && this.#isOverloaded)
      this.#logger.info("the event loop is no longer overloaded; requests are accepted again");
    this.#isOverloaded = isOverloaded;
    const isUnused = monotonicMs() - this.#lastCallAtMs > IDLE_MS;
    if (isOverloaded || !isUnused) this.#scheduleSample();
    else {
      this.#timer = undefined;
      this.#lateCount = this.#timelyCount = 0;
    }
  }
}
