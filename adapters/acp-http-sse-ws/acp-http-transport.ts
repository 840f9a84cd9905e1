import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import {
  endRaw,
  HTTP_HOST,
  inject,
  injectable,
  LOGGER,
  openHttpHost,
  OPTIONS,
  type Agent,
  type HttpHost,
  type HttpMount,
  type Listening,
  type Logger,
  type Refusal,
  type Transport,
} from "gantry";
import type Koa from "koa";
import type { WebSocketServer } from "ws";
import { AcpServer, CODES, refusal } from "../acp-shared/index.js";
import { ClientConnection } from "./client-connection.js";
import { HttpRefusal, refusalBody, shuttingDown, tooMany } from "./errors.js";
import { Guard } from "./guard.js";
import { ACP_HTTP_DEFAULTS, type AcpHttpOptions } from "./options.js";
import { routes, type Clients } from "./routes.js";
import { SocketOutlet } from "./socket.js";
import { CONNECTION_HEADER, JSON_TYPE, PATH } from "./wire.js";

/** The Agent Client Protocol over HTTP with SSE, and over WebSocket, on any path of its port. */
@injectable()
export class AcpHttpTransport implements Transport {
  readonly name = "acp-http-sse-ws";
  readonly #options: AcpHttpOptions;
  readonly #logger: Logger;
  readonly #host: HttpHost | undefined;

  constructor(
    @inject(OPTIONS) options: Partial<AcpHttpOptions>,
    @inject(LOGGER) logger: Logger,
    /** Left out: it opens a port of its own. */
    @inject(HTTP_HOST) host?: HttpHost,
  ) {
    this.#options = { ...ACP_HTTP_DEFAULTS, ...options };
    this.#logger = logger;
    this.#host = host;
  }

