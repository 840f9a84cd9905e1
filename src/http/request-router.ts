import { ServerResponse, type IncomingMessage, type Server } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { ListenError } from "../ports/errors.js";
import type { HttpMount, Refusal } from "../ports/http-host.js";
import type { Logger } from "../ports/logger.js";
import { answer, answerClientError } from "./answers.js";
import { isReadOfPath, pathOf, type HttpGate } from "./gate.js";
import { logRefusal } from "./refusals.js";
import { getLogFields, getRequestId, REQUEST_ID_HEADER } from "./request-fields.js";
import type { HttpSockets } from "./sockets.js";
import { getHeaderValues } from "./web-safety.js";

/** Matches the `Accept` header of browsers. API clients do not accept HTML. */
const HTML_ACCEPT_PATTERN = /\btext\/html\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i;

const NOT_FOUND_REFUSAL: Refusal = { status: 404, message: "not found", code: "not_found" };
const INTERNAL_ERROR_REFUSAL: Refusal = { status: 500, message: "internal error", code: "internal" };
const createBadRequestRefusal = (message: string): Refusal => ({ status: 400, message, code: "bad_request" });
// Another server, or this one after a restart, may accept the request immediately.
const RETRY_HEADERS = { connection: "close", "Retry-After": "1" };
const SHUTDOWN_REFUSAL: Refusal = {
  status: 503,
  message: "server shutting down",
  code: "shutting_down",
  headers: RETRY_HEADERS,
};
const CONNECTION_LIMIT_REFUSAL: Refusal = {
  status: 503,
  message: "too many connections",
  code: "too_many_connections",
  headers: RETRY_HEADERS,
};

/** Passes each request and each upgrade of a server to the mount of its path, or refuses it before a mount sees it. */
export class RequestRouter {
  readonly #gate: HttpGate;
  readonly #sockets: HttpSockets;
  readonly #logger: Logger;
  readonly #isShuttingDown: () => boolean;
  readonly #mounts: HttpMount[] = [];

  /** @param isShuttingDown Whether the listener refuses new requests, except those for `shutdownPaths`. */
  constructor(gate: HttpGate, sockets: HttpSockets, logger: Logger, isShuttingDown: () => boolean) {
    this.#gate = gate;
    this.#sockets = sockets;
    this.#logger = logger;
    this.#isShuttingDown = isShuttingDown;
  }

