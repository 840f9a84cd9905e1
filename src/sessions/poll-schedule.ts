import { onAbort } from "../base/abort.js";
import type { Notifier } from "../ports/session-driver.js";

/** Schedules the polls of a chain: soon after a notification, otherwise periodically. */
export class PollSchedule {
  readonly #minIntervalMs: number;
  readonly #unsubscribe: () => void;
  /** Time of the last poll, by `performance.now()`. */
  #lastPollAtMs = -Infinity;
  /** Notification since the last poll. `hint`: from the notifier. `own`: from `wakeNow`, which needs no interval. */
  #notification: "none" | "hint" | "own" = "none";
  #timer: NodeJS.Timeout | undefined;
  #wake: (() => void) | undefined;

  /**
   * `minIntervalMs`: minimum time between two polls, for any number of notifications. A run in another process sends
   * many.
   */
  constructor(notifier: Notifier, rootId: string, minIntervalMs: number) {
    this.#minIntervalMs = minIntervalMs;
    this.#unsubscribe = notifier.subscribe(rootId, () => this.#notify("hint"));
  }

  /** Wakes the waiter at once, for changes made by this process. */
  wakeNow(): void {
    this.#notify("own");
  }

  /** Resolves when it is time to poll, after at most `maxDelayMs`. Rejects with the signal's reason. */
  async next(maxDelayMs: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    let removeAbortListener = (): void => undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        this.#wake = resolve;
        this.#schedule(maxDelayMs);
        if (this.#notification !== "none") this.#notify(this.#notification);
        if (signal) removeAbortListener = onAbort(signal, () => reject(signal.reason as Error));
      });
    } finally {
      removeAbortListener();
      clearTimeout(this.#timer);
      this.#wake = undefined;
      this.#notification = "none";
      this.#lastPollAtMs = performance.now();
    }
  }

  /** Stops listening. */
  end(): void {
    this.#unsubscribe();
    clearTimeout(this.#timer);
  }

  #notify(notification: "hint" | "own"): void {
    if (this.#notification !== "own") this.#notification = notification;
    if (notification === "own") this.#wake?.();
    else if (this.#wake) this.#schedule(Math.max(0, this.#lastPollAtMs + this.#minIntervalMs - performance.now()));
  }

  #schedule(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#wake?.(), delayMs);
  }
}
