import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Agent, Logger, User } from "gantry";
import { ListeningBase, type Listening, type Transport } from "gantry/plugin";
import {
  endRaw,
  getLogFields,
  logRefusal,
  openHttpHost,
  type HttpHost,
  type HttpMount,
  type Refusal,
} from "gantry/http";
import type Koa from "koa";
import type { WebSocketServer } from "ws";
import { AcpServer, ERROR_CODES, toErrorResponse } from "../acp-shared/index.js";
import { ClientConnection } from "./client-connection.js";
import {
  toHostRefusalBody,
  HttpRefusal,
  createRefusalBody,
  createShuttingDownRefusal,
  createTooManyRefusal,
} from "./errors.js";
import { ACP_HTTP_DEFAULTS, type AcpHttpOptions } from "./options.js";
import { createRoutes, type Clients } from "./routes.js";
import { SocketOutbox } from "./socket.js";
import { findUnusedClient } from "./unused-client.js";
import { UserServers } from "./user-servers.js";
import { CLOSE_CODES, CONNECTION_HEADER, JSON_MEDIA_TYPE, ADVERTISED_PATH } from "./wire.js";

/** Random bytes of a connection id, which must not be guessable. */
const CONNECTION_ID_BYTES = 32;

/** The Agent Client Protocol over HTTP with SSE, and over WebSocket, on any path. */
export class AcpHttpTransport implements Transport {
  readonly name = "acp-http-sse-ws";
  readonly #options: AcpHttpOptions;
  readonly #logger: Logger;
  readonly #host: HttpHost | undefined;

  constructor(
    options: Partial<AcpHttpOptions>,
    logger: Logger,
    /** A shared HTTP listener. Undefined: the transport opens its own listener. */
    host?: HttpHost,
  ) {
    this.#options = { ...ACP_HTTP_DEFAULTS, ...options };
    this.#logger = logger;
    this.#host = host;
  }

