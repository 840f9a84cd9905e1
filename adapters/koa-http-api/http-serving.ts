import { setMaxListeners } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { ListeningBase } from "gantry/plugin";
import type { HttpHost, Refusal } from "gantry/http";

/** Time for runs to end after a shutdown cancelled them, in ms. After this time their clients get an error. */
export const CANCEL_TIMEOUT_MS = 1_000;
/** Time to write the answers after `CANCEL_TIMEOUT_MS`, in ms. Clients that do not read are then disconnected. */
const FLUSH_TIMEOUT_MS = 500;

/** Refusal with `Retry-After`: a retry reaches another server, or this server after its restart. */
export const SHUTTING_DOWN_REFUSAL: Refusal = {
  status: 503,
  message: "server shutting down",
  code: "shutting_down",
  headers: { "Retry-After": "1" },
};

/** The open responses of the transport, and its shutdown. */
export class HttpServing extends ListeningBase {
  address = "";
  readonly #stopController = new AbortController();
  readonly #openResponses = new Set<ServerResponse>();
  /** The transport's own HTTP listener; undefined if a shared listener is used. */
  readonly #ownHost: HttpHost | undefined;
  #resolveIdle: (() => void) | undefined;

  constructor(ownHost: HttpHost | undefined) {
    super();
    this.#ownHost = ownHost;
    // Every watching client adds a listener.
    setMaxListeners(0, this.#stopController.signal);
  }

  /** Aborts when a stop begins. */
  get stopSignal(): AbortSignal {
    return this.#stopController.signal;
  }

  /** Adds a request: a stop waits until its response is closed. */
  track(_request: IncomingMessage, response: ServerResponse): void {
    this.#openResponses.add(response);
    response.once("close", () => {
      this.#openResponses.delete(response);
      if (this.#openResponses.size === 0) this.#resolveIdle?.();
    });
  }

  /** Ends watching streams, then waits until all responses are closed, or until the timeouts after a shutdown. */
  protected async end(): Promise<void> {
    const { shutdown } = this;
    this.#stopController.abort();
    this.#ownHost?.stopAccepting();
    if (this.#openResponses.size > 0) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#resolveIdle = resolve;
        const startTimer = () => (timer = setTimeout(resolve, CANCEL_TIMEOUT_MS + FLUSH_TIMEOUT_MS));
        if (shutdown.aborted) startTimer();
        else shutdown.addEventListener("abort", startTimer, { once: true });
      });
      clearTimeout(timer);
    }
    // Remaining responses did not end in time: close their connections.
    await this.#ownHost?.close(this.#openResponses.size > 0 ? AbortSignal.abort() : shutdown);
  }
}
