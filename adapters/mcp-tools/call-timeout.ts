/** Maximum total time of a call, as a multiple of its timeout. Progress cannot extend a call beyond it. */
const MOST = 30;

/** Timeout of one call. Each progress notification restarts it. It is paused while a user answers a question. */
export class CallTimeout {
  readonly #controller = new AbortController();
  readonly #ms: number;
  readonly #forget: () => void;
  #timer: NodeJS.Timeout | undefined;
  /** Remaining total time, in ms. */
  #left: number;
  /** Start of the current timer, as `performance.now()`. Undefined while the timeout is paused. */
  #began: number | undefined;
  isOver = false;

  constructor(ms: number, signal: AbortSignal) {
    this.#ms = ms;
    this.#left = ms * MOST;
    const abort = (): void => this.#controller.abort(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    this.#forget = () => signal.removeEventListener("abort", abort);
    this.again();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  again(): void {
    this.hold();
    this.#began = performance.now();
    this.#timer = setTimeout(
      () => {
        this.isOver = true;
        this.#controller.abort(new Error("it took too long"));
      },
      Math.max(0, Math.min(this.#ms, this.#left)),
    );
  }

  hold(): void {
    clearTimeout(this.#timer);
    if (this.#began !== undefined) this.#left -= performance.now() - this.#began;
    this.#began = undefined;
  }

  end(): void {
    this.hold();
    this.#forget();
  }
}
