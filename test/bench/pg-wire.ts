// A counter between a client and PostgreSQL: it passes every byte on and understands as much of the frontend/backend
// protocol as it takes to tell statements, round trips and bytes apart. Without TLS.
import { once } from "node:events";
import net from "node:net";

/** What went over all connections since the last `take`. */
export interface Traffic {
  /** Statements that were executed, as functions or first words name them; in the order in which they were sent. */
  statements: string[];
  /** Times that somebody waits for the server: Sync and simple Query. */
  roundTrips: number;
  /** Bytes to the server, without those of the start of a connection. */
  sent: number;
  /** Bytes from the server, likewise. */
  received: number;
  /** Notifications that came. */
  notices: number;
}

const none = (): Traffic => ({ statements: [], roundTrips: 0, sent: 0, received: 0, notices: 0 });

/** How statements that tell others of news are called here: nobody waits for them, and they go together. */
export const HINT = "hint";

/** What a statement is called here: the function of a schema that it calls, without what tells its version; else its first two words. */
export function nameOf(text: string): string {
  const [, called] =
    /\b(?:from|select)\s+(?:"(?:[^"]|"")*"|\w+)\."?([a-z_]+?)(?:_?v?\d\w*|_[0-9a-f]{6,})?"?\s*\(/i.exec(text) ?? [];
  if (/\bpg_notify\s*\(|^\s*notify\b/i.test(text)) return HINT;
  return called ?? text.trim().split(/\s+/).slice(0, 2).join(" ");
}

/** The messages of one direction, cut out of what comes in pieces: a type, then a length that counts itself. */
export class Messages {
  #left: Buffer<ArrayBufferLike> = Buffer.alloc(0);
  /** Whether the next message has no type: the first of a client. */
  #untyped: boolean;

  constructor(untyped: boolean) {
    this.#untyped = untyped;
  }

  /** Whole messages that a piece completes; `type` is `""` for those without one. */
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

/** Text up to the NUL that ends it. */
const textAt = (body: Buffer, from: number): string => body.toString("utf8", from, body.indexOf(0, from));

/** Listens on loopback and counts what goes through. `close` it. */
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

  /** What was counted, and begin anew. */
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
    const asked = new Messages(true);
    const told = new Messages(false);
    // Prepared once, executed often: what a name stands for, and what a portal runs.
    const texts = new Map<string, string>();
    const portals = new Map<string, string>();
    let started = false;
    client.on("data", (piece: Buffer) => {
      if (started) this.#traffic.sent += piece.length;
      for (const { type, body } of asked.read(piece)) this.#asked(type, body, texts, portals);
      server.write(piece);
    });
    server.on("data", (piece: Buffer) => {
      if (started) this.#traffic.received += piece.length;
      for (const { type } of told.read(piece)) {
        if (type === "A") this.#traffic.notices += 1;
        if (type === "Z") started = true;
      }
      client.write(piece);
    });
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(one);
      one.on("error", () => other.destroy());
      one.on("end", () => other.end());
      one.on("close", () => {
        this.#sockets.delete(one);
        other.destroy();
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