  async start(agent: Agent): Promise<Listening> {
    const [{ default: KoaApp }, { WebSocketServer: Server }] = await Promise.all([import("koa"), import("ws")]);
    const sockets = new Server({
      noServer: true,
      maxPayload: this.#options.frameBytes,
      perMessageDeflate: false,
      clientTracking: false,
    });
    const { requiredHeaders = {}, ...options } = this.#options;
    const ownHost = this.#host ? undefined : openHttpHost({ ...options, requiredHeaders, logger: this.#logger });
    const host = this.#host ?? ownHost!;
    const isOverloaded = () => host.isOverloaded?.() ?? false;
    const createServer = (userAgent: Agent) => new AcpServer(userAgent, this.#options, this.#logger, isOverloaded);
    const servers = new UserServers(agent, createServer);
    const listener = new AcpListener({ servers, options: this.#options, logger: this.#logger, sockets, host, ownHost });
    try {
      const origin = await host.mount(listener.createMount(new KoaApp()));
      listener.address = `${origin}${ADVERTISED_PATH}`;
      return listener;
    } catch (error) {
      await servers.close();
      await ownHost?.close(AbortSignal.abort());
      throw error;
    }
  }
}

interface AcpListenerDependencies {
  servers: UserServers;
  options: AcpHttpOptions;
  logger: Logger;
  sockets: WebSocketServer;
  host: HttpHost;
  /** The transport's own HTTP listener; undefined if a shared listener is used. */
  ownHost: HttpHost | undefined;
}

/** The clients of the transport. Assigns requests and sockets to clients. */
class AcpListener extends ListeningBase implements Clients {
  address = "";
  readonly #dependencies: AcpListenerDependencies;
  readonly #clients = new Map<string, ClientConnection>();
  /** Removed clients that are not closed yet. */
  readonly #pendingCloses = new Set<Promise<void>>();
  #openStreamCount = 0;

  constructor(dependencies: AcpListenerDependencies) {
    super();
    this.#dependencies = dependencies;
    dependencies.sockets.on("headers", (headers, request) => {
      const id = this.#clientIdByRequest.get(request);
      if (id !== undefined) headers.push(`${CONNECTION_HEADER}: ${id}`);
    });
    // Without a listener, `ws` answers an invalid handshake with HTML.
    dependencies.sockets.on("wsClientError", (error, socket, request) => {
      const status = request.method === "GET" ? 400 : 405;
      // The protocol versions that `ws` supports.
      const headers = { "Sec-WebSocket-Version": "13, 8" };
      logRefusal(dependencies.logger, request, { status, message: error.message, code: "bad_handshake" }, true);
      endRaw(
        socket,
        { status, message: error.message, code: "bad_handshake", headers },
        createRefusalBody(status, error.message),
      );
    });
  }

  /** Creates the mount of this transport for the HTTP listener. */
  createMount(app: Koa): HttpMount {
    app.use(async (context, next) => {
      try {
        await next();
      } catch (error) {
        // The client aborted the request: no answer can reach it.
        if (context.req.readableAborted) return;
        const httpRefusal = error instanceof HttpRefusal ? error : this.#toInternalError(context.req, error);
        this.#logRefusal(context.req, httpRefusal);
        context.status = httpRefusal.status;
        context.set({ "Content-Type": JSON_MEDIA_TYPE, ...httpRefusal.headers });
        context.body = JSON.stringify(httpRefusal.body);
      }
    });
    app.use(createRoutes(this, this.#dependencies.options));
    // Errors that reach this handler belong to broken sockets; no client can receive an answer.
    app.on("error", (error: unknown) => this.#dependencies.logger.debug("a response failed", { error }));
    const handleRequest = app.callback();
    const { requiredHeaders, allowedOrigins } = this.#dependencies.options;
    return {
      prefix: "/",
      fallback: true,
      authenticated: false,
      separatesUsers: true,
      requiredHeaders,
      allowedOrigins,
      handler: (request, response) => this.#whenServed(request, response, () => void handleRequest(request, response)),
      upgrade: (request, socket, head) => this.#whenServed(request, socket, () => this.#upgrade(request, socket, head)),
      refuse: sendRefusal,
    };
  }

  get(id: string, request: IncomingMessage): ClientConnection | undefined {
    const client = this.#clients.get(id);
    return client?.user === this.#userOf(request) ? client : undefined;
  }

  openConnection(request: IncomingMessage): ClientConnection {
    const { options, servers } = this.#dependencies;
    const address = request.socket.remoteAddress ?? "";
    const user = this.#userOf(request);
    if (this.isStopping) throw createShuttingDownRefusal();
    if (this.#clients.size >= options.connections) {
      const unusedClient = findUnusedClient([...this.#clients.values()], address);
      if (!unusedClient) throw createTooManyRefusal("connections");
      void unusedClient.close(CLOSE_CODES.tryAgainLater, "too many connections");
    }
    const id = randomBytes(CONNECTION_ID_BYTES).toString("base64url");
    const { server, release } = servers.open(user);
    const client = new ClientConnection(server, {
      id,
      user,
      address,
      websocketUpdates: options.websocketUpdates,
      heartbeatMs: options.heartbeatMs,
      idleMs: options.idleMs,
      unusedMs: options.unusedMs,
      onClosed: () => {
        this.#clients.delete(id);
        release();
      },
    });
    this.#clients.set(id, client);
    return client;
  }

  reserveStream(): () => void {
    const releaseSlot =
      this.#openStreamCount < this.#dependencies.options.streams
        ? this.#dependencies.host.reserveStreamSlot()
        : undefined;
    if (!releaseSlot) throw createTooManyRefusal("streams");
    this.#openStreamCount += 1;
    return () => {
      this.#openStreamCount -= 1;
      releaseSlot();
    };
  }

  removeClient(client: ClientConnection): void {
    this.#clients.delete(client.id);
    const pendingClose = client.closeGracefully().finally(() => this.#pendingCloses.delete(pendingClose));
    this.#pendingCloses.add(pendingClose);
  }

  /** Stops in this order: rejects new prompts, waits for pending answers, closes connections, waits for runs. */
  protected async end(): Promise<void> {
    const { servers, ownHost, sockets } = this.#dependencies;
    ownHost?.stopAccepting();
    await servers.drain(this.shutdown);
    const clients = [...this.#clients.values()];
    await Promise.all([
      ...clients.map((client) => client.close(CLOSE_CODES.goingAway, "server shutting down")),
      ...this.#pendingCloses,
    ]);
    sockets.close();
    await servers.close();
    await ownHost?.close(this.shutdown);
  }

  readonly #clientIdByRequest = new WeakMap<IncomingMessage, string>();

  #userOf(request: IncomingMessage): User | undefined {
    return this.#dependencies.host.userOf?.(request);
  }

  /** Calls `serve` when the agent for the user of the request is ready; at once without a user. */
  #whenServed(request: IncomingMessage, connection: { destroy(): unknown; closed: boolean }, serve: () => void): void {
    const user = this.#userOf(request);
    if (!user) return serve();
    this.#dependencies.servers.prepare(user).then(
      () => connection.closed || serve(),
      (error: unknown) => {
        this.#dependencies.logger.error("a request failed", { ...getLogFields(request), error });
        connection.destroy();
      },
    );
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    let client: ClientConnection;
    try {
      client = this.openConnection(request);
    } catch (error) {
      const httpRefusal = error instanceof HttpRefusal ? error : this.#toInternalError(request, error);
      const { status, message, headers, body } = httpRefusal;
      this.#logRefusal(request, httpRefusal, true);
      endRaw(socket, { status, message, code: "refused", headers }, body);
      return;
    }
    this.#clientIdByRequest.set(request, client.id);
    // If `ws` rejects the handshake, or the socket breaks before the handshake is complete, remove the client.
    const onSocketLost = () => client.handleSocketLoss();
    socket.once("close", onSocketLost);
    this.#dependencies.sockets.handleUpgrade(request, socket, head, (webSocket) => {
      socket.off("close", onSocketLost);
      const outbox = new SocketOutbox(webSocket, this.#dependencies.options.heartbeatMs, {
        onText: (text) => client.acp.receive(text),
        onInvalidText: () =>
          client.send(toErrorResponse(ERROR_CODES.parse, "parse error: expected UTF-8 text"), undefined),
        onClosed: () => client.handleSocketLoss(),
        onOverflow: () => void client.close(CLOSE_CODES.tryAgainLater, "too many unread messages"),
      });
      client.useSocket(outbox);
    });
  }

  #logRefusal(request: IncomingMessage, { status, message }: HttpRefusal, isUpgrade = false): void {
    logRefusal(this.#dependencies.logger, request, { status, message, code: "refused" }, isUpgrade);
  }

  #toInternalError(request: IncomingMessage, error: unknown): HttpRefusal {
    this.#dependencies.logger.error("a request failed", { ...getLogFields(request), error });
    return new HttpRefusal(500, createRefusalBody(500, "internal error"));
  }
}

/** Sends a refusal of the HTTP listener in the format of this protocol. */
function sendRefusal(_request: IncomingMessage, response: ServerResponse, hostRefusal: Refusal): void {
  response.writeHead(hostRefusal.status, { "Content-Type": JSON_MEDIA_TYPE, ...hostRefusal.headers });
  response.end(JSON.stringify(toHostRefusalBody(hostRefusal)));
}
