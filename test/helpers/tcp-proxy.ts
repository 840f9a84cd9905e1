import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import type { Hooks } from "./temp-dir.js";

/** Both ends of a connection through the proxy. */
interface ConnectionPair {
  readonly client: Socket;
  readonly server: Socket;
  /**
   * Direction whose next bytes cut the connection: from the client (a question) or from the server (an answer).
   * Undefined: no cut is requested.
   */
  cutDirection: "question" | "answer" | undefined;
  /** Number of chunks received from the client until now. */
  questionCount: number;
  /** Answer bytes that are forwarded before the connection is cut. */
  remainingBytes: number;
}

/** A proxy between a client and a server. It forwards everything, and cuts connections on request. */
export class TcpProxy {
  readonly #server: Server;
  readonly #pairs = new Set<ConnectionPair>();
  /** Number of connections that the proxy has cut. */
  cutCount = 0;
  /** Number of chunks forwarded from clients to the server, on all connections. */
  forwardedPieces = 0;
  /** Answer bytes that the next connection forwards before it is cut. Later connections are not limited. */
  nextAnswerBytes = Infinity;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** Starts a proxy in front of a URL's host and port. */
  static async startBefore(hooks: Hooks, url: string): Promise<TcpProxy> {
    const { hostname, port } = new URL(url);
    const server = createServer();
    const proxy = new TcpProxy(server);
    server.on("connection", (client) => proxy.#forward(client, connect({ host: hostname, port: Number(port) })));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    hooks.after(() => proxy.close());
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Number of open connections. */
  get connectionCount(): number {
    return this.#pairs.size;
  }

  /** The same URL with the proxy's address. */
  toProxyUrl(originalUrl: string): string {
    const url = new URL(originalUrl);
    url.port = String(this.port);
    return url.href;
  }

  #forward(client: Socket, server: Socket): void {
    const pair: ConnectionPair = {
      client,
      server,
      cutDirection: undefined,
      questionCount: 0,
      remainingBytes: this.nextAnswerBytes,
    };
    this.nextAnswerBytes = Infinity;
    this.#pairs.add(pair);
    const destroyPair = (): void => {
      this.#pairs.delete(pair);
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) socket.setNoDelay(true).on("error", destroyPair).on("close", destroyPair);
    client.on("data", (bytes) => {
      pair.questionCount++;
      if (pair.cutDirection === "question") this.#cut(pair);
      else {
        this.forwardedPieces++;
        server.write(bytes);
      }
    });
    server.on("data", (bytes) => {
      if (pair.cutDirection === "answer") return this.#cut(pair);
      const isLimitReached = bytes.length >= pair.remainingBytes;
      const part = bytes.subarray(0, pair.remainingBytes);
      pair.remainingBytes -= part.length;
      // Cut only after the forwarded bytes were written, so that they arrive.
      if (isLimitReached) client.write(part, () => setImmediate(() => this.#cut(pair)));
      else client.write(part);
    });
  }

  #cut(pair: ConnectionPair): void {
    this.cutCount++;
    this.#pairs.delete(pair);
    // A reset without an orderly close, as in a network failure.
    pair.client.resetAndDestroy();
    pair.server.destroy();
  }

  /**
   * Cuts every connection at its next use. With `"question"` the server does not receive the request. With `"answer"`
   * the server has executed the request, but the client receives no answer.
   */
  cutNext(direction: "question" | "answer"): void {
    for (const pair of this.#pairs) pair.cutDirection = direction;
  }

  /** Number of open connections on which the client has sent at least `minQuestions` chunks. */
  countActive(minQuestions: number): number {
    return [...this.#pairs].filter((pair) => pair.questionCount >= minQuestions).length;
  }

  /**
   * Cuts a random connection at its next use, among those on which the client has sent at least `minQuestions` chunks.
   */
  cutOne(direction: "question" | "answer", random: () => number, minQuestions = 0): void {
    const pairs = [...this.#pairs].filter(
      (pair) => pair.cutDirection === undefined && pair.questionCount >= minQuestions,
    );
    const pair = pairs[Math.floor(random() * pairs.length)];
    if (pair) pair.cutDirection = direction;
  }

  /** Cuts every connection now. */
  cutAll(): void {
    for (const pair of this.#pairs) this.#cut(pair);
  }

  async close(): Promise<void> {
    this.#server.close();
    for (const { client, server } of this.#pairs) {
      client.destroy();
      server.destroy();
    }
    await once(this.#server, "close");
  }
}
