import { lookup } from "node:dns/promises";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { isIP, type AddressInfo } from "node:net";
import { onAbort } from "../base/abort.js";
import { ListenError } from "../ports/errors.js";
import { HTTP_DEFAULTS } from "./defaults.js";
import type { EventLoopLoad } from "./event-loop-load.js";
import { HttpGate, type GateOptions } from "./gate.js";
import { RequestRouter } from "./request-router.js";
import { HttpSockets } from "./sockets.js";
import { silentLogger } from "../base/log.js";
import type { Logger } from "../ports/logger.js";
import type { HttpHost, HttpMount } from "../ports/http-host.js";
import type { User } from "../ports/user.js";
import { authenticates, isLoopback } from "./web-safety.js";

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
  /**
   * Delay of the event loop above which requests that start work are refused, in ms. Default 2,000. 0: the delay is not
   * measured.
   */
  maxEventLoopDelay?: number | undefined;
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

class NodeHttpHost implements HttpHost {
  readonly #options: HttpHostOptions;
  /** Without brackets around an IPv6 address. */
  readonly #host: string;
  readonly #port: number;
  readonly #logger: Logger;
  readonly #sockets: HttpSockets;
  /** IP address of `#host`; undefined until it is resolved. */
  #address: string | undefined;
  #gate: HttpGate | undefined;
  #router: RequestRouter | undefined;
  #openStreamCount = 0;
  #load: EventLoopLoad | undefined;
  #loadPromise: Promise<void> | undefined;
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
    await gate.open();
    if (this.#closePromise) throw new ListenError("the HTTP port is closed");
    if (!this.isLoopback && !gate.isAuthenticated(mount) && this.#options.insecure !== true) {
      throw new ListenError(
        `refusing to listen on ${this.#host}, which other machines can reach, without authentication: ` +
          `${this.#remedyFor(mount).listen}, or bind to 127.0.0.1`,
      );
    }
    const router = (this.#router ??= new RequestRouter(
      gate,
      this.#sockets,
      this.#logger,
      () => this.#refusesNewRequests,
    ));
    router.add(mount);
    try {
      const origin = await (this.#originPromise ??= this.#listen(this.#address, router));
      // With users, the token is that of the local user.
      if (!gate.isAuthenticated(mount) || gate.hasUsers) this.#loadToken(gate);
      this.#warnIfUnauthenticated(mount, gate, origin);
      return origin;
    } catch (error) {
      this.#originPromise = undefined;
      router.remove(mount);
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

  userOf(request: IncomingMessage): User | undefined {
    return this.#gate?.userOf(request);
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

  isOverloaded(): boolean {
    const limitMs = this.#options.maxEventLoopDelay ?? HTTP_DEFAULTS.maxEventLoopDelay;
    if (limitMs === 0) return false;
    // The measurement starts with the first call: an idle server has no timer.
    this.#loadPromise ??= import("./event-loop-load.js").then(({ EventLoopLoad }) => {
      this.#load = new EventLoopLoad(limitMs, this.#logger);
      this.#load.isOverloaded();
    });
    return this.#load?.isOverloaded() ?? false;
  }

  get counts(): NonNullable<HttpHost["counts"]> {
    return { connections: this.#sockets.count, streams: this.#openStreamCount };
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
    await this.#gate?.close();
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
      throw this.#createListenError(error as NodeJS.ErrnoException);
    }
  }

  #createListenError(error: NodeJS.ErrnoException): ListenError {
    return new ListenError(`cannot listen on ${this.#toUrl()}: ${describeListenError(error)}`, { cause: error });
  }

  #toUrl(port = this.#port): string {
    // Only an IPv6 address contains colons. `isIP` takes longer than opening the port.
    const host = this.#host.includes(":") ? `[${this.#host.replace("%", "%25")}]` : this.#host;
    return `http://${host}:${port}`;
  }

  #listen(address: string, router: RequestRouter): Promise<string> {
    const {
      headerTimeout = HTTP_DEFAULTS.headerTimeout,
      requestTimeout = HTTP_DEFAULTS.requestTimeout,
      keepAliveTimeout = HTTP_DEFAULTS.keepAliveTimeout,
    } = this.#options;
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
      // The router rejects a request without a `Host` header, with a JSON response.
      requireHostHeader: false,
    });
    router.attach(server);
    return new Promise((resolve, reject) => {
      const onListenError = (error: NodeJS.ErrnoException) => reject(this.#createListenError(error));
      server.once("error", onListenError);
      server.listen({ host: address, port: this.#port }, () => {
        server.off("error", onListenError);
        server.on("error", (error) => this.#logger.error("the HTTP port failed", { error }));
        this.#server = server;
        resolve(this.#toUrl((server.address() as AddressInfo).port));
      });
    });
  }

  #warnIfUnauthenticated(mount: HttpMount, gate: HttpGate, origin: string): void {
    if (gate.isAuthenticated(mount) || this.#hasWarned) return;
    this.#hasWarned = true;
    const localClients = gate.refusesOtherUsers
      ? "every process of yours on this machine"
      : "every process of this machine";
    const clients = this.isLoopback ? localClients : `every client that can reach ${origin}`;
    this.#logger.warn(
      `no authentication: ${clients} can run commands as you; ${this.#remedyFor(mount).authenticate} requires it`,
    );
  }

  #remedyFor(mount: HttpMount): Remedy {
    return this.#options.remedy?.(mount) ?? DEFAULT_REMEDY;
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
