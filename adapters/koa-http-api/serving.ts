import { setMaxListeners } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Serving } from "gantry/plugin";
import type { HttpHost, Refusal } from "gantry/http";

/** Runs that were cancelled for a shutdown get so long, in ms, to end by themselves; then their clients are answered. */
export const CANCEL_MS = 1_000;
/** Answers get so long, in ms, to be written after that; a reader that does not read is cut off. */
const FLUSH_MS = 500;

/** What is asked again finds another server, or this one when it was started again. */
export const SHUTTING_DOWN: Refusal = {
  status: 503,
  message: "server shutting down",
  code: "shutting_down",
  headers: { "Retry-After": "1" },
};

/** What is under way, and its end. */
export class HttpServing extends Serving {
  address = "";
  readonly #begun = new AbortController();
  readonly #active = new Set<ServerResponse>();
  /** The port, where it is this transport's own. */
  readonly #own: HttpHost | undefined;
  #idle: (() => void) | undefined;

  constructor(own: HttpHost | undefined) {
    super();
    this.#own = own;
    // One of each watcher listens.
    setMaxListeners(0, this.#begun.signal);
  }

  /** Aborts with the begin of a stop. */
  get begun(): AbortSignal {
    return this.#begun.signal;
  }

  /** A request whose answer a stop waits for. */
  track(_request: IncomingMessage, response: ServerResponse): void {
    this.#active.add(response);
    response.once("close", () => {
      this.#active.delete(response);
      if (this.#active.size === 0) this.#idle?.();
    });
  }

  protected async end(): Promise<void> {
    const { shutdown } = this;
    this.#begun.abort();
    this.#own?.refuseNew();
    if (this.#active.size > 0) {
      let late: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#idle = resolve;
        const limit = () => (late = setTimeout(resolve, CANCEL_MS + FLUSH_MS));
        if (shutdown.aborted) limit();
        else shutdown.addEventListener("abort", limit, { once: true });
      });
      clearTimeout(late);
    }
    // Nothing is left that could still be answered.
    await this.#own?.close(this.#active.size > 0 ? AbortSignal.abort() : shutdown);
  }
}
