import { lookup } from "node:dns/promises";
import { createServer, ServerResponse, type IncomingMessage, type Server } from "node:http";
import { isIP, type AddressInfo, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { onAbort } from "../base/abort.js";
import { ListenError } from "../ports/errors.js";
import { answer, answerClientError } from "./answers.js";
import { HTTP_DEFAULTS } from "./defaults.js";
import { isReadOfPath, HttpGate, type GateOptions } from "./gate.js";
import { HttpSockets } from "./sockets.js";
import { pathOf, rewriteToOriginForm } from "./request-target.js";
import { silentLogger } from "../base/log.js";
import type { Logger } from "../ports/logger.js";
import type { HttpHost, HttpMount, Refusal } from "../ports/http-host.js";
import { authenticates, getHeaderValues, isLoopback } from "./web-safety.js";

/** Address, admission rules and limits of an HTTP listener. */
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
  /** Returns texts for messages about a mount without authentication. Default: texts with these options' names. */
  remedy?: ((mount: HttpMount) => Remedy) | undefined;
  /** Receives the token when the listener opens, so that logs and tools can redact it. */
  onToken?: ((token: string) => void) | undefined;
  logger?: Logger | undefined;
}

/** Message texts for the user who configures an HTTP listener. */
export interface Remedy {
  /** The option that requires authentication, for example `server.required_headers`. */
  readonly authenticate: string;
  /**
   * Ways to listen on an address that other machines can reach, for example `set server.required_headers in the config,
   * or ...`.
   */
  readonly listen: string;
}

const DEFAULT_REMEDY: Remedy = { authenticate: "requiredHeaders", listen: "set requiredHeaders, or insecure: true" };

/** Creates one HTTP listener for all transports. It starts to listen at the first mount. */
export function openHttpHost(options: HttpHostOptions = {}): HttpHost {
  return new NodeHttpHost(options);
}

/** Matches the `Accept` header of browsers. API clients do not accept HTML. */
const HTML_ACCEPT_PATTERN = /\btext\/html\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i;

