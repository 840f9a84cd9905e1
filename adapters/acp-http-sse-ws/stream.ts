import type { ServerResponse } from "node:http";
import { Outbox, type QueuedMessage } from "./outbox.js";
import { SSE_COMMENT, sseEvent, STREAM_TYPE } from "./wire.js";

export interface StreamEvents {
  /** Called once when the client disconnects or the stream is replaced; `unsent` was not delivered. */
  onClosed(unsent: QueuedMessage[]): void;
  /** Called when too many messages are queued because the client does not read. */
  onOverflow(): void;
}

export class SseOutbox extends Outbox {
  readonly #response: ServerResponse;
  readonly #heartbeat: NodeJS.Timeout;
  readonly #events: StreamEvents;
  #closed = false;

  constructor(response: ServerResponse, heartbeatMs: number, events: StreamEvents) {
    super((text, done) => void response.write(sseEvent(text), done), events.onOverflow);
    this.#response = response;
    this.#events = events;
    response.on("error", () => undefined);
    // On Node 20 `close` of a GET request fires at once; `close` of the response detects a lost client.
    response.on("close", () => this.#close());
    response.writeHead(200, {
      "Content-Type": STREAM_TYPE,
      "Cache-Control": "no-cache, no-transform",
      "X-Accel-Buffering": "no",
    });
    // Clients wait for the headers before they send their first prompt.
    response.flushHeaders();
    response.write(SSE_COMMENT);
    response.socket?.setNoDelay(true);
    this.#heartbeat = setInterval(() => response.write(SSE_COMMENT), heartbeatMs).unref();
  }

  /** Ends the stream; `onClosed` gets the unsent messages. */
  end(): void {
    const unsent = this.#close();
    // Destroy: the client drops a truncated event, and the complete message is sent on another stream.
    if (unsent.length > 0) this.#response.destroy();
    else this.#response.end();
  }

  #close(): QueuedMessage[] {
    if (this.#closed) return [];
    this.#closed = true;
    clearInterval(this.#heartbeat);
    const unsent = this.stop();
    this.#events.onClosed(unsent);
    return unsent;
  }
}
