// A counting proxy between a client and PostgreSQL. It forwards every byte and parses enough of the frontend/backend
// protocol to count statements, round trips and bytes. Does not support TLS.
import { once } from "node:events";
import net from "node:net";

/** Traffic of all connections since the last `take`. */
export interface Traffic {
  /** Executed statements in the order of sending, named by their function or first words. */
  statements: string[];
  /** Number of waits for the server: Sync and simple Query messages. */
  roundTrips: number;
  /** Bytes to the server, without those of connection setup. */
  sent: number;
  /** Bytes from the server, without those of connection setup. */
  received: number;
  /** Number of received notifications. */
  notices: number;
}

const none = (): Traffic => ({ statements: [], roundTrips: 0, sent: 0, received: 0, notices: 0 });

/** Name for statements that notify other connections. No client waits for them, and they are sent together. */
export const HINT = "hint";

/** Name of a statement: the called function without its version suffix, or else the first two words. */
export function nameOf(text: string): string {
  const [, called] =
    /\b(?:from|select)\s+(?:"(?:[^"]|"")*"|\w+)\."?([a-z_]+?)(?:_?v?\d\w*|_[0-9a-f]{6,})?"?\s*\(/i.exec(text) ?? [];
  if (/\bpg_notify\s*\(|^\s*notify\b/i.test(text)) return HINT;
  return called ?? text.trim().split(/\s+/).slice(0, 2).join(" ");
}

/** Splits the byte stream of one direction into messages: a type, then a length that includes itself. */
export class Messages {
  #left: Buffer<ArrayBufferLike> = Buffer.alloc(0);
  /** Whether the next message has no type, as a client's first one. */
  #untyped: boolean;

  constructor(untyped: boolean) {
    this.#untyped = untyped;
  }

  /** Yields the messages that a piece completes. `type` is `""` for a message without a type. */
  *read(piece: Buffer): Generator<{ type: string; body: Buffer }> {
    this.#left = this.#left.length === 0 ? piece : Buffer.concat([this.#left, piece]);
    for (;;) {
      const head = this.#untyped ? 0 : 1;
      if (this.#left.length < head + 4) return;
      const end = head + this.#left.readInt32BE(head);
      if (this.#left.length < end) return;
      const type = this.#left.toString("latin1", 0, head);
      const body = this.#left.subarray(head + 4, end);
      this.#left = this.#left.subarray(end);
      this.#untyped = false;
      yield { type, body };
    }
  }
}

/** Text up to the terminating NUL. */
const textAt = (body: Buffer, from: number): string => body.toString("utf8", from, body.indexOf(0, from));

/** Listens on loopback and counts the traffic. Callers must `close` it. */
export class CountingProxy {
  readonly #server: net.Server;
  readonly #sockets = new Set<net.Socket>();
  #traffic = none();

  private constructor(server: net.Server) {
    this.#server = server;
  }

  static async start(to: { host: string; port: number }): Promise<CountingProxy> {
    const server = net.createServer({ noDelay: true });
    const proxy = new CountingProxy(server);
    server.on("connection", (client) => proxy.#join(client, net.connect({ ...to, noDelay: true })));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port;
  }

  /** Returns the counts and resets them. */
  take(): Traffic {
    const taken = this.#traffic;
    this.#traffic = none();
    return taken;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  #join(client: net.Socket, server: net.Socket): void {
    const clientMessages = new Messages(true);
    const serverMessages = new Messages(false);
    // Texts of prepared statements by name, and statement names by portal.
    const texts = new Map<string, string>();
    const portals = new Map<string, string>();
    let started = false;
    client.on("data", (piece: Buffer) => {
      if (started) this.#traffic.sent += piece.length;
      for (const { type, body } of clientMessages.read(piece)) this.#asked(type, body, texts, portals);
      server.write(piece);
    });
    server.on("data", (piece: Buffer) => {
      if (started) this.#traffic.received += piece.length;
      for (const { type } of serverMessages.read(piece)) {
        if (type === "A") this.#traffic.notices += 1;
        if (type === "Z") started = true;
      }
      client.write(piece);
    });
    for (const [socket, peerSocket] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on("error", () => peerSocket.destroy());
      socket.on("end", () => peerSocket.end());
      socket.on("close", () => {
        this.#sockets.delete(socket);
        peerSocket.destroy();
      });
    }
  }

  #asked(type: string, body: Buffer, texts: Map<string, string>, portals: Map<string, string>): void {
    if (type === "P") {
      const name = textAt(body, 0);
      texts.set(name, textAt(body, Buffer.byteLength(name) + 1));
    } else if (type === "B") {
      const portal = textAt(body, 0);
      portals.set(portal, textAt(body, Buffer.byteLength(portal) + 1));
    } else if (type === "E")
      this.#traffic.statements.push(nameOf(texts.get(portals.get(textAt(body, 0)) ?? "") ?? "unknown"));
    else if (type === "Q") this.#traffic.statements.push(nameOf(textAt(body, 0)));
    if (type === "Q" || type === "S") this.#traffic.roundTrips += 1;
  }
}
