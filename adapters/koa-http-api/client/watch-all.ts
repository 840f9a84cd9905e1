import type { ApiAsk } from "../shapes.js";
import type { ServerConnection } from "./connection.js";
import { StreamedWatch } from "./streamed-watch.js";
import { SharedStream, type SharedStreamHandlers } from "./shared-stream.js";
import type { ApiWatchOptions, WatchedEvent } from "./watch.js";

/** Maximum sessions of a connection, as the server allows. */
const MAX_WATCHES = 64;

/** Options of `client.watchAll`. The functions must not throw. */
export interface WatchAllOptions extends SharedStreamHandlers {
  /** Whether this client can answer the questions of runs in any session. Default false. */
  canAnswer?: boolean | undefined;
}

/** Start and options of a watch. Without `after` and `afterSeq`, the watch starts at the first message. */
export type SharedWatchOptions = Pick<ApiWatchOptions, "after" | "afterSeq" | "signal" | "onConnection">;

/**
 * Watches any number of sessions over one connection, and over one more for each further 64 sessions. The connection is
 * open until `close`, also while no session is watched.
 */
export class WatchAll {
  readonly #connection: ServerConnection;
  readonly #firstStream: SharedStream;
  /** Streams of the sessions beyond the first ones. */
  readonly #otherStreams = new Set<SharedStream>();
  #asks: readonly ApiAsk[] | undefined;
  #isClosed = false;

  constructor(connection: ServerConnection, { canAnswer = false, onAsks, ...handlers }: WatchAllOptions) {
    this.#connection = connection;
    this.#firstStream = new SharedStream(connection, canAnswer, {
      ...handlers,
      onAsks: (asks) => {
        this.#asks = asks;
        onAsks?.(asks);
      },
    });
  }

  /** All open questions, newest first; undefined before the first answer of the server. */
  get asks(): readonly ApiAsk[] | undefined {
    return this.#asks;
  }

  /**
   * The events of a session, like those of `client.sessions.watch`. Ends when the session is deleted, when the signal
   * aborts and with `close`. Throws `ApiError` if the session does not exist, without an effect on other watches.
   */
  async *watch(
    sessionId: string,
    { after, afterSeq, signal, onConnection }: SharedWatchOptions = {},
  ): AsyncGenerator<WatchedEvent, void, undefined> {
    if (this.#isClosed || signal?.aborted) return;
    const watch = new StreamedWatch(sessionId, after ?? String(afterSeq ?? ""), onConnection);
    const stream = this.#selectStream();
    const abort = () => {
      watch.abort();
      stream.remove(watch);
    };
    signal?.addEventListener("abort", abort, { once: true });
    stream.add(watch);
    try {
      yield* watch.read(() => stream.resume());
    } finally {
      signal?.removeEventListener("abort", abort);
      stream.remove(watch);
      if (stream.size === 0 && this.#otherStreams.delete(stream)) stream.close();
    }
  }

  /** Ends the connection and all watches. */
  close(): void {
    this.#isClosed = true;
    for (const stream of [this.#firstStream, ...this.#otherStreams]) stream.close();
    this.#otherStreams.clear();
  }

  #selectStream(): SharedStream {
    for (const stream of [this.#firstStream, ...this.#otherStreams]) if (stream.size < MAX_WATCHES) return stream;
    const stream = new SharedStream(this.#connection, false, {});
    this.#otherStreams.add(stream);
    return stream;
  }
}
