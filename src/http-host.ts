import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { isIPv6, type AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { ListenError } from "./errors.js";
import { silentLogger } from "./log.js";
import type { Logger } from "./ports/logger.js";
import type { HttpHost, HttpMount, Refusal } from "./ports/transport.js";
import { isLoopback, refusalOf } from "./web-safety.js";

export interface HttpHostOptions {
  /** Default `127.0.0.1`. */
  host?: string;
  /** Default 8080; 0 for any free one. */
  port?: number;
  /** Bind beyond loopback although clients prove nothing. */
  insecure?: boolean;
  /** Names that `Host` may have beside loopback, addresses and the bound host. */
  allowedHosts?: readonly string[];
  allowCrossSite?: boolean;
  /** Connections at the same time; default 4096. */
  connections?: number;
  /** Seconds: for the headers (default 15), for the whole request (30), for an idle connection (120). */
  headerTimeout?: number;
  requestTimeout?: number;
  keepAliveTimeout?: number;
  logger?: Logger;
}

/** One HTTP port for all transports. Nothing is opened before the first mount. */
export function openHttpHost(options: HttpHostOptions = {}): HttpHost {
  return new NodeHttpHost(options);
}

const SHUTTING_DOWN: Refusal = { status: 503, message: "server shutting down", headers: { connection: "close" } };
const TOO_MANY: Refusal = {
  status: 503,
  message: "too many connections",
  headers: { connection: "close", "retry-after": "1" },
};

class NodeHttpHost implements HttpHost {
  readonly #host: string;
  readonly #options: HttpHostOptions;
  readonly #logger: Logger;
  readonly #mounts: HttpMount[] = [];
  /** All sockets, also those that became WebSockets, which node forgets; the value says whether one is over the limit. */
  readonly #sockets = new Map<Duplex, { over: boolean }>();
  #server: Server | undefined;
  #listening: Promise<string> | undefined;
  #refusing = false;
  #closed: Promise<void> | undefined;
  #warned = false;

  constructor(options: HttpHostOptions) {
    this.#options = options;
    this.#host = options.host ?? "127.0.0.1";
    this.#logger = options.logger ?? silentLogger;
  }

  get loopback(): boolean {
    return isLoopback(this.#host);
  }

  async mount(mount: HttpMount): Promise<string> {
    if (this.#closed) throw new ListenError("the HTTP port is closed");
    if (!this.loopback && !mount.authenticated && this.#options.insecure !== true) {
      throw new ListenError(
        `refusing to listen on ${this.#host}, which other machines can reach, without authentication: ` +
          `set ${mount.authenticationKey} in the config, or server.insecure: true (--insecure), or bind to 127.0.0.1`,
      );
    }
    if (this.#mounts.some((other) => other.prefix === mount.prefix))
      throw new ListenError(`two transports want the path ${mount.prefix}`);
    this.#mounts.push(mount);
    try {
      const origin = await (this.#listening ??= this.#listen());
      if (!mount.authenticated && !this.#warned) {
        this.#warned = true;
        this.#logger.warn(
          `clients of ${mount.prefix} need no authentication: whoever can reach ${this.#host} can run commands as you`,
        );
      }
      return origin;
    } catch (error) {
      this.#mounts.splice(this.#mounts.indexOf(mount), 1);
      throw error;
    }
  }

  refuseNew(): void {
    this.#refusing = true;
    // The port is free for a successor at once; what is connected is answered 503.
    this.#server?.close();
    this.#server?.closeIdleConnections();
  }

  close(signal: AbortSignal): Promise<void> {
    return (this.#closed ??= this.#close(signal));
  }

  async #close(signal: AbortSignal): Promise<void> {
    this.refuseNew();
    await this.#listening?.catch(() => undefined);
    if (!this.#server?.listening && this.#sockets.size === 0) return;
    const empty = new Promise<void>((resolve) => {
      const check = () => {
        if (this.#sockets.size === 0) resolve();
      };
      for (const socket of this.#sockets.keys()) socket.once("close", () => setImmediate(check));
      check();
    });
    const destroy = () => {
      for (const socket of this.#sockets.keys()) socket.destroy();
    };
    if (signal.aborted) destroy();
    else signal.addEventListener("abort", destroy, { once: true });
    // Connections become idle one by one as their answers end.
    const sweep = setInterval(() => this.#server?.closeIdleConnections(), 20);
    await empty;
    clearInterval(sweep);
    signal.removeEventListener("abort", destroy);
  }

  #listen(): Promise<string> {
    const { headerTimeout = 15, requestTimeout = 30, keepAliveTimeout = 120, port = 8080 } = this.#options;
    const server = createServer({
      headersTimeout: headerTimeout * 1000,
      requestTimeout: requestTimeout * 1000,
      keepAliveTimeout: keepAliveTimeout * 1000,
      // Without it node looks only every 30 s, and the limits above would not be true.
      connectionsCheckingInterval: Math.min(1000, headerTimeout * 1000, requestTimeout * 1000),
    });
    this.#server = server;
    server.on("connection", (socket) => this.#track(socket));
    server.on("request", (request, response) => this.#dispatch(request, response));
    server.on("checkContinue", (request, response) => this.#dispatch(request, response));
    server.on("upgrade", (request, socket, head) => this.#upgrade(request, socket, head));
    server.on("clientError", (error: NodeJS.ErrnoException, socket) => answerBroken(error, socket));
    return new Promise((resolve, reject) => {
      server.once("error", (error: NodeJS.ErrnoException) => {
        this.#listening = undefined;
        reject(new ListenError(`cannot listen on ${this.#host}:${port}: ${whyNot(error)}`, { cause: error }));
      });
      server.listen({ host: this.#host, port, backlog: 511 }, () => {
        server.on("error", (error) => this.#logger.error("the HTTP port failed", { error }));
        const bound = server.address() as AddressInfo;
        const name = this.#host.replace(/^\[|\]$/g, "");
        resolve(`http://${isIPv6(name) ? `[${name}]` : name}:${bound.port}`);
      });
    });
  }

  #track(socket: Duplex): void {
    this.#sockets.set(socket, { over: this.#sockets.size >= (this.#options.connections ?? 4096) });
    socket.once("close", () => this.#sockets.delete(socket));
    // An upgraded socket's errors are nobody's otherwise.
    socket.on("error", () => undefined);
  }

  /** The mount of a path: the longest prefix, else the one that takes the rest. */
  #find(url: string | undefined): HttpMount | undefined {
    const path = (url ?? "/").split(/[?#]/, 1)[0] ?? "/";
    const fits = this.#mounts.filter(
      ({ prefix }) => prefix === "/" || path === prefix || path.startsWith(`${prefix}/`),
    );
    return fits.sort((a, b) => b.prefix.length - a.prefix.length)[0] ?? this.#mounts.find((mount) => mount.fallback);
  }

  #refusal(request: IncomingMessage, mount: HttpMount): Refusal | undefined {
    if (this.#sockets.get(request.socket)?.over) return TOO_MANY;
    if (this.#refusing) return SHUTTING_DOWN;
    return refusalOf(request, {
      authenticated: mount.authenticated,
      boundHost: this.#host,
      allowedHosts: this.#options.allowedHosts ?? [],
      allowCrossSite: this.#options.allowCrossSite === true,
    });
  }

  #dispatch(request: IncomingMessage, response: ServerResponse): void {
    const mount = this.#find(request.url);
    if (!mount) {
      answer(response, 404, "not found");
      return;
    }
    const refusal = this.#refusal(request, mount);
    if (!refusal) {
      if (request.headers.expect !== undefined) response.writeContinue();
      mount.handler(request, response);
      return;
    }
    for (const [name, value] of Object.entries(refusal.headers ?? {})) response.setHeader(name, value);
    // The body was not read: the connection cannot serve another request.
    if (request.headers["content-length"] !== undefined || request.headers["transfer-encoding"] !== undefined) {
      response.setHeader("connection", "close");
    }
    mount.refuse(request, response, refusal);
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const mount = this.#find(request.url);
    const refusal = mount?.upgrade ? this.#refusal(request, mount) : { status: 404, message: "not found" };
    if (refusal || !mount?.upgrade) {
      const { status, message } = refusal ?? { status: 404, message: "not found" };
      endRaw(socket, status, message);
    } else mount.upgrade(request, socket, head);
  }
}

function answer(response: ServerResponse, status: number, message: string): void {
  const body = JSON.stringify({ error: message });
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}

const REASONS: Readonly<Record<number, string>> = {
  400: "Bad Request",
  403: "Forbidden",
  404: "Not Found",
  408: "Request Timeout",
  415: "Unsupported Media Type",
  431: "Request Header Fields Too Large",
  503: "Service Unavailable",
};

/** A whole answer on a socket that has no response object. */
export function endRaw(
  socket: Duplex,
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const body = JSON.stringify({ error: message });
  const lines = Object.entries({
    "Content-Type": "application/json",
    "Content-Length": String(Buffer.byteLength(body)),
    Connection: "close",
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${REASONS[status] ?? "Error"}\r\n${lines.join("")}\r\n${body}`, () =>
    socket.destroy(),
  );
}

/** A request that is no HTTP, too large in its headers, or too slow. */
function answerBroken(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  if (error.code === "HPE_HEADER_OVERFLOW") endRaw(socket, 431, "request headers too large");
  else if (error.code === "ERR_HTTP_REQUEST_TIMEOUT") endRaw(socket, 408, "request timed out");
  else endRaw(socket, 400, "bad request");
}

function whyNot(error: NodeJS.ErrnoException): string {
  switch (error.code) {
    case "EADDRINUSE":
      return "the port is in use; choose another with --port (0 for any free one)";
    case "EACCES":
      return "permission denied; choose a port above 1023";
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return "this machine has no such address";
    default:
      return error.code ?? error.message;
  }
}
