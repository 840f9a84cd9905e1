import type { ApiError } from "./errors.js";
import type { ConnectionState, WatchedEvent } from "./watch.js";

/** Maximum events that wait for a reader. The server sends the following events again when the reader has taken these. */
const MAX_QUEUED_EVENTS = 1_000;

/** One reader of a session's events in a shared stream. */
export class StreamedWatch {
  readonly sessionId: string;
  readonly #onConnection: ((state: ConnectionState, error?: ApiError) => void) | undefined;
  /** Position after the last queued event: a cursor, or the `seq` of a message. */
  #position: string;
  #queue: WatchedEvent[] = [];
  #isPaused = false;
  #hasEvents = false;
  #end: { error?: unknown } | undefined;
  #wake: (() => void) | undefined;
  #state: ConnectionState | undefined;

  constructor(
    sessionId: string,
    position: string,
    onConnection: ((state: ConnectionState, error?: ApiError) => void) | undefined,
  ) {
    this.sessionId = sessionId;
    this.#position = position;
    this.#onConnection = onConnection;
  }

  /** The `watch` parameter that continues after the last queued event. */
  get parameter(): string {
    return `${this.sessionId}@${this.#position}`;
  }

  /** Whether the reader is too slow: it must take the queued events before the stream sends more. */
  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Whether the session existed when this watch began. */
  get hasEvents(): boolean {
    return this.#hasEvents;
  }

  /** Adds the next event. Returns false if the reader is too slow; the event is then sent again later. */
  push(event: WatchedEvent): boolean {
    if (this.#queue.length >= MAX_QUEUED_EVENTS) {
      this.#isPaused = true;
      return false;
    }
    this.#hasEvents = true;
    if (event.cursor !== undefined) this.#position = event.cursor;
    this.#queue.push(event);
    this.#wake?.();
    return true;
  }

  /** Ends the watch after the queued events, with an error if `end` has one. */
  finish(end: { error?: unknown } = {}): void {
    this.#end ??= end;
    this.#wake?.();
  }

  /** Ends the watch at once. */
  abort(): void {
    this.#queue = [];
    this.finish();
  }

  /** Reports a new state of the connection. */
  reportConnection(state: ConnectionState, error?: ApiError): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#onConnection?.(state, error);
  }

  /** The events in order. `resume` is called when the reader can take events again after `isPaused`. */
  async *read(resume: () => void): AsyncGenerator<WatchedEvent, void, undefined> {
    for (;;) {
      const event = this.#queue.shift();
      if (event) {
        yield event;
        continue;
      }
      if (this.#end) {
        if ("error" in this.#end) throw this.#end.error;
        return;
      }
      if (this.#isPaused) {
        this.#isPaused = false;
        resume();
      }
      await new Promise<void>((resolve) => (this.#wake = resolve));
      this.#wake = undefined;
    }
  }
}
