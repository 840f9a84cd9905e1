import { once } from "node:events";
import {
  createServer,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Hooks } from "./temp.js";

/** How a server is selected for a request: round robin, or the server of the client's earlier requests. */
export type Affinity = "none" | "cookie" | "header";

export interface BalancerOptions {
  affinity?: Affinity;
  /** Statuses after which the next server is tried. A refused connection always tries the next server. */
  nextOn?: readonly number[];
  /** Whether a server receives requests. Default: all do. */
  isReady?: (index: number) => boolean;
}

const COOKIE = "replica";
/** Headers that identify a client. A server sets them, and the client then sends them. */
const NAMES = ["acp-connection-id", "acp-session-id"] as const;

/**
 * A load balancer: a port that forwards each request to one of several servers. If a connection breaks after
 * forwarding, the result is unknown: it answers 502, or cuts the response.
 */
export class Balancer {
  /** Number of answered requests by server index. */
  readonly answered: number[] = [];
  /** Number of refused connections and of answers with a status in `nextOn`. */
  passedOver = 0;
  /** Number of 502 responses. */
  broken = 0;
  readonly #http = createServer((request, response) => void this.#serve(request, response));
  readonly #servers: () => readonly string[];
  readonly #options: BalancerOptions;
  readonly #sockets = new Set<Duplex>();
  /** Server index by the header that identifies a client. */
  readonly #known = new Map<string, number>();
  #turn = 0;

  /**
   * Starts on a free port; closed after the test. `servers` returns the origins of all servers, including stopped ones.
   */
  static async start(hooks: Hooks, servers: () => readonly string[], options: BalancerOptions = {}): Promise<Balancer> {
    const balancer = new Balancer(servers, options);
    balancer.#http.listen(0, "127.0.0.1");
    await once(balancer.#http, "listening");
    hooks.after(() => balancer.close());
    return balancer;
  }

  private constructor(servers: () => readonly string[], options: BalancerOptions) {
    this.#servers = servers;
    this.#options = options;
    this.#http.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) =>
      this.#upgrade(request, socket, head),
    );
    this.#http.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    if (!this.#http.listening) return;
    const closed = once(this.#http, "close");
    this.#http.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  /** Server indexes in the order in which they are tried. */
  #order(headers: IncomingHttpHeaders): number[] {
    const count = this.#servers().length;
    const first = this.#bound(headers) ?? (this.#turn = (this.#turn + 1) % count);
    const all = Array.from({ length: count }, (_, n) => (first + n) % count);
    const { isReady } = this.#options;
    const ready = isReady ? all.filter(isReady) : all;
    return ready.length > 0 ? ready : all;
  }

  /** The server of this client's earlier requests. */
  #bound(headers: IncomingHttpHeaders): number | undefined {
    const { affinity = "none" } = this.#options;
    if (affinity === "cookie") {
      const index = Number(new RegExp(`\\b${COOKIE}=(\\d+)`).exec(headers.cookie ?? "")?.[1] ?? NaN);
      return index < this.#servers().length ? index : undefined;
    }
    if (affinity === "header")
      for (const name of NAMES) {
        const serverIndex = this.#known.get(`${name} ${String(headers[name])}`);
        if (serverIndex !== undefined) return serverIndex;
      }
    return undefined;
  }