  async start(agent: Agent): Promise<Listening> {
    const [{ default: KoaApp }, { WebSocketServer: Sockets }] = await Promise.all([import("koa"), import("ws")]);
    const sockets = new Sockets({
      noServer: true,
      maxPayload: this.#options.frameBytes,
      perMessageDeflate: false,
      clientTracking: false,
    });
    const own = this.#host ? undefined : openHttpHost({ ...this.#options, logger: this.#logger });
    const server = new AcpServer(agent, this.#options, this.#logger);
    const serving = new Serving({ server, options: this.#options, logger: this.#logger, sockets, own });
    try {
      const origin = await (this.#host ?? own!).mount(serving.mount(new KoaApp()));
      serving.address = `${origin}${PATH}`;
      return serving;
    } catch (error) {
      await server.close();
      await own?.close(AbortSignal.abort());
      throw error;
    }
  }
}

interface ServingParts {
  server: AcpServer;
  options: AcpHttpOptions;
  logger: Logger;
  sockets: WebSocketServer;
  /** The port, where it is this transport's own. */
  own: HttpHost | undefined;
}

/** From the start to the stop: the clients, and how requests and sockets find them. */
class Serving implements Listening, Clients {
  readonly label = "acp server";
  address = "";
  readonly ended: Promise<void>;
  readonly #parts: ServingParts;
  readonly #guard: Guard;
  readonly #clients = new Map<string, ClientConnection>();
  /** Clients that are going, until they are gone. */
  readonly #going = new Set<Promise<void>>();
  #streams = 0;
  #settle: () => void = () => undefined;
  #stopping: Promise<void> | undefined;

  constructor(parts: ServingParts) {
    this.#parts = parts;
    this.#guard = new Guard(parts.options);
    this.ended = new Promise((resolve) => (this.#settle = resolve));
    parts.sockets.on("headers", (headers, request) => {
      const id = this.#idOf.get(request);
      if (id !== undefined) headers.push(`${CONNECTION_HEADER}: ${id}`);
    });
  }

  /** What the port is told of this transport. */
  mount(app: Koa): HttpMount {
    app.use(async (context, next) => {
      try {
        await next();
      } catch (error) {
        // The client left in the middle of its request: nobody is there to be answered.
        if (context.req.readableAborted) return;
        const refused = error instanceof HttpRefusal ? error : this.#failed(error);
        context.status = refused.status;
        context.set({ "Content-Type": JSON_TYPE, ...refused.headers });
        context.body = JSON.stringify(refused.body);
      }
    });
    app.use(routes(this, this.#guard, this.#parts.options));
    // What comes here is of a socket that broke; there is nobody to answer.
    app.on("error", (error: unknown) => this.#parts.logger.debug("a response failed", { error }));
    const callback = app.callback();
    return {
      prefix: "/",
      fallback: true,
      authenticated: this.#guard.authenticates,
      authenticationKey: "acp.required_headers",
      handler: (request, response) => void callback(request, response),
      upgrade: (request, socket, head) => this.#upgrade(request, socket, head),
      refuse,
    };
  }

  get(id: string): ClientConnection | undefined {
    return this.#clients.get(id);
  }

  open(): ClientConnection {
    const { options, server } = this.#parts;
    if (this.#stopping) throw shuttingDown();
    if (this.#clients.size >= options.connections) throw tooMany("connections");
    const id = randomBytes(32).toString("base64url");
    const client = new ClientConnection(server, {
      id,
      websocketUpdates: options.websocketUpdates,
      heartbeatMs: options.heartbeatMs,
      idleMs: options.idleMs,
      onClosed: () => void this.#clients.delete(id),
    });
    this.#clients.set(id, client);
    return client;
  }

  countStream(): () => void {
    if (this.#streams >= this.#parts.options.streams) throw tooMany("streams");
    this.#streams += 1;
    return () => void (this.#streams -= 1);
  }

  end(client: ClientConnection): void {
    this.#clients.delete(client.id);
    const going = client.finish().finally(() => this.#going.delete(going));
    this.#going.add(going);
  }

  /** Refuse new clients, let running prompts finish until `signal` aborts, then cancel them; every client gets its answers first. */
  stop(signal: AbortSignal): Promise<void> {
    return (this.#stopping ??= this.#stop(signal));
  }

  async #stop(signal: AbortSignal): Promise<void> {
    const { server, own, sockets } = this.#parts;
    own?.refuseNew();
    await server.drain(signal);
    const clients = [...this.#clients.values()];
    await Promise.all([...clients.map((client) => client.close(1001, "server shutting down")), ...this.#going]);
    sockets.close();
    await server.close();
    await own?.close(signal);
    this.#settle();
  }

  readonly #idOf = new WeakMap<IncomingMessage, string>();

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    let client: ClientConnection;
    try {
      this.#guard.checkHeaders(request);
      this.#guard.checkOrigin(request);
      client = this.open();
    } catch (error) {
      const { status, message, headers } = error instanceof HttpRefusal ? error : this.#failed(error);
      endRaw(socket, status, message, headers);
      return;
    }
    this.#idOf.set(request, client.id);
    // A handshake that `ws` refuses, or a socket that breaks before it is done, leaves no client behind.
    const broken = () => client.lost();
    socket.once("close", broken);
    this.#parts.sockets.handleUpgrade(request, socket, head, (webSocket) => {
      socket.off("close", broken);
      const outlet = new SocketOutlet(webSocket, this.#parts.options.heartbeatMs, {
        onText: (text) => client.acp.receive(text),
        onBinary: () => client.send(refusal(CODES.parse, "parse error: expected a text frame"), undefined),
        onClosed: () => client.lost(),
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

/** A refusal of the port, in this protocol's shape. */
function refuse(_request: IncomingMessage, response: ServerResponse, { status, message, headers }: Refusal): void {
  response.writeHead(status, { "Content-Type": JSON_TYPE, ...headers });
  response.end(JSON.stringify(refusalBody(status, message)));
}
