import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Agent, Logger } from "gantry";
import { ListeningBase, type Listening, type Transport } from "gantry/plugin";
import { endRaw, openHttpHost, type HttpHost, type HttpMount, type Refusal } from "gantry/http";
import type Koa from "koa";
import type { WebSocketServer } from "ws";
import { AcpServer, CODES, refusal } from "../acp-shared/index.js";
import { ClientConnection } from "./client-connection.js";
import { bodyOf, HttpRefusal, refusalBody, shuttingDown, tooMany } from "./errors.js";
import { ACP_HTTP_DEFAULTS, type AcpHttpOptions } from "./options.js";
import { routes, type Clients } from "./routes.js";
import { SocketOutlet } from "./socket.js";
import { CONNECTION_HEADER, JSON_TYPE, PATH } from "./wire.js";

/** The Agent Client Protocol over HTTP with SSE, and over WebSocket, on any path of its port. */
export class AcpHttpTransport implements Transport {
  readonly name = "acp-http-sse-ws";
  readonly #options: AcpHttpOptions;
  readonly #logger: Logger;
  readonly #host: HttpHost | undefined;

  constructor(
    options: Partial<AcpHttpOptions>,
    logger: Logger,
    /** A shared port; undefined: the transport opens its own. */
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
    const server = new AcpServer(agent, this.#options, this.#logger);
    const serving = new AcpServing({ server, options: this.#options, logger: this.#logger, sockets, host, ownHost });
    try {
      const origin = await host.mount(serving.mount(new KoaApp()));
      serving.address = `${origin}${PATH}`;
      return serving;
    } catch (error) {
      await server.close();
      await ownHost?.close(AbortSignal.abort());
      throw error;
    }
  }
}

interface ServingParts {
  server: AcpServer;
  options: AcpHttpOptions;
  logger: Logger;
  sockets: WebSocketServer;
  host: HttpHost;
  /** The transport's own port; undefined if it uses a shared one. */
  ownHost: HttpHost | undefined;
}

/** The clients, and the assignment of requests and sockets to them. */
class AcpServing extends ListeningBase implements Clients {
  address = "";
  readonly #parts: ServingParts;
  readonly #clients = new Map<string, ClientConnection>();
  /** Clients that are closing, until they are closed. */
  readonly #closing = new Set<Promise<void>>();
  #streams = 0;

  constructor(parts: ServingParts) {
    super();
    this.#parts = parts;
    parts.sockets.on("headers", (headers, request) => {
      const id = this.#idOf.get(request);
      if (id !== undefined) headers.push(`${CONNECTION_HEADER}: ${id}`);
    });
    // Without a listener, `ws` answers an invalid handshake with HTML.
    parts.sockets.on("wsClientError", (error, socket, request) => {
      const status = request.method === "GET" ? 400 : 405;
      const headers = { "Sec-WebSocket-Version": "13, 8" };
      endRaw(
        socket,
        { status, message: error.message, code: "bad_handshake", headers },
        refusalBody(status, error.message),
      );
    });
  }

  /** The mount of this transport on the port. */
  mount(app: Koa): HttpMount {
    app.use(async (context, next) => {
      try {
        await next();
      } catch (error) {
        // The client aborted the request: no answer can reach it.
        if (context.req.readableAborted) return;
        const refused = error instanceof HttpRefusal ? error : this.#failed(error);
        context.status = refused.status;
        context.set({ "Content-Type": JSON_TYPE, ...refused.headers });
        context.body = JSON.stringify(refused.body);
      }
    });
    app.use(routes(this, this.#parts.options));
    // Errors that reach this handler belong to broken sockets; no client can receive an answer.
    app.on("error", (error: unknown) => this.#parts.logger.debug("a response failed", { error }));
    const callback = app.callback();
    const { requiredHeaders, allowedOrigins } = this.#parts.options;
    return {
      prefix: "/",
      fallback: true,
      authenticated: false,
      requiredHeaders,
      allowedOrigins,
      handler: (request, response) => void callback(request, response),
      upgrade: (request, socket, head) => this.#upgrade(request, socket, head),
      refuse,
    };
  }

  get(id: string): ClientConnection | undefined {
    return this.#clients.get(id);
  }

  open(address: string): ClientConnection {
    const { options, server } = this.#parts;
    if (this.stopping) throw shuttingDown();
    if (this.#clients.size >= options.connections && !this.#makeRoom(address)) throw tooMany("connections");
    const id = randomBytes(32).toString("base64url");
    const client = new ClientConnection(server, {
      id,
      address,
      websocketUpdates: options.websocketUpdates,
      heartbeatMs: options.heartbeatMs,
      idleMs: options.idleMs,
      unusedMs: options.unusedMs,
      onClosed: () => void this.#clients.delete(id),
    });
    this.#clients.set(id, client);
    return client;
  }

  countStream(): () => void {
    const ended = this.#streams < this.#parts.options.streams ? this.#parts.host.takeStream() : undefined;
    if (!ended) throw tooMany("streams");
    this.#streams += 1;
    return () => {
      this.#streams -= 1;
      ended();
    };
  }

  /**
   * Closes an unused connection to make room for a new one of `address`. Returns false if there is none.
   *
   * The address with the most connections loses its oldest unused one at once. If that is `address` itself, only a
   * connection that has been unused for a while is closed.
   */
  #makeRoom(address: string): boolean {
    const counts = new Map([[address, 0]]);
    for (const client of this.#clients.values()) counts.set(client.address, (counts.get(client.address) ?? 0) + 1);
    const [largest] = [...counts].reduce((most, entry) => (entry[1] > most[1] ? entry : most));
    const all = [...this.#clients.values()];
    const ofLargest = all.filter((client) => client.address === largest && largest !== address && !client.isInUse);
    const unused = ofLargest.length > 0 ? ofLargest : all.filter((client) => client.replaceableSince !== undefined);
    const [first] = unused;
    if (!first) return false;
    void unused
      .reduce((oldest, client) => (client.lastUsedAt < oldest.lastUsedAt ? client : oldest), first)
      .close(1013, "too many connections");
    return true;
  }

  dismiss(client: ClientConnection): void {
    this.#clients.delete(client.id);
    const going = client.finish().finally(() => this.#closing.delete(going));
    this.#closing.add(going);
  }

  /** Every client gets its pending answers before its connection is closed. */
  protected async end(): Promise<void> {
    const { server, ownHost, sockets } = this.#parts;
    ownHost?.refuseNew();
    await server.drain(this.shutdown);
    const clients = [...this.#clients.values()];
    await Promise.all([...clients.map((client) => client.close(1001, "server shutting down")), ...this.#closing]);
    sockets.close();
    await server.close();
    await ownHost?.close(this.shutdown);
  }

  readonly #idOf = new WeakMap<IncomingMessage, string>();

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    let client: ClientConnection;
    try {
      client = this.open(request.socket.remoteAddress ?? "");
    } catch (error) {
      const { status, message, headers, body } = error instanceof HttpRefusal ? error : this.#failed(error);
      endRaw(socket, { status, message, code: "refused", headers }, body);
      return;
    }
    this.#idOf.set(request, client.id);
    // If `ws` rejects the handshake, or the socket breaks before it is complete, the client is removed.
    const broken = () => client.socketLost();
    socket.once("close", broken);
    this.#parts.sockets.handleUpgrade(request, socket, head, (webSocket) => {
      socket.off("close", broken);
      const outlet = new SocketOutlet(webSocket, this.#parts.options.heartbeatMs, {
        onText: (text) => client.acp.receive(text),
        onInvalidText: () => client.send(refusal(CODES.parse, "parse error: expected UTF-8 text"), undefined),
        onClosed: () => client.socketLost(),
        onOverflow: () => void client.close(1013, "too much unread"),
      });
      client.useSocket(outlet);
    });
  }

  #failed(error: unknown): HttpRefusal {
    this.#parts.logger.error("a request failed", { error });
    return new HttpRefusal(500, refusalBody(500, "internal error"));
  }
}

/** Writes a refusal of the port in the format of this protocol. */
function refuse(_request: IncomingMessage, response: ServerResponse, refused: Refusal): void {
  response.writeHead(refused.status, { "Content-Type": JSON_TYPE, ...refused.headers });
  response.end(JSON.stringify(bodyOf(refused)));
}
