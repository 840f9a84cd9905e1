import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";

/** A client that still sends a body nobody reads gets so long, in ms, to read the answer. */
const LINGER_MS = 2_000;
/** Connections over the limit that are still told so; beyond these they are cut without a word. */
const SPARE = 64;

/** Every connection of a server with what goes on in it, sockets that were upgraded included. */
export class HttpSockets {
  readonly #limit: number;
  readonly #open = new Map<Duplex, Set<ServerResponse>>();
  readonly #upgraded = new Set<Duplex>();
  readonly #over = new Set<Duplex>();
  readonly #waiting: (() => void)[] = [];
  #closing = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** A new connection. */
  add(socket: Socket): void {
    if (this.#open.size >= this.#limit + SPARE) {
      socket.destroy();
      return;
    }
    if (this.#open.size >= this.#limit) this.#over.add(socket);
    this.#open.set(socket, new Set());
    socket.once("close", () => {
      this.#open.delete(socket);
      this.#upgraded.delete(socket);
      this.#over.delete(socket);
      if (this.#open.size === 0) for (const resolve of this.#waiting.splice(0)) resolve();
    });
  }

  /** Resolves when no connection is left. */
  empty(): Promise<void> {
    return this.#open.size === 0 ? Promise.resolve() : new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Whether it came when there were too many. */
  isOver(socket: Duplex): boolean {
    return this.#over.has(socket);
  }

  /** A request that is under way until its response closes. */
  begin(socket: Duplex, response: ServerResponse): void {
    const responses = this.#open.get(socket);
    responses?.add(response);
    response.once("finish", () => {
      // An answer before the end of the body: the rest is read and dropped, but not for ever.
      if (!response.req.complete) setTimeout(() => response.req.complete || socket.destroy(), LINGER_MS).unref();
    });
    response.once("close", () => {
      responses?.delete(response);
      if (this.#closing) this.#endIfIdle(socket);
    });
  }

  /** Whether an answer has begun on this connection, so that another one would garble it. */
  isAnswering(socket: Duplex): boolean {
    return [...(this.#open.get(socket) ?? [])].some((response) => response.headersSent);
  }

  /** It speaks another protocol from now on, whose owner closes it. */
  upgrade(socket: Duplex): void {
    this.#upgraded.add(socket);
  }

  /** Close connections with no request under way, now and whenever one becomes idle. */
  closeIdle(): void {
    this.#closing = true;
    for (const socket of this.#open.keys()) this.#endIfIdle(socket);
  }

  /** Cut what is left. */
  destroyAll(): void {
    for (const socket of this.#open.keys()) socket.destroy();
  }

  #endIfIdle(socket: Duplex): void {
    if (this.#upgraded.has(socket) || this.#open.get(socket)?.size !== 0) return;
    // Sends what is still to be sent, then closes.
    (socket as Socket).destroySoon();
  }
}
