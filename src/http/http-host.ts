import { lookup } from "node:dns/promises";
import { createServer, ServerResponse, type IncomingMessage, type Server } from "node:http";
import { isIP, type AddressInfo, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { onAbort } from "../base/abort.js";
import { ListenError } from "../ports/errors.js";
import { answer, answerBroken } from "./answers.js";
import { HTTP_DEFAULTS } from "./defaults.js";
import { isReadOf, HttpGate, type GateOptions } from "./gate.js";
import { HttpSockets } from "./sockets.js";
import { pathOf, toOriginForm } from "./target.js";
import { silentLogger } from "../base/log.js";
import type { Logger } from "../ports/logger.js";
import type { HttpHost, HttpMount, Refusal } from "../ports/http-host.js";
import { authenticates, headerValues, isLoopback } from "./web-safety.js";

/** Address, admission rules and limits of a port. */
export interface HttpHostOptions extends GateOptions {
  /** Default `127.0.0.1`. */
  host?: string | undefined;
  /** Default 8080. 0 selects a free port. */
  port?: number | undefined;
  /** Whether to bind beyond loopback without authentication. Default false. */
  insecure?: boolean | undefined;
  /** Maximum concurrent connections. Default 4096. */
  connections?: number | undefined;
  /** Maximum concurrent streams of all mounts. Default 1024. */
  streams?: number | undefined;
  /** Timeouts in seconds: headers (default 15), whole request (default 30), idle connection (default 120). */
  headerTimeout?: number | undefined;
  requestTimeout?: number | undefined;
  keepAliveTimeout?: number | undefined;
  /** For messages: how to require authentication of a mount's clients. Default: the names of these options. */
  remedy?: ((mount: HttpMount) => Remedy) | undefined;
  /** Receives the token of the port when the port opens, so that logs and tools can redact it. */
  onToken?: ((token: string) => void) | undefined;
  logger?: Logger | undefined;
}

/** Message texts for the user who configures a port. */
export interface Remedy {
  /** For example `server.required_headers`. */
  readonly authenticate: string;
  /**
   * For example `set server.required_headers in the config, or ...`: every way to listen anyway, except another
   * address.
   */
  readonly listen: string;
}

const REMEDY: Remedy = { authenticate: "requiredHeaders", listen: "set requiredHeaders, or insecure: true" };

/** Creates one HTTP port for all transports. The port opens with the first mount. */
export function openHttpHost(options: HttpHostOptions = {}): HttpHost {
  return new NodeHttpHost(options);
}

/** An `Accept` header of browsers. Clients of protocols do not send it. */
const ACCEPTS_PAGES = /\btext\/html\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i;

const NOT_FOUND: Refusal = { status: 404, message: "not found", code: "not_found" };
const INTERNAL: Refusal = { status: 500, message: "internal error", code: "internal" };
const badRequest = (message: string): Refusal => ({ status: 400, message, code: "bad_request" });
const SHUTTING_DOWN: Refusal = {
  status: 503,
  message: "server shutting down",
  code: "shutting_down",
  // Another server, or this one after a restart, may accept the request immediately.
  headers: { connection: "close", "Retry-After": "1" },
};
const TOO_MANY: Refusal = {
  status: 503,
  message: "too many connections",
  code: "too_many_connections",
  headers: { connection: "close", "retry-after": "1" },
};

class NodeHttpHost implements HttpHost {
  readonly #options: HttpHostOptions;
  /** Without brackets around an IPv6 address. */
  readonly #host: string;
  readonly #port: number;
  readonly #logger: Logger;
  readonly #mounts: HttpMount[] = [];
  readonly #sockets: HttpSockets;
  /** Address of the host's name; undefined until it is looked up. */
  #address: string | undefined;
  #gate: HttpGate | undefined;
  #streams = 0;
  #server: Server | undefined;
  #opening: Promise<string> | undefined;
  #isRefusing = false;
  #closed: Promise<void> | undefined;
  #hasWarned = false;

  constructor(options: HttpHostOptions) {
    this.#options = options;
    this.#host = (options.host ?? HTTP_DEFAULTS.host).replace(/^\[(.*)\]$/, "$1");
    this.#port = options.port ?? HTTP_DEFAULTS.port;
    this.#logger = options.logger ?? silentLogger;
    this.#sockets = new HttpSockets(options.connections ?? HTTP_DEFAULTS.connections);
  }

  get loopback(): boolean {
    return isLoopback(this.#address ?? this.#host);
  }

  async mount(mount: HttpMount): Promise<string> {
    this.#address ??= await this.#resolve();
    const gate = (this.#gate ??= new HttpGate(this.#options, this.#host, this.#address, this.#logger));
    if (this.#closed) throw new ListenError("the HTTP port is closed");
    if (!this.loopback && !gate.isAuthenticated(mount) && this.#options.insecure !== true) {
      throw new ListenError(
        `refusing to listen on ${this.#host}, which other machines can reach, without authentication: ` +
          `${this.#remedy(mount).listen}, or bind to 127.0.0.1`,
      );
    }
    if (this.#mounts.some((mounted) => mounted.prefix === mount.prefix))
      throw new ListenError(`two transports use the path ${mount.prefix}`);
    this.#mounts.push(mount);
    try {
      const origin = await (this.#opening ??= this.#open(this.#address, gate));
      if (!gate.isAuthenticated(mount)) this.#makeToken(gate);
      this.#warn(mount, gate);
      return origin;
    } catch (error) {
      this.#opening = undefined;
      this.#mounts.splice(this.#mounts.indexOf(mount), 1);
      throw error;
    }
  }

  provingHeaders(mountHeaders?: Readonly<Record<string, string>>): readonly string[] {
    const required = mountHeaders ?? this.#options.requiredHeaders ?? {};
    return authenticates(required) ? Object.keys(required) : [];
  }

  isOfPerson(request: IncomingMessage, mountHeaders?: Readonly<Record<string, string>>): boolean {
    return this.#gate?.isOfPerson(request, mountHeaders) ?? true;
  }

  tokenFor(request: IncomingMessage): string | undefined {
    return this.#gate?.tokenFor(request);
  }

  takeStream(): (() => void) | undefined {
    if (this.#streams >= (this.#options.streams ?? HTTP_DEFAULTS.streams)) return undefined;
    this.#streams += 1;
    let open = true;
    return () => {
      if (open) this.#streams -= 1;
      open = false;
    };
  }

  refuseNew(): void {
    this.#isRefusing = true;
  }

  close(signal: AbortSignal): Promise<void> {
    this.#isRefusing = true;
    const forget = onAbort(signal, () => this.#sockets.destroyAll());
    return (this.#closed ??= this.#close()).finally(forget);
  }

  /** Runs before the mount resolves, because clients may read the file as soon as the port is open. */
  #makeToken(gate: HttpGate): void {
    try {
      if (gate.token) this.#options.onToken?.(gate.token.value);
    } catch (error) {
      throw new ListenError(`the token of the port cannot be written: ${(error as Error).message}`, { cause: error });
    }
  }

  async #close(): Promise<void> {
    await this.#opening?.catch(() => undefined);
    const server = this.#server;
    if (!server?.listening) return;
    const ended = new Promise<void>((resolve) => server.close(() => resolve()));
    this.#sockets.closeIdle();
    // The server does not wait for upgraded sockets, so they are awaited separately.
    await Promise.all([ended, this.#sockets.allClosed()]);
  }

  /**
   * Resolves a host name to its address. Checks use the address: `localhost` may resolve to another machine, and
   * another name to loopback.
   */
  async #resolve(): Promise<string> {
    if (this.#host === "") return "::";
    if (isIP(this.#host) !== 0) return this.#host;
    try {
      return (await lookup(this.#host)).address;
    } catch (error) {
      throw new ListenError(`cannot listen on ${this.#url()}: ${listenErrorReason(error as NodeJS.ErrnoException)}`, {
        cause: error,
      });
    }
  }

  #url(port = this.#port): string {
    // Only an IPv6 address contains colons. `isIP` takes longer than opening the port.
    const host = this.#host.includes(":") ? `[${this.#host.replace("%", "%25")}]` : this.#host;
    return `http://${host}:${port}`;
  }

  #open(address: string, gate: HttpGate): Promise<string> {
    const { headerTimeout, requestTimeout, keepAliveTimeout } = { ...HTTP_DEFAULTS, ...this.#options };
    const requestMs = requestTimeout * 1000;
    // Node rejects a header timeout longer than the request timeout.
    const headersMs = requestMs > 0 ? Math.min(headerTimeout * 1000, requestMs) : headerTimeout * 1000;
    const server = createServer({
      headersTimeout: headersMs,
      requestTimeout: requestMs,
      keepAliveTimeout: keepAliveTimeout * 1000,
      // By default node checks only every 30 s, which would make the limits above inaccurate.
      connectionsCheckingInterval: Math.max(50, Math.min(1000, headersMs || 1000, requestMs || 1000)),
      // A missing `Host` header is answered here, in JSON.
      requireHostHeader: false,
    });
    server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      gate.add(socket);
    });
    server.on("request", (request, response) => this.#serve(request, response, gate));
    server.on("checkContinue", (request, response) => this.#serve(request, response, gate));
    server.on("checkExpectation", (request, response) => this.#serve(request, response, gate));
    server.on("upgrade", (request, socket, head) => this.#upgrade(request, socket, head, gate));
    server.on("clientError", (error: NodeJS.ErrnoException, socket) =>
      answerBroken(error, socket, this.#sockets.isAnswering(socket), this.#headers()),
    );
    return new Promise((resolve, reject) => {
      const failed = (error: NodeJS.ErrnoException) =>
        reject(new ListenError(`cannot listen on ${this.#url()}: ${listenErrorReason(error)}`, { cause: error }));
      server.once("error", failed);
      server.listen({ host: address, port: this.#port }, () => {
        server.off("error", failed);
        server.on("error", (error) => this.#logger.error("the HTTP port failed", { error }));
        this.#server = server;
        resolve(this.#url((server.address() as AddressInfo).port));
      });
    });
  }

  #warn(mount: HttpMount, gate: HttpGate): void {
    if (gate.isAuthenticated(mount) || this.#hasWarned) return;
    this.#hasWarned = true;
    const localClients = gate.refusesOtherUsers
      ? "every process of yours on this machine"
      : "every process of this machine";
    const clients = this.loopback ? localClients : `every client that can reach ${this.#url()}`;
    this.#logger.warn(
      `no authentication: ${clients} can run commands as you; ${this.#remedy(mount).authenticate} requires it`,
    );
  }

  #remedy(mount: HttpMount): Remedy {
    return this.#options.remedy?.(mount) ?? REMEDY;
  }

  /** The mount of a path: the longest matching prefix, otherwise the fallback mount. */
  #find(path: string): HttpMount | undefined {
    const fits = this.#mounts.filter(
      ({ prefix }) => prefix === "/" || path === prefix || path.startsWith(`${prefix}/`),
    );
    return fits.sort((a, b) => b.prefix.length - a.prefix.length)[0] ?? this.#mounts.find((mount) => mount.fallback);
  }

  /** Headers of responses sent before the mount of a request is known: those of the fallback mount. */
  #headers(): Readonly<Record<string, string>> {
    return (this.#mounts.find(({ fallback }) => fallback) ?? this.#mounts[0])?.headers ?? {};
  }

  /** Why a request is rejected before its mount sees it; undefined if it is admitted. */
  #refusal(
    request: IncomingMessage,
    mount: HttpMount | undefined,
    gate: HttpGate,
    upgrade: boolean,
  ): Refusal | undefined {
    if (this.#sockets.isOverLimit(request.socket)) return TOO_MANY;
    if (this.#isRefusing && !isReadOf(request, mount?.shutdownPaths)) return SHUTTING_DOWN;
    const hosts = headerValues(request, "host");
    if (hosts.length > 1) return badRequest("more than one host header");
    if (hosts.length === 0 && request.httpVersionMinor > 0) return badRequest("missing host header");
    if (!mount) return NOT_FOUND;
    return gate.refusal(request, mount, upgrade);
  }

  #serve(request: IncomingMessage, response: ServerResponse, gate: HttpGate): void {
    this.#sockets.begin(request.socket, response);
    const serveIdentified = () => {
      // If the client has disconnected meanwhile, the request is ignored.
      if (!response.closed) this.#pass(request, response, gate);
    };
    if (toOriginForm(request)) gate.whenIdentified(request, serveIdentified);
    else answer(response, badRequest("invalid request target"), this.#headers());
  }

  #pass(request: IncomingMessage, response: ServerResponse, gate: HttpGate): void {
    try {
      if (this.#redirectToHome(request, response, gate)) return;
      const mount = this.#find(pathOf(request));
      const refusal = this.#refusal(request, mount, gate, false);
      if (!mount || refusal) this.#refuse(mount, request, response, refusal ?? NOT_FOUND);
      else {
        if (/^100-continue$/i.test(request.headers.expect ?? "")) response.writeContinue();
        mount.handler(request, response);
      }
    } catch (error) {
      this.#logger.error("a request failed", { error });
      if (response.headersSent) response.destroy();
      else answer(response, INTERNAL, this.#headers());
    }
  }

  /**
   * Redirects a browser that opens `/` to the page for users. Returns false if the browser may not open that page; the
   * request is then handled as usual.
   */
  #redirectToHome(request: IncomingMessage, response: ServerResponse, gate: HttpGate): boolean {
    if (pathOf(request) !== "/" || !ACCEPTS_PAGES.test(request.headers.accept ?? "")) return false;
    const mount = this.#mounts.find(({ homePath }) => homePath);
    if (!mount?.homePath || !/^(GET|HEAD)$/.test(request.method ?? "") || this.#refusal(request, mount, gate, false))
      return false;
    const headers = { "Cache-Control": "no-store", "Content-Length": 0, Location: mount.homePath, Vary: "Accept" };
    response.writeHead(302, headers).end();
    return true;
  }

  #refuse(mount: HttpMount | undefined, request: IncomingMessage, response: ServerResponse, refusal: Refusal): void {
    if (mount) mount.refuse(request, response, refusal);
    else answer(response, refusal, this.#headers());
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, gate: HttpGate): void {
    // Nothing else handles errors of a socket that has left the server.
    socket.on("error", () => undefined);
    gate.whenIdentified(request, () => this.#passUpgrade(request, socket, head, gate));
  }

  #passUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer, gate: HttpGate): void {
    const mount = toOriginForm(request) ? this.#find(pathOf(request)) : undefined;
    const webSocket = request.headers.upgrade?.toLowerCase() === "websocket";
    const refusal = this.#refusal(request, mount, gate, webSocket);
    if (webSocket && mount?.upgrade && !refusal) {
      this.#sockets.upgrade(socket);
      mount.upgrade(request, socket, head);
      return;
    }
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket as Socket);
    response.once("finish", () => (socket as Socket).destroySoon());
    // A request to upgrade to another protocol (`h2c`) is served as HTTP/1.1, as the HTTP specification allows. A body
    // of such a request cannot be read.
    const bodyless =
      request.headers["content-length"] === undefined && request.headers["transfer-encoding"] === undefined;
    if (!webSocket && bodyless) this.#serve(request, response, gate);
    else if (!webSocket) answer(response, badRequest("upgrade not supported"), this.#headers());
    else this.#refuse(mount, request, response, refusal ?? NOT_FOUND);
  }
}

function listenErrorReason(error: NodeJS.ErrnoException): string {
  switch (error.code) {
    case "EADDRINUSE":
      return "the port is in use; choose another with --port (0 for any free one)";
    case "EACCES":
      return "permission denied; choose a port above 1023";
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return "this machine has no such address";
    default:
      return error.code ?? error.message;
  }
}
