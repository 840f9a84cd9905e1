// A counting proxy between a client and PostgreSQL. It forwards every byte and parses enough of the frontend/backend
// protocol to count statements, round trips and bytes. Does not support TLS. Message types of a client: P (Parse),
// B (Bind), E (Execute), Q (Query), S (Sync); of the server: A (NotificationResponse), Z (ReadyForQuery).
import { once } from "node:events";
import net from "node:net";

/** Traffic of all connections since the last `takeTraffic`. */
export interface Traffic {
  /** Executed statements in the order of sending, named by their function or first words. */
  statements: string[];
  /** Number of waits for the server: Sync and simple Query messages. */
  roundTrips: number;
  /** Bytes to the server, without those of connection setup. */
  sentBytes: number;
  /** Bytes from the server, without those of connection setup. */
  receivedBytes: number;
  /** Number of received notifications. */
  notices: number;
}

const createTraffic = (): Traffic => ({ statements: [], roundTrips: 0, sentBytes: 0, receivedBytes: 0, notices: 0 });

/** Name for statements that notify other connections. No client waits for them, and they are sent together. */
export const HINT = "hint";

/** Returns the name of a statement: the called function without its version suffix, otherwise the first two words. */
export function getStatementName(text: string): string {
  const [, functionName] =
    /\b(?:from|select)\s+(?:"(?:[^"]|"")*"|\w+)\."?([a-z_]+?)(?:_?v?\d\w*|_[0-9a-f]{6,})?"?\s*\(/i.exec(text) ?? [];
  if (/\bpg_notify\s*\(|^\s*notify\b/i.test(text)) return HINT;
  return functionName ?? text.trim().split(/\s+/).slice(0, 2).join(" ");
}

/** Splits the byte stream of one direction into messages: a type, then a length that includes itself. */
export class MessageParser {
  #incompleteBytes: Buffer<ArrayBufferLike> = Buffer.alloc(0);
  /** Whether the next message has no type, like the first message of a client. */
  #isUntyped: boolean;

  constructor(isUntyped: boolean) {
    this.#isUntyped = isUntyped;
  }

  /** Yields the messages that a piece completes. `type` is `""` for a message without a type. */
  *read(piece: Buffer): Generator<{ type: string; body: Buffer }> {
    this.#incompleteBytes = this.#incompleteBytes.length === 0 ? piece : Buffer.concat([this.#incompleteBytes, piece]);
    for (;;) {
      const typeBytes = this.#isUntyped ? 0 : 1;
      if (this.#incompleteBytes.length < typeBytes + 4) return;
      const endOffset = typeBytes + this.#incompleteBytes.readInt32BE(typeBytes);
      if (this.#incompleteBytes.length < endOffset) return;
      const type = this.#incompleteBytes.toString("latin1", 0, typeBytes);
      const body = this.#incompleteBytes.subarray(typeBytes + 4, endOffset);
      this.#incompleteBytes = this.#incompleteBytes.subarray(endOffset);
      this.#isUntyped = false;
      yield { type, body };
    }
  }
}

/** Reads the text from an offset up to the terminating NUL. */
const readText = (body: Buffer, offset: number): string => body.toString("utf8", offset, body.indexOf(0, offset));

/** Listens on loopback and counts the traffic. Callers must `close` the proxy. */
export class CountingProxy {
  readonly #server: net.Server;
  readonly #sockets = new Set<net.Socket>();
  #traffic = createTraffic();

  private constructor(server: net.Server) {
    this.#server = server;
  }

  static async start(target: { host: string; port: number }): Promise<CountingProxy> {
    const server = net.createServer({ noDelay: true });
    const proxy = new CountingProxy(server);
    server.on("connection", (client) => proxy.#connect(client, net.connect({ ...target, noDelay: true })));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port;
  }

  /** Returns the counts and resets them. */
  takeTraffic(): Traffic {
    const traffic = this.#traffic;
    this.#traffic = createTraffic();
    return traffic;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  #connect(client: net.Socket, server: net.Socket): void {
    const clientMessages = new MessageParser(true);
    const serverMessages = new MessageParser(false);
    // Texts of prepared statements by name, and statement names by portal.
    const statementTextsByName = new Map<string, string>();
    const statementNamesByPortal = new Map<string, string>();
    let isStarted = false;
    client.on("data", (piece: Buffer) => {
      if (isStarted) this.#traffic.sentBytes += piece.length;
      for (const { type, body } of clientMessages.read(piece))
        this.#countMessage(type, body, statementTextsByName, statementNamesByPortal);
      server.write(piece);
    });
    server.on("data", (piece: Buffer) => {
      if (isStarted) this.#traffic.receivedBytes += piece.length;
      for (const { type } of serverMessages.read(piece)) {
        if (type === "A") this.#traffic.notices += 1;
        if (type === "Z") isStarted = true;
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

  #countMessage(
    type: string,
    body: Buffer,
    statementTextsByName: Map<string, string>,
    statementNamesByPortal: Map<string, string>,
  ): void {
    if (type === "P") {
      const name = readText(body, 0);
      statementTextsByName.set(name, readText(body, Buffer.byteLength(name) + 1));
    } else if (type === "B") {
      const portal = readText(body, 0);
      statementNamesByPortal.set(portal, readText(body, Buffer.byteLength(portal) + 1));
    } else if (type === "E")
      this.#traffic.statements.push(
        getStatementName(statementTextsByName.get(statementNamesByPortal.get(readText(body, 0)) ?? "") ?? "unknown"),
      );
    else if (type === "Q") this.#traffic.statements.push(getStatementName(readText(body, 0)));
    if (type === "Q" || type === "S") this.#traffic.roundTrips += 1;
  }
}