  /** Throws `ListenError` if another mount has the same prefix. */
  add(mount: HttpMount): void {
    if (this.#mounts.some(({ prefix }) => prefix === mount.prefix))
      throw new ListenError(`two transports use the path ${mount.prefix}`);
    this.#mounts.push(mount);
  }

  remove(mount: HttpMount): void {
    this.#mounts.splice(this.#mounts.indexOf(mount), 1);
  }

  /** Handles the connections of a server, and everything that arrives on them. */
  attach(server: Server): void {
    server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      this.#gate.startIdentification(socket);
    });
    for (const event of ["request", "checkContinue", "checkExpectation"])
      server.on(event, (request: IncomingMessage, response: ServerResponse) => this.#serve(request, response));
    server.on("upgrade", (request, socket, head) => {
      // Node's server does not handle errors of an upgraded socket. An unhandled error would end the process.
      socket.on("error", () => undefined);
      this.#gate.whenIdentified(request, () => this.#passUpgradeToMount(request, socket, head));
    });
    // Input that is not a valid request.
    server.on("clientError", (error, socket) =>
      answerClientError(error, socket, this.#sockets.hasStartedResponse(socket), this.#fallbackHeaders),
    );
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    this.#sockets.trackResponse(request.socket, response);
    const serveIdentified = () => {
      // If the client has disconnected meanwhile, the request is ignored.
      if (!response.closed) this.#passToMount(request, response);
    };
    if (rewriteToOriginForm(request)) this.#gate.whenIdentified(request, serveIdentified);
    else this.#answer(response, createBadRequestRefusal("invalid request target"));
  }

  /** Headers for responses to requests without a mount: the headers of the fallback mount. */
  get #fallbackHeaders(): Readonly<Record<string, string>> {
    return (this.#mounts.find(({ fallback }) => fallback) ?? this.#mounts[0])?.headers ?? {};
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

  /** Why a request is rejected before its mount sees it; undefined if it is admitted. */
  #findRefusal(request: IncomingMessage, mount: HttpMount | undefined, isUpgrade: boolean): Refusal | undefined {
    if (this.#sockets.isOverLimit(request.socket)) return CONNECTION_LIMIT_REFUSAL;
    if (this.#isShuttingDown() && !isReadOfPath(request, mount?.shutdownPaths)) return SHUTDOWN_REFUSAL;
    const hosts = getHeaderValues(request, "host");
    if (hosts.length > 1) return createBadRequestRefusal("more than one host header");
    if (hosts.length === 0 && request.httpVersionMinor > 0) return createBadRequestRefusal("missing host header");
    if (!mount) return NOT_FOUND_REFUSAL;
    return this.#gate.findRefusal(request, mount, isUpgrade);
  }

  #passToMount(request: IncomingMessage, response: ServerResponse): void {
    try {
      response.setHeader(REQUEST_ID_HEADER, getRequestId(request));
      if (this.#redirectToHome(request, response)) return;
      const mount = this.#findMount(pathOf(request));
      const refusal = this.#findRefusal(request, mount, false);
      if (!mount || refusal) this.#refuse(mount, request, response, refusal);
      else {
        if (/^100-continue$/i.test(request.headers.expect ?? "")) response.writeContinue();
        response.once("close", this.#gate.endWithUser(request, request.socket));
        mount.handler(request, response);
      }
    } catch (error) {
      this.#logger.error("a request failed", { ...getLogFields(request), error });
      if (response.headersSent) response.destroy();
      else this.#answer(response, INTERNAL_ERROR_REFUSAL);
    }
  }

  /**
   * Redirects a browser that opens `/` to the page for users. Returns false if the browser may not open that page; the
   * request is then handled as usual.
   */
  #redirectToHome(request: IncomingMessage, response: ServerResponse): boolean {
    if (pathOf(request) !== "/" || !HTML_ACCEPT_PATTERN.test(request.headers.accept ?? "")) return false;
    const mount = this.#mounts.find(({ homePath }) => homePath);
    if (!mount?.homePath || !/^(GET|HEAD)$/.test(request.method ?? "") || this.#findRefusal(request, mount, false))
      return false;
    const headers = { "Cache-Control": "no-store", "Content-Length": 0, Location: mount.homePath, Vary: "Accept" };
    response.writeHead(302, headers).end();
    return true;
  }

  #refuse(
    mount: HttpMount | undefined,
    request: IncomingMessage,
    response: ServerResponse,
    refusal = NOT_FOUND_REFUSAL,
    isUpgrade = false,
  ): void {
    logRefusal(this.#logger, request, refusal, isUpgrade);
    if (mount) mount.refuse(request, response, refusal);
    else this.#answer(response, refusal);
  }

  #answer(response: ServerResponse, refusal: Refusal): void {
    answer(response, refusal, this.#fallbackHeaders);
  }

  #passUpgradeToMount(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const mount = rewriteToOriginForm(request) ? this.#findMount(pathOf(request)) : undefined;
    const isWebSocket = request.headers.upgrade?.toLowerCase() === "websocket";
    const refusal = this.#findRefusal(request, mount, isWebSocket);
    if (isWebSocket && mount?.upgrade && !refusal) {
      this.#sockets.markUpgraded(socket);
      socket.once("close", this.#gate.endWithUser(request, socket));
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
    if (!isWebSocket && hasNoBody) this.#serve(request, response);
    else if (!isWebSocket) this.#answer(response, createBadRequestRefusal("upgrade not supported"));
    else this.#refuse(mount, request, response, refusal, true);
  }
}

/**
 * Replaces an absolute target `http://host/path`, which clients send to proxies, with its path. Returns false if the
 * target is invalid.
 */
function rewriteToOriginForm(request: IncomingMessage): boolean {
  const target = request.url ?? "/";
  if (target.startsWith("/") || (target === "*" && request.method === "OPTIONS")) return true;
  const [, authority, path] = /^https?:\/\/([^/?#]+)(.*)$/i.exec(target) ?? [];
  if (authority === undefined || path === undefined) return false;
  // The authority of the target overrides the `Host` header, which the checks read.
  const hostIndex = request.rawHeaders.findIndex((name, i) => i % 2 === 0 && name.toLowerCase() === "host");
  if (hostIndex === -1) request.rawHeaders.push("Host", authority);
  else request.rawHeaders[hostIndex + 1] = authority;
  request.headers.host = authority;
  request.url = path.startsWith("/") ? path : `/${path}`;
  return true;
}
