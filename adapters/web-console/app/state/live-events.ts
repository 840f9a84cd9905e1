import type { GantryClient, SharedWatchOptions, WatchedEvent } from "gantry/client";
import type { LiveHandlers, LiveSource } from "./live-source.js";
import { openWorkerEvents } from "./worker-events.js";

/**
 * The server's events for this window. All windows of the browser share a connection, which a shared worker holds,
 * because browsers allow only six connections to a server. A browser without shared workers opens one per window.
 */
export class LiveEvents implements LiveSource {
  readonly #source: Promise<LiveSource>;

  /** `headers`: the credentials of the window. */
  constructor(client: GantryClient, headers: Record<string, string>, handlers: LiveHandlers) {
    this.#source = openWorkerEvents(headers, handlers).then(
      (workerEvents) => workerEvents ?? client.watchAll({ canAnswer: true, ...handlers }),
    );
  }

  async *watch(id: string, options: SharedWatchOptions): AsyncGenerator<WatchedEvent, void, undefined> {
    const source = await this.#source;
    yield* source.watch(id, options);
  }

  /** Ends all watches of this window. */
  close(): void {
    void this.#source.then((source) => source.close());
  }
}
