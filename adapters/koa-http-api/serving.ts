import { setMaxListeners } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { ShuttingDownError, type Listening } from "gantry";
import type { HttpHost } from "gantry/http";

/** Runs that were cancelled for a shutdown get so long, in ms, to end by themselves; then their clients are answered. */
export const CANCEL_MS = 1_000;
/** Answers get so long, in ms, to be written after that; a reader that does not read is cut off. */
const FLUSH_MS = 500;

/** From the start to the stop: what is under way, and its end. */
export class Serving implements Listening {
  address = "";
  readonly ended: Promise<void>;
  readonly #shutdown = new AbortController();
  readonly #active = new Set<ServerResponse>();
  /** The port, where it is this transport's own. */
  readonly #own: HttpHost | undefined;
  #idle: (() => void) | undefined;
  #settle: () => void = () => undefined;
  #stopping: Promise<void> | undefined;

  constructor(own: HttpHost | undefined) {
    this.#own = own;
    this.ended = new Promise((resolve) => (this.#settle = resolve));
    // One of each run listens.
    setMaxListeners(0, this.#shutdown.signal);
  }

  /** Aborts when running work has had its time; the reason is a `ShuttingDownError`. */
  get shutdown(): AbortSignal {
    return this.#shutdown.signal;
  }

  get stopping(): boolean {
    return this.#stopping !== undefined;
  }

  /** A request whose answer a stop waits for. */
  track(_request: IncomingMessage, response: ServerResponse): void {
    this.#active.add(response);
    response.once("close", () => {
      this.#active.delete(response);
      if (this.#active.size === 0) this.#idle?.();
    });
  }

  stop(signal: AbortSignal): Promise<void> {
    // A second call may be the one that is out of patience.
    this.#cancelWith(signal);
    return (this.#stopping ??= this.#stop(signal));
  }

  async #stop(signal: AbortSignal): Promise<void> {
    this.#own?.refuseNew();
    if (this.#active.size > 0) {
      let late: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#idle = resolve;
        const limit = () => (late = setTimeout(resolve, CANCEL_MS + FLUSH_MS));
        if (this.#shutdown.signal.aborted) limit();
        else this.#shutdown.signal.addEventListener("abort", limit, { once: true });
      });
      clearTimeout(late);
    }
    // Nothing is left that could still be answered.
    await this.#own?.close(this.#active.size > 0 ? AbortSignal.abort() : signal);
    this.#settle();
  }

  #cancelWith(signal: AbortSignal): void {
    const cancel = () => this.#shutdown.abort(new ShuttingDownError());
    if (signal.aborted) cancel();
    else signal.addEventListener("abort", cancel, { once: true });
  }
}
