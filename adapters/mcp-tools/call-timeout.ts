/** Maximum total time of a call, as a multiple of its timeout. Progress cannot extend a call beyond it. */
const MAX_TIMEOUT_MULTIPLE = 30;

/** Timeout of one call. Each progress notification restarts it. It is paused while a user answers a question. */
export class CallTimeout {
  readonly #controller = new AbortController();
  readonly #timeoutMs: number;
  readonly #removeListener: () => void;
  #timer: NodeJS.Timeout | undefined;
  /** Remaining total time, in ms. */
  #remainingMs: number;
  /** Start of the current timer, as `performance.now()`. Undefined while the timeout is paused. */
  #startedAt: number | undefined;
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
    this.#startedAt = performance.now();
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
    if (this.#startedAt !== undefined) this.#remainingMs -= performance.now() - this.#startedAt;
    this.#startedAt = undefined;
  }

  end(): void {
    this.pause();
    this.#removeListener();
  }
}
