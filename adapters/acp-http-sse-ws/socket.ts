import type { RawData, WebSocket } from "ws";
import { Outbox } from "./outbox.js";

export interface SocketEvents {
  onText(text: string): void;
  /** Called for a frame that is not UTF-8 text. */
  onInvalidText(): void;
  /** Called once. */
  onClosed(): void;
  onOverflow(): void;
}

/** Time for a socket to close before it is terminated, in ms. */
const CLOSE_MS = 1_000;

export class SocketOutlet extends Outbox {
  readonly #socket: WebSocket;
  readonly #heartbeat: NodeJS.Timeout;
  #missed = 0;

  constructor(socket: WebSocket, heartbeatMs: number, events: SocketEvents) {
    // Each message ends with a line feed, for bridges that copy frames to a stream of lines.
    super((text, done) => socket.send(`${text}\n`, done), events.onOverflow);
    this.#socket = socket;
    this.#heartbeat = setInterval(() => this.#beat(), heartbeatMs).unref();
    socket.on("message", (data: RawData, isBinary: boolean) => {
      this.#missed = 0;
      // Bridges forward text as binary frames; valid UTF-8 is accepted as text.
      const text = textOf(data as Buffer, isBinary);
      if (text === undefined) events.onInvalidText();
      else events.onText(text);
    });
    socket.on("pong", () => (this.#missed = 0));
    // `ws` closes the socket with 1007 or 1009 itself; `close` follows.
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
    const gone = new Promise<void>((resolve) => this.#socket.once("close", () => resolve()));
    this.#socket.close(code, reason);
    const timer = setTimeout(() => this.#socket.terminate(), CLOSE_MS);
    await gone;
    clearTimeout(timer);
  }

  #beat(): void {
    if (this.#missed >= 2) this.#socket.terminate();
    else {
      this.#missed += 1;
      this.#socket.ping();
    }
  }
}

/** The socket's binary type is `nodebuffer`, so a frame is one Buffer. `ws` has already validated text frames. */
function textOf(data: Buffer, isBinary: boolean): string | undefined {
  try {
    return isBinary ? new TextDecoder("utf-8", { fatal: true }).decode(data) : data.toString("utf8");
  } catch {
    return undefined;
  }
}
