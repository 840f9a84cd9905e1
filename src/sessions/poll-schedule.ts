import { onAbort } from "../base/abort.js";
import type { Notifier } from "../ports/notifier.js";

/** Whoever waits for what others do to a chain, and when they look again: after a hint, and now and then without one. */
export class Looks {
  readonly #gapMs: number;
  readonly #unsubscribe: () => void;
  /** When it was looked last. */
  #at = -Infinity;
  #news: "none" | "hint" | "own" = "none";
  #timer: NodeJS.Timeout | undefined;
  #wake: (() => void) | undefined;

  /** `gapMs`: least between two looks, however many hints come. A run that goes on elsewhere gives many. */
  constructor(notifier: Notifier, rootId: string, gapMs: number) {
    this.#gapMs = gapMs;
    this.#unsubscribe = notifier.subscribe(rootId, () => this.#hear("hint"));
  }

  /** This process has news itself: no time is lost. */
  now(): void {
    this.#hear("own");
  }

  /** Resolves when it is time to look, at the latest in `ms`. Rejects with the signal's reason. */
  async next(ms: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    let untie = (): void => undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        this.#wake = resolve;
        this.#in(ms);
        if (this.#news !== "none") this.#hear(this.#news);
        if (signal) untie = onAbort(signal, () => reject(signal.reason as Error));
      });
    } finally {
      untie();
      clearTimeout(this.#timer);
      this.#wake = undefined;
      this.#news = "none";
      this.#at = performance.now();
    }
  }

  /** Hear nothing more. */
  end(): void {
    this.#unsubscribe();
    clearTimeout(this.#timer);
  }

  #hear(news: "hint" | "own"): void {
    if (this.#news !== "own") this.#news = news;
    if (news === "own") this.#wake?.();
    else if (this.#wake) this.#in(Math.max(0, this.#at + this.#gapMs - performance.now()));
  }

  #in(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#wake?.(), ms);
  }
}
