import type { ApiAsk, ApiError, ApiSession, ConnectionState, SharedWatchOptions, WatchedEvent } from "gantry/client";

/** Functions that get the events besides those of watched sessions. */
export interface LiveHandlers {
  /** Called with all open questions, newest first: when connected, and after each change. */
  onAsks(asks: readonly ApiAsk[]): void;
  /** Called with an entry of the session list that is new or has changed. */
  onSession(session: ApiSession): void;
  /** Called with the id of a session that was deleted. */
  onSessionRemoved(id: string): void;
  /** Called when the state of the connection changes; `error` is the reason for `lost`. */
  onConnection(state: ConnectionState, error?: ApiError): void;
}

/** A connection to the server's events: the browser's, or one of this window. */
export interface LiveSource {
  watch(id: string, options: SharedWatchOptions): AsyncGenerator<WatchedEvent, void, undefined>;
  close(): void;
}
