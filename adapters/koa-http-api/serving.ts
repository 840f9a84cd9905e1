import { setMaxListeners } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { ListeningBase } from "gantry/plugin";
import type { HttpHost, Refusal } from "gantry/http";

/** Time for runs to end after a shutdown cancelled them, in ms. After that their clients get an error. */
export const CANCEL_MS = 1_000;
/** Time to write the answers after that, in ms. Readers that do not read are disconnected. */
const FLUSH_MS = 500;

/** A retry reaches another server, or this one after its restart. */
export const SHUTTING_DOWN: Refusal = {
  status: 503,
  message: "server shutting down",
  code: "shutting_down",
  headers: { "Retry-After": "1" },
};

/** The open responses of the transport, and its shutdown. */
export class HttpServing extends ListeningBase {
  address = "";
  readonly #begun = new AbortController();
  readonly #active = new Set<ServerResponse>();
  /** The transport's own port; undefined if it uses a shared one. */
  readonly #ownHost: HttpHost | undefined;
  #idle: (() => void) | undefined;

  constructor(ownHost: HttpHost | undefined) {
    super();
    this.#ownHost = ownHost;
    // Every watcher adds a listener.
    setMaxListeners(0, this.#begun.signal);
  }

  /** Aborts when a stop begins. */
  get stopSignal(): AbortSignal {
    return this.#begun.signal;
  }

  /** Adds a request whose answer a stop waits for. */
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
    this.#ownHost?.refuseNew();
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
    // Remaining responses did not end in time: close their connections.
    await this.#ownHost?.close(this.#active.size > 0 ? AbortSignal.abort() : shutdown);
  }
}
