import type { RawData, WebSocket } from "ws";
import { Outbox } from "./outbox.js";

export interface SocketEvents {
  onText(text: string): void;
  /** A frame that is no text, whatever it calls itself. */
  onGarbage(): void;
  /** Called once. */
  onClosed(): void;
  onOverflow(): void;
}

/** A socket that does not close when asked is cut after so long, in ms. */
const CLOSE_MS = 1_000;

export class SocketOutlet extends Outbox {
  readonly #socket: WebSocket;
  readonly #heartbeat: NodeJS.Timeout;
  #missed = 0;

  constructor(socket: WebSocket, heartbeatMs: number, events: SocketEvents) {
    // A line end after each: bridges that copy frames to a stream of lines need one, and JSON does not mind.
    super((text, done) => socket.send(`${text}\n`, done), events.onOverflow);
    this.#socket = socket;
    this.#heartbeat = setInterval(() => this.#beat(), heartbeatMs).unref();
    socket.on("message", (data: RawData, isBinary: boolean) => {
      this.#missed = 0;
      // Bridges hand on the bytes of a stream; what is text in them is taken as such.
      const text = textOf(data as Buffer, isBinary);
      if (text === undefined) events.onGarbage();
      else events.onText(text);
    });
    socket.on("pong", () => (this.#missed = 0));
    // `ws` closes with 1007 or 1009 by itself; the close that follows says all.
    socket.on("error", () => undefined);
    socket.on("close", () => {
      clearInterval(this.#heartbeat);
      this.empty();
      events.onClosed();
    });
  }

  /** Resolves when the socket is gone. */
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

/** `nodebuffer` is the socket's binary type, so a frame is one Buffer; `ws` has checked the text of one that is text. */
function textOf(data: Buffer, isBinary: boolean): string | undefined {
  try {
    return isBinary ? new TextDecoder("utf-8", { fatal: true }).decode(data) : data.toString("utf8");
  } catch {
    return undefined;
  }
}
