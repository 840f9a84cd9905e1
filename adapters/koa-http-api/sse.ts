import type { ServerResponse } from "node:http";
import type { RUN_EVENTS } from "./shapes.js";
import type { Told } from "./response-body.js";

/** Data of each event of a run's stream, by its name. */
type RunEvents = { [Name in keyof typeof RUN_EVENTS]: Told<(typeof RUN_EVENTS)[Name]> };

/** A stream of server-sent events. Whoever writes waits for the reader; a reader that is gone makes it deaf, never fail. */
export class SseStream {
  readonly #response: ServerResponse;
  readonly #heartbeatMs: number;
  #timer: NodeJS.Timeout | undefined;
  #open = true;

  /** Sends the headers, and a first comment so that proxies and clients see the stream begin. */
  constructor(response: ServerResponse, heartbeatMs: number) {
    this.#response = response;
    this.#heartbeatMs = heartbeatMs;
    response.once("close", () => {
      this.#open = false;
      clearTimeout(this.#timer);
    });
    response.writeHead(200, {
      "Content-Type": "text/event-stream",
      "Cache-Control": "no-cache",
      // Proxies would hold back what is to be seen as it is said.
      "X-Accel-Buffering": "no",
    });
    this.#write(": stream\n\n");
  }

  /** Whether the reader is still there. */
  get open(): boolean {
    return this.#open;
  }

  /** Send one event of a run; the promise resolves when the reader has room for more, or is gone. Undefined: it has room now. */
  send<Name extends keyof RunEvents>(event: Name, data: RunEvents[Name]): Promise<void> | undefined {
    return this.#open ? this.sendFrame(frame(event, data)) : undefined;
  }

  /** The same of an event of any stream that is a frame already. */
  sendFrame(text: string | Buffer): Promise<void> | undefined {
    if (!this.#open || this.#write(text)) return undefined;
    return new Promise((resolve) => {
      const done = () => {
        this.#response.off("drain", done);
        this.#response.off("close", done);
        resolve();
      };
      this.#response.on("drain", done);
      this.#response.on("close", done);
    });
  }

  /** A comment, which clients skip. */
  comment(text: string): void {
    if (this.#open) this.#write(`: ${text}\n\n`);
  }

  /** End it without a last event: whoever reads may come again. */
  close(): void {
    clearTimeout(this.#timer);
    if (this.#open) this.#response.end();
  }

  /** Last event, whether or not the reader has room for it. */
  end<Name extends keyof RunEvents>(event: Name, data: RunEvents[Name]): void {
    clearTimeout(this.#timer);
    if (this.#open) this.#response.end(frame(event, data));
  }

  #write(text: string | Buffer): boolean {
    if (this.#timer) this.#timer.refresh();
    else this.#timer = setTimeout(() => this.#beat(), this.#heartbeatMs);
    return this.#response.write(text);
  }

  #beat(): void {
    // To a reader that does not read, nothing is silent.
    if (this.#open && !this.#response.writableNeedDrain) this.#write(": keep-alive\n\n");
    else if (this.#open) this.#timer?.refresh();
  }
}

/** One event. JSON keeps line feeds escaped; the line ends of Unicode, at which some clients split too, are escaped here. */
export function frame(event: string, data: unknown, id?: string): string {
  const json = JSON.stringify(data).replace(
    /[\u0085\u2028\u2029]/g,
    (end) => `\\u${end.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return `event: ${event}\n${id === undefined ? "" : `id: ${id}\n`}data: ${json}\n\n`;
}