  /** Records the server of a client. Returns the headers to add to the response. */
  #learn(headers: IncomingHttpHeaders, index: number): Record<string, string> {
    const { affinity = "none" } = this.#options;
    if (affinity === "header")
      for (const name of NAMES)
        if (headers[name] !== undefined) this.#known.set(`${name} ${String(headers[name])}`, index);
    return affinity === "cookie" ? { "set-cookie": `${COOKIE}=${index}; Path=/; HttpOnly` } : {};
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    try {
      for await (const part of request) parts.push(part as Buffer);
    } catch {
      return;
    }
    const body = Buffer.concat(parts);
    const order = this.#order(request.headers);
    for (const [tried, index] of order.entries()) {
      const answer = await this.#ask(index, request, body, response);
      if (response.destroyed) return void (typeof answer === "object" && answer.destroy());
      const isLast = tried === order.length - 1;
      if (answer === "refused" && !isLast) {
        this.passedOver += 1;
        continue;
      }
      if (answer === undefined || answer === "refused") {
        this.broken += 1;
        response.writeHead(502, { "content-type": "text/plain" }).end("bad gateway");
        return;
      }
      const status = answer.statusCode ?? 502;
      if (!isLast && this.#options.nextOn?.includes(status)) {
        this.passedOver += 1;
        answer.resume();
        continue;
      }
      this.answered[index] = (this.answered[index] ?? 0) + 1;
      response.writeHead(status, { ...answer.headers, ...this.#learn(answer.headers, index) });
      response.flushHeaders();
      answer.on("error", () => response.destroy());
      answer.on("aborted", () => response.destroy());
      response.on("close", () => answer.destroy());
      answer.pipe(response);
      return;
    }
  }

  /** Forwards a request. Resolves with the response when its headers arrive, or undefined if the connection broke. */
  #ask(
    index: number,
    { method, url, rawHeaders }: IncomingMessage,
    body: Buffer,
    client: ServerResponse,
  ): Promise<IncomingMessage | "refused" | undefined> {
    return new Promise((resolve) => {
      const forwarded = httpRequest(new URL(url ?? "/", this.#servers()[index]), {
        method,
        headers: plain(rawHeaders, new URL(this.#servers()[index]!).host),
        agent: false,
      });
      const leave = () => forwarded.destroy();
      client.once("close", leave);
      forwarded.once("response", (answer) => {
        client.off("close", leave);
        resolve(answer);
      });
      forwarded.once("error", (error: NodeJS.ErrnoException) => {
        client.off("close", leave);
        resolve(error.code === "ECONNREFUSED" ? "refused" : undefined);
      });
      forwarded.end(body);
    });
  }

  #upgrade(request: IncomingMessage, client: Socket, head: Buffer): void {
    client.on("error", () => undefined);
    const [index, ...otherServers] = this.#order(request.headers);
    const attempt = (at: number, remainingServers: readonly number[]): void => {
      const { hostname, port, host } = new URL(this.#servers()[at]!);
      const server = connect(Number(port), hostname);
      this.#sockets.add(server);
      server.once("close", () => {
        this.#sockets.delete(server);
        client.destroy();
      });
      server.once("error", (error: NodeJS.ErrnoException) => {
        const [next, ...last] = remainingServers;
        if (error.code !== "ECONNREFUSED" || next === undefined) return void client.destroy();
        this.passedOver += 1;
        server.removeAllListeners("close");
        this.#sockets.delete(server);
        attempt(next, last);
      });
      server.once("connect", () => {
        const headers = Object.entries(plain(request.rawHeaders, host, true)).flatMap(([name, value]) =>
          (Array.isArray(value) ? value : [value]).map((value) => `${name}: ${value}\r\n`),
        );
        server.write(`${request.method} ${request.url} HTTP/1.1\r\n${headers.join("")}\r\n`);
        server.write(head);
        server.once("data", (first: Buffer) => {
          const answer = first.toString("latin1");
          const lines = answer.slice(0, answer.indexOf("\r\n\r\n")).split("\r\n").slice(1);
          const responseHeaders = Object.fromEntries(
            lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 2)]),
          );
          this.answered[at] = (this.answered[at] ?? 0) + 1;
          const addedLines = Object.entries(this.#learn(responseHeaders, at)).map(
            ([name, value]) => `${name}: ${value}\r\n`,
          );
          const end = first.indexOf("\r\n") + 2;
          client.write(Buffer.concat([first.subarray(0, end), Buffer.from(addedLines.join("")), first.subarray(end)]));
          server.pipe(client);
        });
        client.pipe(server);
      });
      client.once("close", () => server.destroy());
    };
    if (index !== undefined) attempt(index, otherServers);
  }
}

/** The received headers with the server's host. Hop-by-hop headers are removed, except for an upgrade. */
function plain(raw: readonly string[], host: string, isUpgrade = false): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = {};
  for (let n = 0; n < raw.length; n += 2) {
    const [name = "", value = ""] = [raw[n], raw[n + 1]];
    const lower = name.toLowerCase();
    if (lower === "host" || (!isUpgrade && (lower === "connection" || lower === "transfer-encoding"))) continue;
    const before = headers[lower];
    headers[lower] = before === undefined ? value : [before, value].flat();
  }
  return { host, ...headers };
}
