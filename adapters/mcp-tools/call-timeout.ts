/** However often a call's time is begun anew, it takes no longer than so many times it. */
const MOST = 30;

/** The time of one call: begun anew with each sign of life, and held while a person is asked, whose time does not count. */
export class Patience {
  readonly #controller = new AbortController();
  readonly #ms: number;
  readonly #forget: () => void;
  #timer: NodeJS.Timeout | undefined;
  /** Of all that it may take, in ms. */
  #left: number;
  /** When it was begun last; undefined while it is held. */
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
