import type { RawData, WebSocket } from "ws";
import { Outbox } from "./outbox.js";

export interface SocketEvents {
  onText(text: string): void;
  /** Called for a frame that is not UTF-8 text. */
  onInvalidText(): void;
  /** Called once when the socket is closed. */
  onClosed(): void;
  /** Called when too many messages are queued because the client does not read. */
  onOverflow(): void;
}

/** Time for a socket to close before it is terminated, in ms. */
const CLOSE_TIMEOUT_MS = 1_000;
/** Number of pings without an answer after which the socket is terminated. */
const MAX_MISSED_PONGS = 2;

/** Output queue of a WebSocket. Passes the client's messages to `events`. */
export class SocketOutbox extends Outbox {
  readonly #socket: WebSocket;
  readonly #heartbeat: NodeJS.Timeout;
  #missedPongCount = 0;

  constructor(socket: WebSocket, heartbeatMs: number, events: SocketEvents) {
    // Each message ends with a line feed, for bridges that copy frames to a stream of lines.
    super((text, done) => socket.send(`${text}\n`, done), events.onOverflow);
    this.#socket = socket;
    this.#heartbeat = setInterval(() => this.#sendPing(), heartbeatMs).unref();
    socket.on("message", (data: RawData, isBinary: boolean) => {
      this.#missedPongCount = 0;
      // Bridges forward text as binary frames; valid UTF-8 is accepted as text.
      const text = decodeFrame(data as Buffer, isBinary);
      if (text === undefined) events.onInvalidText();
      else events.onText(text);
    });
    socket.on("pong", () => (this.#missedPongCount = 0));
    // `ws` closes the socket with 1007 (invalid UTF-8) or 1009 (too large); the event `close` follows.
    socket.on("error", () => undefined);
    socket.on("close", () => {
      clearInterval(this.#heartbeat);
      this.stop();
      events.onClosed();
    });
  }

  /** Closes the socket; resolves when it is closed. */
  async close(code: number, reason: string): Promise<void> {
    if (this.#socket.readyState === this.#socket.CLOSED) return;
    const closed = new Promise<void>((resolve) => this.#socket.once("close", () => resolve()));
    this.#socket.close(code, reason);
    const timer = setTimeout(() => this.#socket.terminate(), CLOSE_TIMEOUT_MS);
    await closed;
    clearTimeout(timer);
  }

  #sendPing(): void {
    if (this.#missedPongCount >= MAX_MISSED_PONGS) this.#socket.terminate();
    else {
      this.#missedPongCount += 1;
      this.#socket.ping();
    }
  }
}

/**
 * Decodes a frame; undefined if it is not UTF-8. The socket's binary type is `nodebuffer`, so a frame is one Buffer.
 * `ws` has already validated text frames.
 */
function decodeFrame(data: Buffer, isBinary: boolean): string | undefined {
  try {
    return isBinary ? new TextDecoder("utf-8", { fatal: true }).decode(data) : data.toString("utf8");
  } catch {
    return undefined;
  }
}
