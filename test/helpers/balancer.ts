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
import type { Hooks } from "./temp-dir.js";

/** How a server is selected for a request: round robin, or the server of the client's earlier requests. */
export type Affinity = "none" | "cookie" | "header";

export interface BalancerOptions {
  affinity?: Affinity;
  /** Statuses after which the next server is tried. A refused connection always tries the next server. */
  retryStatuses?: readonly number[];
  /** Whether a server receives requests. Default: all servers do. If no server is ready, all receive requests. */
  isReady?: (index: number) => boolean;
}

const COOKIE_NAME = "replica";
/** Headers that identify a client. A server sets them, and the client then sends them. */
const CLIENT_HEADERS = ["acp-connection-id", "acp-session-id"] as const;

/**
 * A load balancer: a port that forwards each request to one of several servers. If a connection breaks after
 * forwarding, the result is unknown: the balancer answers 502, or cuts the response.
 */
export class Balancer {
  /** Number of answered requests by server index. */
  readonly answerCounts: number[] = [];
  /** Number of refused connections and of answers with a status in `retryStatuses`. */
  retryCount = 0;
  /** Number of 502 responses. */
  badGatewayCount = 0;
  readonly #http = createServer({ headersTimeout: 0, requestTimeout: 0 }, (request, response) => {
    void this.#serve(request, response);
  });
  readonly #getOrigins: () => readonly string[];
  readonly #options: BalancerOptions;
  readonly #sockets = new Set<Duplex>();
  /** Server index by the header that identifies a client. */
  readonly #serverByClient = new Map<string, number>();
  #lastIndex = 0;

  /**
   * Starts on a free port; closed after the test. `getOrigins` returns the origins of all servers, including stopped
   * servers.
   */
  static async start(
    hooks: Hooks,
    getOrigins: () => readonly string[],
    options: BalancerOptions = {},
  ): Promise<Balancer> {
    const balancer = new Balancer(getOrigins, options);
    balancer.#http.listen(0, "127.0.0.1");
    await once(balancer.#http, "listening");
    hooks.after(() => balancer.close());
    return balancer;
  }

  private constructor(getOrigins: () => readonly string[], options: BalancerOptions) {
    this.#getOrigins = getOrigins;
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
    const closeEvent = once(this.#http, "close");
    this.#http.close();
    for (const socket of this.#sockets) socket.destroy();
    await closeEvent;
  }

  /** Server indexes in the order in which they are tried. */
  #orderServers(headers: IncomingHttpHeaders): number[] {
    const count = this.#getOrigins().length;
    const firstIndex = this.#findBoundServer(headers) ?? (this.#lastIndex = (this.#lastIndex + 1) % count);
    const allIndexes = Array.from({ length: count }, (_, n) => (firstIndex + n) % count);
    const { isReady } = this.#options;
    const readyIndexes = isReady ? allIndexes.filter(isReady) : allIndexes;
    return readyIndexes.length > 0 ? readyIndexes : allIndexes;
  }

  /** Index of the server of this client's earlier requests; undefined if there is none. */
  #findBoundServer(headers: IncomingHttpHeaders): number | undefined {
    const { affinity = "none" } = this.#options;
    if (affinity === "cookie") {
      const index = Number(new RegExp(`\\b${COOKIE_NAME}=(\\d+)`).exec(headers.cookie ?? "")?.[1] ?? NaN);
      return index < this.#getOrigins().length ? index : undefined;
    }
    if (affinity === "header")
      for (const name of CLIENT_HEADERS) {
        const serverIndex = this.#serverByClient.get(`${name} ${String(headers[name])}`);
        if (serverIndex !== undefined) return serverIndex;
      }
    return undefined;
  }

  /** Records the server of a client. Returns the headers to add to the response. */
  #bindServer(headers: IncomingHttpHeaders, index: number): Record<string, string> {
    const { affinity = "none" } = this.#options;
    if (affinity === "header")
      for (const name of CLIENT_HEADERS)
        if (headers[name] !== undefined) this.#serverByClient.set(`${name} ${String(headers[name])}`, index);
    return affinity === "cookie" ? { "set-cookie": `${COOKIE_NAME}=${index}; Path=/; HttpOnly` } : {};
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer);
    } catch {
      return;
    }
    const body = Buffer.concat(chunks);
    const order = this.#orderServers(request.headers);
    for (const [attemptIndex, index] of order.entries()) {
      const serverResponse = await this.#forward(index, request, body, response);
      if (response.destroyed) return void (typeof serverResponse === "object" && serverResponse.destroy());
      const isLast = attemptIndex === order.length - 1;
      if (serverResponse === "refused" && !isLast) {
        this.retryCount += 1;
        continue;
      }
      if (serverResponse === undefined || serverResponse === "refused") {
        this.badGatewayCount += 1;
        response.writeHead(502, { "content-type": "text/plain" }).end("bad gateway");
        return;
      }
      const status = serverResponse.statusCode ?? 502;
      if (!isLast && this.#options.retryStatuses?.includes(status)) {
        this.retryCount += 1;
        serverResponse.resume();
        continue;
      }
      this.answerCounts[index] = (this.answerCounts[index] ?? 0) + 1;
      response.writeHead(status, { ...serverResponse.headers, ...this.#bindServer(serverResponse.headers, index) });
      response.flushHeaders();
      serverResponse.on("error", () => response.destroy());
      serverResponse.on("aborted", () => response.destroy());
      response.on("close", () => serverResponse.destroy());
      serverResponse.pipe(response);
      return;
    }
  }

  /** Forwards a request. Resolves with the response when its headers arrive, or undefined if the connection broke. */
  #forward(
    index: number,
    { method, url, rawHeaders }: IncomingMessage,
    body: Buffer,
    client: ServerResponse,
  ): Promise<IncomingMessage | "refused" | undefined> {
    return new Promise((resolve) => {
      const forwardedRequest = httpRequest(new URL(url ?? "/", this.#getOrigins()[index]), {
        method,
        headers: convertHeaders(rawHeaders, new URL(this.#getOrigins()[index]!).host),
        agent: false,
      });
      const abortRequest = () => forwardedRequest.destroy();
      client.once("close", abortRequest);
      forwardedRequest.once("response", (serverResponse) => {
        client.off("close", abortRequest);
        resolve(serverResponse);
      });
      forwardedRequest.once("error", (error: NodeJS.ErrnoException) => {
        client.off("close", abortRequest);
        resolve(error.code === "ECONNREFUSED" ? "refused" : undefined);
      });
      forwardedRequest.end(body);
    });
  }

  #upgrade(request: IncomingMessage, client: Socket, head: Buffer): void {
    client.on("error", () => undefined);
    const [index, ...otherServers] = this.#orderServers(request.headers);
    const connectTo = (serverIndex: number, remainingServers: readonly number[]): void => {
      const { hostname, port, host } = new URL(this.#getOrigins()[serverIndex]!);
      const server = connect(Number(port), hostname);
      this.#sockets.add(server);
      server.once("close", () => {
        this.#sockets.delete(server);
        client.destroy();
      });
      server.once("error", (error: NodeJS.ErrnoException) => {
        const [nextServer, ...laterServers] = remainingServers;
        if (error.code !== "ECONNREFUSED" || nextServer === undefined) return void client.destroy();
        this.retryCount += 1;
        server.removeAllListeners("close");
        this.#sockets.delete(server);
        connectTo(nextServer, laterServers);
      });
      server.once("connect", () => {
        const headers = Object.entries(convertHeaders(request.rawHeaders, host, true)).flatMap(([name, value]) =>
          (Array.isArray(value) ? value : [value]).map((value) => `${name}: ${value}\r\n`),
        );
        server.write(`${request.method} ${request.url} HTTP/1.1\r\n${headers.join("")}\r\n`);
        server.write(head);
        server.once("data", (firstBytes: Buffer) => {
          const responseText = firstBytes.toString("latin1");
          const lines = responseText.slice(0, responseText.indexOf("\r\n\r\n")).split("\r\n").slice(1);
          const responseHeaders = Object.fromEntries(
            lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 2)]),
          );
          this.answerCounts[serverIndex] = (this.answerCounts[serverIndex] ?? 0) + 1;
          const addedLines = Object.entries(this.#bindServer(responseHeaders, serverIndex)).map(
            ([name, value]) => `${name}: ${value}\r\n`,
          );
          const statusLineBytes = firstBytes.indexOf("\r\n") + 2;
          client.write(
            Buffer.concat([
              firstBytes.subarray(0, statusLineBytes),
              Buffer.from(addedLines.join("")),
              firstBytes.subarray(statusLineBytes),
            ]),
          );
          server.pipe(client);
        });
        client.pipe(server);
      });
      client.once("close", () => server.destroy());
    };
    if (index !== undefined) connectTo(index, otherServers);
  }
}

/** The received headers with the server's host. Hop-by-hop headers are removed, except for an upgrade. */
function convertHeaders(
  rawHeaders: readonly string[],
  host: string,
  isUpgrade = false,
): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = {};
  for (let n = 0; n < rawHeaders.length; n += 2) {
    const [name = "", value = ""] = [rawHeaders[n], rawHeaders[n + 1]];
    const lowerName = name.toLowerCase();
    if (lowerName === "host" || (!isUpgrade && (lowerName === "connection" || lowerName === "transfer-encoding")))
      continue;
    const previousValue = headers[lowerName];
    headers[lowerName] = previousValue === undefined ? value : [previousValue, value].flat();
  }
  return { host, ...headers };
}
