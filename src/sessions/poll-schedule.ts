import { onAbort } from "../base/abort.js";
import type { Notifier } from "../ports/notifier.js";

/** Schedules the polls of a chain: soon after a notification, otherwise periodically. */
export class PollSchedule {
  readonly #gapMs: number;
  readonly #unsubscribe: () => void;
  /** Time of the last poll. */
  #lastPollMs = -Infinity;
  #notification: "none" | "hint" | "own" = "none";
  #timer: NodeJS.Timeout | undefined;
  #wake: (() => void) | undefined;

  /** `gapMs`: minimum time between two polls, for any number of notifications. A run in another process sends many. */
  constructor(notifier: Notifier, rootId: string, gapMs: number) {
    this.#gapMs = gapMs;
    this.#unsubscribe = notifier.subscribe(rootId, () => this.#notify("hint"));
  }

  /** Wakes the waiter at once, for changes made by this process. */
  wakeNow(): void {
    this.#notify("own");
  }

  /** Resolves when it is time to poll, after at most `ms`. Rejects with the signal's reason. */
  async next(ms: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    let removeAbortListener = (): void => undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        this.#wake = resolve;
        this.#schedule(ms);
        if (this.#notification !== "none") this.#notify(this.#notification);
        if (signal) removeAbortListener = onAbort(signal, () => reject(signal.reason as Error));
      });
    } finally {
      removeAbortListener();
      clearTimeout(this.#timer);
      this.#wake = undefined;
      this.#notification = "none";
      this.#lastPollMs = performance.now();
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
    else if (this.#wake) this.#schedule(Math.max(0, this.#lastPollMs + this.#gapMs - performance.now()));
  }

  #schedule(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#wake?.(), ms);
  }
}
