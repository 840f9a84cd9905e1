/** The version of a chain in this process, and the watchers that wait for the next version. */
export class ChangeSignal {
  #version = 0;
  readonly #wakeCallbacks = new Set<() => void>();
  /** Wakes waiting watchers when the minimum interval has passed. */
  #timer: NodeJS.Timeout | undefined;
  #lastWakeAtMs = -Infinity;
  readonly #getIntervalMs: () => number;

  /** `getIntervalMs` returns the minimum interval between two wake-ups, in ms; faster changes are combined. */
  constructor(getIntervalMs: () => number) {
    this.#getIntervalMs = getIntervalMs;
  }

  /** Incremented with each change. */
  get version(): number {
    return this.#version;
  }

  increment(): void {
    this.#version += 1;
    if (this.#wakeCallbacks.size > 0) this.#wakeSoon();
  }

  /** Resolves when a change after `version` exists and the minimum interval has passed, or when the signal aborts. */
  async waitForChange(version: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const wake = () => {
        signal.removeEventListener("abort", wake);
        this.#wakeCallbacks.delete(wake);
        resolve();
      };
      signal.addEventListener("abort", wake, { once: true });
      this.#wakeCallbacks.add(wake);
      if (this.#version !== version) this.#wakeSoon();
    });
  }

  /** Stops the timer, for a chain without watchers. */
  stopTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Wakes the waiting watchers, now or when the minimum interval has passed. */
  #wakeSoon(): void {
    if (this.#timer) return;
    const wake = () => {
      this.#timer = undefined;
      this.#lastWakeAtMs = performance.now();
      for (const resume of [...this.#wakeCallbacks]) resume();
    };
    const remainingMs = this.#lastWakeAtMs + this.#getIntervalMs() - performance.now();
    if (remainingMs > 0) this.#timer = setTimeout(wake, remainingMs);
    else wake();
  }
}
