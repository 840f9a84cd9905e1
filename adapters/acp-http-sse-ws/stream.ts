import type { ServerResponse } from "node:http";
import { Outbox, type Letter } from "./outbox.js";
import { SSE_COMMENT, sseEvent, STREAM_TYPE } from "./wire.js";

export interface StreamEvents {
  /** The client is gone, or was replaced; `unsent` never got through. Called once. */
  onClosed(unsent: Letter[]): void;
  /** The client does not read, and too much waits for it. */
  onOverflow(): void;
}

export class SseStream extends Outbox {
  readonly #response: ServerResponse;
  readonly #heartbeat: NodeJS.Timeout;
  readonly #events: StreamEvents;
  #closed = false;

  constructor(response: ServerResponse, heartbeatMs: number, events: StreamEvents) {
    super((text, done) => void response.write(sseEvent(text), done), events.onOverflow);
    this.#response = response;
    this.#events = events;
    response.on("error", () => undefined);
    // `close` of the request fires at once for a GET on Node 20; that of the response tells of a lost client.
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

  /** End the stream; what was not taken yet is told to `onClosed`. */
  end(): void {
    const unsent = this.#close();
    // A cut event is no event: the client drops it, and the whole one goes another way.
    if (unsent.length > 0) this.#response.destroy();
    else this.#response.end();
  }

  #close(): Letter[] {
    if (this.#closed) return [];
    this.#closed = true;
    clearInterval(this.#heartbeat);
    const unsent = this.empty();
    this.#events.onClosed(unsent);
    return unsent;
  }
}
