import { setMaxListeners } from "node:events";
import { ShuttingDownError } from "../ports/errors.js";
import type { Listening } from "./transport.js";

/** Base class of a running transport. Subclasses implement `end` and `address`. */
export abstract class ListeningBase implements Listening {
  abstract readonly address: string;
  readonly ended: Promise<void>;
  readonly #shutdown = new AbortController();
  #settle: () => void = () => undefined;
  #stopping: Promise<void> | undefined;

  constructor() {
    this.ended = new Promise((resolve) => (this.#settle = resolve));
    // Each run adds one listener.
    setMaxListeners(0, this.#shutdown.signal);
  }

  /** Aborts when the grace period of running work is over. The reason is a `ShuttingDownError`. */
  get shutdown(): AbortSignal {
    return this.#shutdown.signal;
  }

  /** Whether new work is rejected. */
  get stopping(): boolean {
    return this.#stopping !== undefined;
  }

  stop(signal: AbortSignal): Promise<void> {
    // A second call can shorten the grace period of the first.
    const hurry = () => this.#shutdown.abort(new ShuttingDownError());
    if (signal.aborted) hurry();
    else signal.addEventListener("abort", hurry, { once: true });
    return (this.#stopping ??= this.end().finally(this.#settle));
  }

  /**
   * Waits for running work until `shutdown` aborts, then cancels it. Resolves when everything is closed. Called once.
   */
  protected abstract end(): Promise<void>;
}
