import { setMaxListeners } from "node:events";
import { ShuttingDownError } from "../ports/errors.js";
import type { Listening } from "./transport.js";

/** The life of a transport from its start to its stop, for those who write one: say what `end` does, and where clients connect. */
export abstract class Serving implements Listening {
  abstract readonly address: string;
  readonly ended: Promise<void>;
  readonly #hurry = new AbortController();
  #settle: () => void = () => undefined;
  #stopping: Promise<void> | undefined;

  constructor() {
    this.ended = new Promise((resolve) => (this.#settle = resolve));
    // One of each run listens.
    setMaxListeners(0, this.#hurry.signal);
  }

  /** Aborts when running work has had its time; the reason is a `ShuttingDownError`. */
  get shutdown(): AbortSignal {
    return this.#hurry.signal;
  }

  /** Whether new work is refused. */
  get stopping(): boolean {
    return this.#stopping !== undefined;
  }

  stop(signal: AbortSignal): Promise<void> {
    // A second call may be the one that is out of patience.
    const hurry = () => this.#hurry.abort(new ShuttingDownError());
    if (signal.aborted) hurry();
    else signal.addEventListener("abort", hurry, { once: true });
    return (this.#stopping ??= this.end().finally(this.#settle));
  }

  /** Let running work finish until `shutdown` aborts, then cancel it; resolve when all is closed. Called once. */
  protected abstract end(): Promise<void>;
}
