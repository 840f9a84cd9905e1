import type { ServerResponse } from "node:http";
import type { ResponseBody, RUN_EVENTS } from "./shapes.js";

/** Data of each event of a run's stream, by event name. */
type RunEvents = { [Name in keyof typeof RUN_EVENTS]: ResponseBody<(typeof RUN_EVENTS)[Name]> };

/**
 * A stream of server-sent events with backpressure: writers await the reader. Writes to a disconnected reader are
 * ignored and never fail.
 */
export class SseStream {
  readonly #response: ServerResponse;
  readonly #heartbeatMs: number;
  #heartbeatTimer: NodeJS.Timeout;
  #lastWriteMs = performance.now();
  #isOpen = true;

  /** Sends the headers and a first comment, so that proxies and clients see the start of the stream. */
  constructor(response: ServerResponse, heartbeatMs: number) {
    this.#response = response;
    this.#heartbeatMs = heartbeatMs;
    response.once("close", () => {
      this.#isOpen = false;
      clearTimeout(this.#heartbeatTimer);
    });
    response.writeHead(200, {
      "Content-Type": "text/event-stream",
      "Cache-Control": "no-cache",
      // Prevents buffering in proxies.
      "X-Accel-Buffering": "no",
    });
    this.#write(": stream\n\n");
    this.#heartbeatTimer = this.#startHeartbeatTimer(heartbeatMs);
  }

  /** Whether the reader is still connected. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /**
   * Sends an event of a run. Returns a promise that resolves when the reader can take more or is disconnected. Returns
   * undefined if the reader can take more now, or is disconnected.
   */
  send<Name extends keyof RunEvents>(event: Name, data: RunEvents[Name]): Promise<void> | undefined {
    return this.#isOpen ? this.sendFrame(encodeFrame(event, data)) : undefined;
  }

  /** Sends an encoded event; returns the same as `send`. */
  sendFrame(frame: string | Buffer): Promise<void> | undefined {
    if (!this.#isOpen || this.#write(frame)) return undefined;
    return new Promise((resolve) => {
      const settle = () => {
        this.#response.off("drain", settle);
        this.#response.off("close", settle);
        resolve();
      };
      this.#response.on("drain", settle);
      this.#response.on("close", settle);
    });
  }

  /** Sends a comment; clients skip it. */
  sendComment(text: string): void {
    if (this.#isOpen) this.#write(`: ${text}\n\n`);
  }

  /** Ends the stream without a last event; the reader may reconnect. */
  close(): void {
    clearTimeout(this.#heartbeatTimer);
    if (this.#isOpen) this.#response.end();
  }

  /** Ends the stream with a last event, without waiting for the reader. */
  end<Name extends keyof RunEvents>(event: Name, data: RunEvents[Name]): void {
    clearTimeout(this.#heartbeatTimer);
    if (this.#isOpen) this.#response.end(encodeFrame(event, data));
  }

  /** Returns whether the reader can take more now. */
  #write(text: string | Buffer): boolean {
    this.#lastWriteMs = performance.now();
    return this.#response.write(text);
  }

  /** Writes do not restart the timer, because that takes longer than to encode a token. */
  #startHeartbeatTimer(delayMs: number): NodeJS.Timeout {
    return setTimeout(() => {
      const remainingMs = this.#lastWriteMs + this.#heartbeatMs - performance.now();
      // A reader with unread data needs no keep-alive.
      if (remainingMs < 1 && !this.#response.writableNeedDrain) this.#write(": keep-alive\n\n");
      this.#heartbeatTimer = this.#startHeartbeatTimer(remainingMs < 1 ? this.#heartbeatMs : remainingMs);
    }, delayMs);
  }
}

/**
 * Encodes an event; `id`: undefined for an event without an id. JSON escapes line feeds. This function escapes Unicode
 * line separators, because some clients split lines at them too.
 */
export function encodeFrame(event: string, data: unknown, id?: string): string {
  const json = JSON.stringify(data).replace(
    /[\u0085\u2028\u2029]/g,
    (separator) => `\\u${separator.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return `event: ${event}\n${id === undefined ? "" : `id: ${id}\n`}data: ${json}\n\n`;
}
