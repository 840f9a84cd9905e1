/** Maximum total time of a call, as a multiple of its timeout. Progress cannot extend a call beyond this time. */
const MAX_TIMEOUT_MULTIPLE = 30;

/** Timeout of one call. Progress notifications restart the timeout; a question to the user pauses it. */
export class CallTimeout {
  readonly #controller = new AbortController();
  readonly #timeoutMs: number;
  readonly #removeListener: () => void;
  #timer: NodeJS.Timeout | undefined;
  /** Remaining total time. */
  #remainingMs: number;
  /** Start of the current timer, as `performance.now()`. Undefined while the timeout is paused. */
  #startedAtMs: number | undefined;
  hasTimedOut = false;

  constructor(timeoutMs: number, signal: AbortSignal) {
    this.#timeoutMs = timeoutMs;
    this.#remainingMs = timeoutMs * MAX_TIMEOUT_MULTIPLE;
    const abort = (): void => this.#controller.abort(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    this.#removeListener = () => signal.removeEventListener("abort", abort);
    this.restart();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  restart(): void {
    this.pause();
    this.#startedAtMs = performance.now();
    this.#timer = setTimeout(
      () => {
        this.hasTimedOut = true;
        this.#controller.abort(new Error("the call timed out"));
      },
      Math.max(0, Math.min(this.#timeoutMs, this.#remainingMs)),
    );
  }

  pause(): void {
    clearTimeout(this.#timer);
    if (this.#startedAtMs !== undefined) this.#remainingMs -= performance.now() - this.#startedAtMs;
    this.#startedAtMs = undefined;
  }

  end(): void {
    this.pause();
    this.#removeListener();
  }
}
