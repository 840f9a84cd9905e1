import { setMaxListeners } from "node:events";
import { ShuttingDownError } from "../ports/errors.js";
import type { Listening } from "./transport.js";

/** Base class of a running transport. Subclasses implement `end` and `address`. */
export abstract class ListeningBase implements Listening {
  abstract readonly address: string;
  readonly ended: Promise<void>;
  readonly #shutdown = new AbortController();
  #resolveEnded: () => void = () => undefined;
  #stopPromise: Promise<void> | undefined;

  constructor() {
    this.ended = new Promise((resolve) => (this.#resolveEnded = resolve));
    // Each run adds a listener: disable node's warning about many listeners.
    setMaxListeners(0, this.#shutdown.signal);
  }

  /** Aborts when the grace period of running work is over. The reason is a `ShuttingDownError`. */
  get shutdown(): AbortSignal {
    return this.#shutdown.signal;
  }

  /** Whether new work is rejected. */
  get isStopping(): boolean {
    return this.#stopPromise !== undefined;
  }

  stop(signal: AbortSignal): Promise<void> {
    // A second call can shorten the grace period of the first.
    const abortRunningWork = () => this.#shutdown.abort(new ShuttingDownError());
    if (signal.aborted) abortRunningWork();
    else signal.addEventListener("abort", abortRunningWork, { once: true });
    return (this.#stopPromise ??= this.end().finally(this.#resolveEnded));
  }

  /**
   * Waits for running work until `shutdown` aborts, then cancels it. Resolves when everything is closed. Called once.
   */
  protected abstract end(): Promise<void>;
}