const NOT_FOUND_REFUSAL: Refusal = { status: 404, message: "not found", code: "not_found" };
const INTERNAL_ERROR_REFUSAL: Refusal = { status: 500, message: "internal error", code: "internal" };
const createBadRequestRefusal = (message: string): Refusal => ({ status: 400, message, code: "bad_request" });
const SHUTDOWN_REFUSAL: Refusal = {
  status: 503,
  message: "server shutting down",
  code: "shutting_down",
  // Another server, or this one after a restart, may accept the request immediately.
  headers: { connection: "close", "Retry-After": "1" },
};
const CONNECTION_LIMIT_REFUSAL: Refusal = {
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
  /** IP address of `#host`; undefined until it is resolved. */
  #address: string | undefined;
  #gate: HttpGate | undefined;
  #openStreamCount = 0;
  #server: Server | undefined;
  #originPromise: Promise<string> | undefined;
  #refusesNewRequests = false;
  #closePromise: Promise<void> | undefined;
  #hasWarned = false;

  constructor(options: HttpHostOptions) {
    this.#options = options;
    this.#host = (options.host ?? HTTP_DEFAULTS.host).replace(/^\[(.*)\]$/, "$1");
    this.#port = options.port ?? HTTP_DEFAULTS.port;
    this.#logger = options.logger ?? silentLogger;
    this.#sockets = new HttpSockets(options.connections ?? HTTP_DEFAULTS.connections);
  }

  get isLoopback(): boolean {
    return isLoopback(this.#address ?? this.#host);
  }

  async mount(mount: HttpMount): Promise<string> {
    this.#address ??= await this.#resolveAddress();
    const gate = (this.#gate ??= new HttpGate(this.#options, this.#host, this.#address, this.#logger));
    if (this.#closePromise) throw new ListenError("the HTTP port is closed");
    if (!this.isLoopback && !gate.isAuthenticated(mount) && this.#options.insecure !== true) {
      throw new ListenError(
        `refusing to listen on ${this.#host}, which other machines can reach, without authentication: ` +
          `${this.#remedyFor(mount).listen}, or bind to 127.0.0.1`,
      );
    }
    if (this.#mounts.some((otherMount) => otherMount.prefix === mount.prefix))
      throw new ListenError(`two transports use the path ${mount.prefix}`);
    this.#mounts.push(mount);
    try {
      const origin = await (this.#originPromise ??= this.#listen(this.#address, gate));
      if (!gate.isAuthenticated(mount)) this.#loadToken(gate);
      this.#warnIfUnauthenticated(mount, gate);
      return origin;
    } catch (error) {
      this.#originPromise = undefined;
      this.#mounts.splice(this.#mounts.indexOf(mount), 1);
      throw error;
    }
  }

  authHeaderNames(mountHeaders?: Readonly<Record<string, string>>): readonly string[] {
    const requiredHeaders = mountHeaders ?? this.#options.requiredHeaders ?? {};
    return authenticates(requiredHeaders) ? Object.keys(requiredHeaders) : [];
  }

  isFromPerson(request: IncomingMessage, mountHeaders?: Readonly<Record<string, string>>): boolean {
    return this.#gate?.isFromPerson(request, mountHeaders) ?? true;
  }

  tokenFor(request: IncomingMessage): string | undefined {
    return this.#gate?.tokenFor(request);
  }

  reserveStreamSlot(): (() => void) | undefined {
    if (this.#openStreamCount >= (this.#options.streams ?? HTTP_DEFAULTS.streams)) return undefined;
    this.#openStreamCount += 1;
    let isReserved = true;
    return () => {
      if (isReserved) this.#openStreamCount -= 1;
      isReserved = false;
    };
  }

  stopAccepting(): void {
    this.#refusesNewRequests = true;
  }

  close(signal: AbortSignal): Promise<void> {
    this.#refusesNewRequests = true;
    const removeAbortListener = onAbort(signal, () => this.#sockets.destroyAll());
    return (this.#closePromise ??= this.#close()).finally(removeAbortListener);
  }

  /** Reads or creates the token before `mount` resolves, because clients then read the file. Throws `ListenError`. */
  #loadToken(gate: HttpGate): void {
    try {
      if (gate.token) this.#options.onToken?.(gate.token.value);
    } catch (error) {
      throw new ListenError(`the token of the port cannot be written: ${(error as Error).message}`, { cause: error });
    }
  }

  async #close(): Promise<void> {
    await this.#originPromise?.catch(() => undefined);
    const server = this.#server;
    if (!server?.listening) return;
    const serverClosed = new Promise<void>((resolve) => server.close(() => resolve()));
    this.#sockets.closeIdle();
    // `server.close` does not wait for upgraded sockets.
    await Promise.all([serverClosed, this.#sockets.waitUntilClosed()]);
  }

  /**
   * Resolves a host name to its address. Checks use the address: `localhost` may resolve to another machine, and
   * another name to loopback.
   */
  async #resolveAddress(): Promise<string> {
    if (this.#host === "") return "::";
    if (isIP(this.#host) !== 0) return this.#host;
    try {
      return (await lookup(this.#host)).address;
    } catch (error) {
      throw new ListenError(
        `cannot listen on ${this.#toUrl()}: ${describeListenError(error as NodeJS.ErrnoException)}`,
        {
          cause: error,
        },
      );
    }
  }

  #toUrl(port = this.#port): string {
    // Only an IPv6 address contains colons. `isIP` takes longer than opening the port.
    const host = this.#host.includes(":") ? `[${this.#host.replace("%", "%25")}]` : this.#host;
    return `http://${host}:${port}`;
  }

  #listen(address: string, gate: HttpGate): Promise<string> {
    const { headerTimeout, requestTimeout, keepAliveTimeout } = { ...HTTP_DEFAULTS, ...this.#options };
    const requestTimeoutMs = requestTimeout * 1000;
    // Node rejects a header timeout longer than the request timeout.
    const headersTimeoutMs =
      requestTimeoutMs > 0 ? Math.min(headerTimeout * 1000, requestTimeoutMs) : headerTimeout * 1000;
    const server = createServer({
      headersTimeout: headersTimeoutMs,
      requestTimeout: requestTimeoutMs,
      keepAliveTimeout: keepAliveTimeout * 1000,
      // By default node checks only every 30 s, which is too seldom for these limits. A limit of 0 is disabled.
      connectionsCheckingInterval: Math.max(50, Math.min(1000, headersTimeoutMs || 1000, requestTimeoutMs || 1000)),
      // `#findRefusal` rejects a request without a `Host` header, with a JSON response.
      requireHostHeader: false,
    });
    server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      gate.startIdentification(socket);
    });
    server.on("request", (request, response) => this.#serve(request, response, gate));
    server.on("checkContinue", (request, response) => this.#serve(request, response, gate));
    server.on("checkExpectation", (request, response) => this.#serve(request, response, gate));
    server.on("upgrade", (request, socket, head) => this.#upgrade(request, socket, head, gate));
    server.on("clientError", (error: NodeJS.ErrnoException, socket) =>
      answerClientError(error, socket, this.#sockets.hasStartedResponse(socket), this.#fallbackHeaders()),
    );
    return new Promise((resolve, reject) => {
      const onListenError = (error: NodeJS.ErrnoException) =>
        reject(new ListenError(`cannot listen on ${this.#toUrl()}: ${describeListenError(error)}`, { cause: error }));
      server.once("error", onListenError);
      server.listen({ host: address, port: this.#port }, () => {
        server.off("error", onListenError);
        server.on("error", (error) => this.#logger.error("the HTTP port failed", { error }));
        this.#server = server;
        resolve(this.#toUrl((server.address() as AddressInfo).port));
      });
    });
  }

  #warnIfUnauthenticated(mount: HttpMount, gate: HttpGate): void {
    if (gate.isAuthenticated(mount) || this.#hasWarned) return;
    this.#hasWarned = true;
    const localClients = gate.refusesOtherUsers
      ? "every process of yours on this machine"
      : "every process of this machine";
    const clients = this.isLoopback ? localClients : `every client that can reach ${this.#toUrl()}`;
    this.#logger.warn(
      `no authentication: ${clients} can run commands as you; ${this.#remedyFor(mount).authenticate} requires it`,
    );
  }

  #remedyFor(mount: HttpMount): Remedy {
    return this.#options.remedy?.(mount) ?? DEFAULT_REMEDY;
  }

  /** Returns the mount with the longest matching prefix, otherwise the fallback mount. */
  #findMount(path: string): HttpMount | undefined {
    const matchingMounts = this.#mounts.filter(
      ({ prefix }) => prefix === "/" || path === prefix || path.startsWith(`${prefix}/`),
    );
    return (
      matchingMounts.sort((a, b) => b.prefix.length - a.prefix.length)[0] ??
      this.#mounts.find((mount) => mount.fallback)
    );
  }

  /** Headers for responses to requests without a mount: the headers of the fallback mount. */
  #fallbackHeaders(): Readonly<Record<string, string>> {
    return (this.#mounts.find(({ fallback }) => fallback) ?? this.#mounts[0])?.headers ?? {};
  }

  /** Why a request is rejected before its mount sees it; undefined if it is admitted. */
  #findRefusal(
    request: IncomingMessage,
    mount: HttpMount | undefined,
    gate: HttpGate,
    isUpgrade: boolean,
  ): Refusal | undefined {
    if (this.#sockets.isOverLimit(request.socket)) return CONNECTION_LIMIT_REFUSAL;
    if (this.#refusesNewRequests && !isReadOfPath(request, mount?.shutdownPaths)) return SHUTDOWN_REFUSAL;
    const hosts = getHeaderValues(request, "host");
    if (hosts.length > 1) return createBadRequestRefusal("more than one host header");
    if (hosts.length === 0 && request.httpVersionMinor > 0) return createBadRequestRefusal("missing host header");
    if (!mount) return NOT_FOUND_REFUSAL;
    return gate.findRefusal(request, mount, isUpgrade);
  }

  #serve(request: IncomingMessage, response: ServerResponse, gate: HttpGate): void {
    this.#sockets.trackResponse(request.socket, response);
    const serveIdentified = () => {
      // If the client has disconnected meanwhile, the request is ignored.
      if (!response.closed) this.#passToMount(request, response, gate);
    };
    if (rewriteToOriginForm(request)) gate.whenIdentified(request, serveIdentified);
    else answer(response, createBadRequestRefusal("invalid request target"), this.#fallbackHeaders());
  }

  #passToMount(request: IncomingMessage, response: ServerResponse, gate: HttpGate): void {
    try {
      if (this.#redirectToHome(request, response, gate)) return;
      const mount = this.#findMount(pathOf(request));
      const refusal = this.#findRefusal(request, mount, gate, false);
      if (!mount || refusal) this.#refuse(mount, request, response, refusal ?? NOT_FOUND_REFUSAL);
      else {
        if (/^100-continue$/i.test(request.headers.expect ?? "")) response.writeContinue();
        mount.handler(request, response);
      }
    } catch (error) {
      this.#logger.error("a request failed", { error });
      if (response.headersSent) response.destroy();
      else answer(response, INTERNAL_ERROR_REFUSAL, this.#fallbackHeaders());
    }
  }

  /**
   * Redirects a browser that opens `/` to the page for users. Returns false if the browser may not open that page; the
   * request is then handled as usual.
   */
  #redirectToHome(request: IncomingMessage, response: ServerResponse, gate: HttpGate): boolean {
    if (pathOf(request) !== "/" || !HTML_ACCEPT_PATTERN.test(request.headers.accept ?? "")) return false;
    const mount = this.#mounts.find(({ homePath }) => homePath);
    if (
      !mount?.homePath ||
      !/^(GET|HEAD)$/.test(request.method ?? "") ||
      this.#findRefusal(request, mount, gate, false)
    )
      return false;
    const headers = { "Cache-Control": "no-store", "Content-Length": 0, Location: mount.homePath, Vary: "Accept" };
    response.writeHead(302, headers).end();
    return true;
  }

  #refuse(mount: HttpMount | undefined, request: IncomingMessage, response: ServerResponse, refusal: Refusal): void {
    if (mount) mount.refuse(request, response, refusal);
    else answer(response, refusal, this.#fallbackHeaders());
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, gate: HttpGate): void {
    // Node's server does not handle errors of an upgraded socket. An unhandled error would end the process.
    socket.on("error", () => undefined);
    gate.whenIdentified(request, () => this.#passUpgradeToMount(request, socket, head, gate));
  }

  #passUpgradeToMount(request: IncomingMessage, socket: Duplex, head: Buffer, gate: HttpGate): void {
    const mount = rewriteToOriginForm(request) ? this.#findMount(pathOf(request)) : undefined;
    const isWebSocket = request.headers.upgrade?.toLowerCase() === "websocket";
    const refusal = this.#findRefusal(request, mount, gate, isWebSocket);
    if (isWebSocket && mount?.upgrade && !refusal) {
      this.#sockets.markUpgraded(socket);
      mount.upgrade(request, socket, head);
      return;
    }
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket as Socket);
    response.once("finish", () => (socket as Socket).destroySoon());
    // A request to upgrade to another protocol (`h2c`) is served as HTTP/1.1, as the HTTP specification allows. A body
    // of such a request cannot be read.
    const hasNoBody =
      request.headers["content-length"] === undefined && request.headers["transfer-encoding"] === undefined;
    if (!isWebSocket && hasNoBody) this.#serve(request, response, gate);
    else if (!isWebSocket) answer(response, createBadRequestRefusal("upgrade not supported"), this.#fallbackHeaders());
    else this.#refuse(mount, request, response, refusal ?? NOT_FOUND_REFUSAL);
  }
}

function describeListenError(error: NodeJS.ErrnoException): string {
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
