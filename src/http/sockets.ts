import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";

/** Time for a client to read the response while it still sends the body, in ms. The connection is then closed. */
const LINGER_MS = 2_000;
/** Connections over the limit that still get an error response. Further connections are closed without a response. */
const MAX_EXCESS_CONNECTIONS = 64;

/** All connections of a server with their open responses, including upgraded sockets. */
export class HttpSockets {
  readonly #maxConnections: number;
  readonly #responsesBySocket = new Map<Duplex, Set<ServerResponse>>();
  readonly #upgradedSockets = new Set<Duplex>();
  readonly #excessSockets = new Set<Duplex>();
  readonly #closeCallbacks: (() => void)[] = [];
  #isClosing = false;

  constructor(maxConnections: number) {
    this.#maxConnections = maxConnections;
  }

  /** Number of open connections. */
  get count(): number {
    return this.#responsesBySocket.size;
  }

  /** Adds a new connection, or destroys it if there are too many. */
  add(socket: Socket): void {
    if (this.#responsesBySocket.size >= this.#maxConnections + MAX_EXCESS_CONNECTIONS) {
      socket.destroy();
      return;
    }
    if (this.#responsesBySocket.size >= this.#maxConnections) this.#excessSockets.add(socket);
    this.#responsesBySocket.set(socket, new Set());
    socket.once("close", () => {
      this.#responsesBySocket.delete(socket);
      this.#upgradedSockets.delete(socket);
      this.#excessSockets.delete(socket);
      if (this.#responsesBySocket.size === 0) for (const callback of this.#closeCallbacks.splice(0)) callback();
    });
  }

  /** Resolves when all connections are closed. */
  waitUntilClosed(): Promise<void> {
    return this.#responsesBySocket.size === 0
      ? Promise.resolve()
      : new Promise((resolve) => this.#closeCallbacks.push(resolve));
  }

  /** Whether the connection was opened over the limit. */
  isOverLimit(socket: Duplex): boolean {
    return this.#excessSockets.has(socket);
  }

  /** Counts the response as open until it closes. */
  trackResponse(socket: Duplex, response: ServerResponse): void {
    const responses = this.#responsesBySocket.get(socket);
    responses?.add(response);
    response.once("finish", () => {
      // The response was sent before the end of the body. The remaining body is read and dropped for a limited time.
      if (!response.req.complete) setTimeout(() => response.req.complete || socket.destroy(), LINGER_MS).unref();
    });
    response.once("close", () => {
      responses?.delete(response);
      if (this.#isClosing) this.#endIfIdle(socket);
    });
  }

  /** Whether a response has started on this connection, so that another one would corrupt it. */
  hasStartedResponse(socket: Duplex): boolean {
    return [...(this.#responsesBySocket.get(socket) ?? [])].some((response) => response.headersSent);
  }

  /** Marks a socket as upgraded to another protocol. The mount that upgraded the socket closes it. */
  markUpgraded(socket: Duplex): void {
    this.#upgradedSockets.add(socket);
  }

  /** Closes connections without an open request, now and whenever a connection becomes idle. */
  closeIdle(): void {
    this.#isClosing = true;
    for (const socket of this.#responsesBySocket.keys()) this.#endIfIdle(socket);
  }

  /** Destroys all remaining connections. */
  destroyAll(): void {
    for (const socket of this.#responsesBySocket.keys()) socket.destroy();
  }

  #endIfIdle(socket: Duplex): void {
    if (this.#upgradedSockets.has(socket) || this.#responsesBySocket.get(socket)?.size !== 0) return;
    // Sends pending data, then closes.
    (socket as Socket).destroySoon();
  }
}
