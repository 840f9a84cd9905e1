import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";

/** Time in ms that a client has to read the response while it still sends a body that is not used. */
const LINGER_MS = 2_000;
/** Connections over the limit that still get an error response. Further connections are closed without a response. */
const MAX_EXCESS_CONNECTIONS = 64;

/** All connections of a server with their open responses, including upgraded sockets. */
export class HttpSockets {
  readonly #limit: number;
  readonly #open = new Map<Duplex, Set<ServerResponse>>();
  readonly #upgraded = new Set<Duplex>();
  readonly #overLimit = new Set<Duplex>();
  readonly #waiting: (() => void)[] = [];
  #closing = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Adds a new connection, or destroys it if there are too many. */
  add(socket: Socket): void {
    if (this.#open.size >= this.#limit + MAX_EXCESS_CONNECTIONS) {
      socket.destroy();
      return;
    }
    if (this.#open.size >= this.#limit) this.#overLimit.add(socket);
    this.#open.set(socket, new Set());
    socket.once("close", () => {
      this.#open.delete(socket);
      this.#upgraded.delete(socket);
      this.#overLimit.delete(socket);
      if (this.#open.size === 0) for (const resolve of this.#waiting.splice(0)) resolve();
    });
  }

  /** Resolves when all connections are closed. */
  allClosed(): Promise<void> {
    return this.#open.size === 0 ? Promise.resolve() : new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Whether the connection was opened over the limit. */
  isOverLimit(socket: Duplex): boolean {
    return this.#overLimit.has(socket);
  }

  /** Tracks a request until its response closes. */
  begin(socket: Duplex, response: ServerResponse): void {
    const responses = this.#open.get(socket);
    responses?.add(response);
    response.once("finish", () => {
      // The response was sent before the end of the body. The remaining body is read and dropped for a limited time.
      if (!response.req.complete) setTimeout(() => response.req.complete || socket.destroy(), LINGER_MS).unref();
    });
    response.once("close", () => {
      responses?.delete(response);
      if (this.#closing) this.#endIfIdle(socket);
    });
  }

  /** Whether a response has started on this connection, so that another one would corrupt it. */
  isAnswering(socket: Duplex): boolean {
    return [...(this.#open.get(socket) ?? [])].some((response) => response.headersSent);
  }

  /** Marks a socket as upgraded to another protocol. The owner of that protocol closes it. */
  upgrade(socket: Duplex): void {
    this.#upgraded.add(socket);
  }

  /** Closes connections without an open request, now and whenever a connection becomes idle. */
  closeIdle(): void {
    this.#closing = true;
    for (const socket of this.#open.keys()) this.#endIfIdle(socket);
  }

  /** Destroys all remaining connections. */
  destroyAll(): void {
    for (const socket of this.#open.keys()) socket.destroy();
  }

  #endIfIdle(socket: Duplex): void {
    if (this.#upgraded.has(socket) || this.#open.get(socket)?.size !== 0) return;
    // Sends pending data, then closes.
    (socket as Socket).destroySoon();
  }
}
