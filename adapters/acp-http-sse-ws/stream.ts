import type { ServerResponse } from "node:http";
import { Outbox, type QueuedMessage } from "./outbox.js";
import { SSE_COMMENT, encodeEvent, STREAM_MEDIA_TYPE } from "./wire.js";

export interface StreamEvents {
  /** Called once when the client disconnects or the stream is replaced; `unsentMessages` were not delivered. */
  onClosed(unsentMessages: QueuedMessage[]): void;
  /** Called when too many messages are queued because the client does not read. */
  onOverflow(): void;
}

/** Output queue of a stream of server-sent events. */
export class SseOutbox extends Outbox {
  readonly #response: ServerResponse;
  readonly #heartbeat: NodeJS.Timeout;
  readonly #events: StreamEvents;
  #isClosed = false;

  constructor(response: ServerResponse, heartbeatMs: number, events: StreamEvents) {
    super((text, done) => void response.write(encodeEvent(text), done), events.onOverflow);
    this.#response = response;
    this.#events = events;
    response.on("error", () => undefined);
    // On Node 20 `close` of a GET request fires at once; `close` of the response detects a lost client.
    response.on("close", () => this.#close());
    response.writeHead(200, {
      "Content-Type": STREAM_MEDIA_TYPE,
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
    const unsentMessages = this.#close();
    // Destroy: the client drops a truncated event, and the complete message is sent on another stream.
    if (unsentMessages.length > 0) this.#response.destroy();
    else this.#response.end();
  }

  #close(): QueuedMessage[] {
    if (this.#isClosed) return [];
    this.#isClosed = true;
    clearInterval(this.#heartbeat);
    const unsentMessages = this.stop();
    this.#events.onClosed(unsentMessages);
    return unsentMessages;
  }
}
