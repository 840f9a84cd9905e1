import type { SharedWatchOptions, WatchedEvent } from "gantry/client";
import type { LiveHandlers, LiveSource } from "./live-source.js";
import { openWorkerEvents } from "./worker-events.js";

/** Pause after the worker's script could not be loaded, in ms. */
const RETRY_MS = 2_000;

/**
 * The server's events for this window. All windows of the browser share a connection, which a shared worker holds,
 * because browsers allow only six connections to a server. A browser without shared workers opens one per window.
 */
export class LiveEvents implements LiveSource {
  readonly #source: Promise<LiveSource | undefined>;
  /** Watches that wait for the source. */
  readonly #waitingWatches = new Set<SharedWatchOptions>();
  readonly #closeController = new AbortController();

  /** `headers`: the credentials of the window. */
  constructor(headers: Record<string, string>, handlers: LiveHandlers) {
    this.#source = this.#open(headers, handlers);
  }

  async *watch(id: string, options: SharedWatchOptions): AsyncGenerator<WatchedEvent, void, undefined> {
    this.#waitingWatches.add(options);
    const source = await this.#source;
    this.#waitingWatches.delete(options);
    if (source) yield* source.watch(id, options);
  }

  /** Ends all watches of this window. */
  close(): void {
    this.#closeController.abort();
    void this.#source.then((source) => source?.close());
  }

  /**
   * Tries until the worker's script is loaded, which an unavailable server prevents. Resolves with undefined after
   * `close`.
   */
  async #open(headers: Record<string, string>, handlers: LiveHandlers): Promise<LiveSource | undefined> {
    const { signal } = this.#closeController;
    while (!signal.aborted) {
      const workerEvents = await openWorkerEvents(headers, handlers);
      if (workerEvents) return workerEvents;
      handlers.onConnection("lost");
      for (const { onConnection } of this.#waitingWatches) onConnection?.("lost");
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, RETRY_MS);
        const end = () => {
          clearTimeout(timer);
          resolve();
        };
        signal.addEventListener("abort", end, { once: true });
      });
    }
    return undefined;
  }
}
