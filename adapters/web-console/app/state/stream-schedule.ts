/** Time after which a hidden page closes its connection, in ms. Browsers allow only six connections per host. */
const HIDDEN_PAGE_DELAY_MS = 5_000;

/**
 * Decides when a page is connected to the event stream of its session. A hidden page closes its connection if no run is
 * active. During a run the connection stays open, so that a user who returns can still answer its questions.
 */
export class StreamSchedule {
  readonly #closeSignal: AbortSignal;
  readonly #isBusy: () => boolean;
  #controller = new AbortController();
  #hiddenPageTimer: ReturnType<typeof setTimeout> | undefined;
  #isVisibleConnection = false;
  #resume: (() => void) | undefined;

  /** `isBusy` returns whether a run is active. `closeSignal` aborts when the page closes the session. */
  constructor(isBusy: () => boolean, closeSignal: AbortSignal) {
    this.#isBusy = isBusy;
    this.#closeSignal = closeSignal;
    document.addEventListener("visibilitychange", this.#onVisibilityChange, { signal: closeSignal });
    closeSignal.addEventListener("abort", () => this.#close(), { once: true });
  }

  /** Aborts when the current connection must end, because it is replaced, paused or closed. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Called before each connection. Returns whether the page is visible, so that its user answers questions. */
  startConnection(): boolean {
    return (this.#isVisibleConnection = document.visibilityState === "visible");
  }

  /** Resolves when the page is visible again, or when the session is closed. */
  waitForResume(): Promise<void> {
    return new Promise((resolve) => {
      this.#resume = resolve;
      this.#closeSignal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  #close(): void {
    clearTimeout(this.#hiddenPageTimer);
    this.#controller.abort();
  }

  readonly #onVisibilityChange = () => {
    clearTimeout(this.#hiddenPageTimer);
    if (document.visibilityState === "visible") {
      if (this.#isVisibleConnection && !this.#controller.signal.aborted) return;
      this.#controller.abort();
      this.#controller = new AbortController();
      this.#resume?.();
      return;
    }
    this.#hiddenPageTimer = setTimeout(() => {
      if (!this.#isBusy()) this.#controller.abort();
    }, HIDDEN_PAGE_DELAY_MS);
  };
}
