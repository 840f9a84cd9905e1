import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import type { Hooks } from "./temp.js";

/** Both ends of a connection through the proxy. */
interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  /** What becomes of the next bytes: from the client (a question) or from the server (an answer). */
  cut: "question" | "answer" | undefined;
  /** What the client said so far, in pieces. */
  questions: number;
  /** Bytes of answers that still go through before it is cut. */
  left: number;
}

/** Between a client and a server: passes all on, and cuts connections where it is told to. */
export class TcpProxy {
  readonly #server: Server;
  readonly #pairs = new Set<Pair>();
  /** How many connections it has cut. */
  cuts = 0;
  /** Pieces that clients said on all of them together and that went on to the server. */
  asked = 0;
  /** Bytes of answers that go through on the next connection, before that is cut; the ones after it are left alone. */
  nextPasses = Infinity;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** In front of a URL's host and port. */
  static async before(hooks: Hooks, url: string): Promise<TcpProxy> {
    const { hostname, port } = new URL(url);
    const server = createServer();
    const proxy = new TcpProxy(server);
    server.on("connection", (client) => proxy.#pass(client, connect({ host: hostname, port: Number(port) })));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    hooks.after(() => proxy.close());
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Connections that are there now. */
  get size(): number {
    return this.#pairs.size;
  }

  /** The same URL, by way of the proxy. */
  url(of: string): string {
    const url = new URL(of);
    url.port = String(this.port);
    return url.href;
  }

  #pass(client: Socket, server: Socket): void {
    const pair: Pair = { client, server, cut: undefined, questions: 0, left: this.nextPasses };
    this.nextPasses = Infinity;
    this.#pairs.add(pair);
    const end = (): void => {
      this.#pairs.delete(pair);
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) socket.setNoDelay(true).on("error", end).on("close", end);
    client.on("data", (bytes) => {
      pair.questions++;
      if (pair.cut === "question") this.#cut(pair);
      else {
        this.asked++;
        server.write(bytes);
      }
    });
    server.on("data", (bytes) => {
      if (pair.cut === "answer") return this.#cut(pair);
      const enough = bytes.length >= pair.left;
      const part = bytes.subarray(0, pair.left);
      pair.left -= part.length;
      // In order, and only then without a goodbye: what went through has arrived.
      if (enough) client.write(part, () => setImmediate(() => this.#cut(pair)));
      else client.write(part);
    });
  }

  #cut(pair: Pair): void {
    this.cuts++;
    this.#pairs.delete(pair);
    // As a network does it that goes away: without a goodbye.
    pair.client.resetAndDestroy();
    pair.server.destroy();
  }

  /**
   * Cut every connection when it is used next: with `"question"` the server never hears what was asked, with `"answer"`
   * it has done what was asked and nobody hears of it.
   */
  cutNext(what: "question" | "answer"): void {
    for (const pair of this.#pairs) pair.cut = what;
  }

  /** Connections that are there now, on which the client said so much already. */
  spokenOn(questions: number): number {
    return [...this.#pairs].filter((pair) => pair.questions >= questions).length;
  }

  /** Cut one of the connections when it is used next, if there is one on which the client said so much already. */
  cutOne(what: "question" | "answer", random: () => number, questions = 0): void {
    const pairs = [...this.#pairs].filter((pair) => pair.cut === undefined && pair.questions >= questions);
    const pair = pairs[Math.floor(random() * pairs.length)];
    if (pair) pair.cut = what;
  }

  /** Cut every connection now. */
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
