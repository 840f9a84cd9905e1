import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import { pipeline, type Duplex } from "node:stream";
import { isTargetAllowed, parseConnectTarget, parseHttpTarget, type HostRule, type HostTarget } from "./host-rules.js";

/** A refused connection. */
export interface RefusedConnection {
  /** `host:port` of the target. */
  readonly target: string;
  /** `unlisted`: no rule allows the target. `private`: the target's address is not on the public internet. */
  readonly reason: "unlisted" | "private";
}

/** Opens a connection and checks its address. Undefined if the address is not public. Rejects with the system's error. */
export type ConnectHost = (target: HostTarget) => Promise<Socket | undefined>;

export interface FilteringProxyOptions {
  readonly rules: readonly HostRule[];
  readonly connect: ConnectHost;
  readonly onRefused: (refusal: RefusedConnection) => void;
}

/** Maximum concurrent connections of a command. Further ones are closed. */
const MAX_CONNECTIONS = 256;
/** Maximum time without data before a connection is closed, in ms. */
const IDLE_TIMEOUT_MS = 5 * 60 * 1000;

/** Headers that apply to one connection only, and those for the proxy itself. */
const CONNECTION_HEADERS = new Set([
  ...["connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"],
  ...["te", "trailer", "upgrade"],
]);

/** A response of the proxy itself. */
class ProxyFault extends Error {
  constructor(
    readonly status: string,
    message: string,
  ) {
    super(message);
  }
}

/**
 * An HTTP proxy on a Unix socket that connects only to allowed hosts: CONNECT, and requests with an absolute URL. It
 * sees the host name of an encrypted connection, but not its content.
 */
export class FilteringProxy {
  readonly #options: FilteringProxyOptions;
  readonly #server: Server;
  /** Open connections of clients and to hosts. */
  readonly #sockets = new Set<Duplex>();
  #isClosed = false;

  /** Listens on a Unix socket. Rejects with the system's error. */
  static async listen(path: string, options: FilteringProxyOptions): Promise<FilteringProxy> {
    const proxy = new FilteringProxy(options);
    await new Promise<void>((resolve, reject) => proxy.#server.once("error", reject).listen(path, resolve));
    return proxy;
  }

  private constructor(options: FilteringProxyOptions) {
    this.#options = options;
    // No limit for a whole request, which may be a large upload. The idle timeout applies.
    this.#server = createServer({ requestTimeout: 0 });
    this.#server.maxConnections = MAX_CONNECTIONS;
    this.#server.on("connection", (socket: Socket) => this.#track(socket));
    this.#server.on("connect", (request, client, head) => void this.#tunnel(request, client, head));
    this.#server.on("request", (request, response) => void this.#forward(request, response));
    this.#server.on("clientError", (_error, client) => client.destroy());
  }

  /** Closes all connections and removes the socket file. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async #tunnel(request: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    try {
      const upstream = await this.#open(parseConnectTarget(request.url ?? ""));
      if (client.destroyed) return void upstream.destroy();
      client.write("HTTP/1.1 200 Connection Established\r\n\r\n");
      upstream.write(head);
      for (const [source, target] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        source.once("close", () => target.destroy());
        source.pipe(target);
      }
    } catch (error) {
      const { status, message } = toFault(error);
      const headers = `Content-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(message)}\r\nConnection: close`;
      client.end(`HTTP/1.1 ${status}\r\n${headers}\r\n\r\n${message}`);
    }
  }

  async #forward(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const url = URL.canParse(request.url ?? "") ? new URL(request.url ?? "") : undefined;
      const upstream = await this.#open(url && parseHttpTarget(url));
      response.once("close", () => upstream.destroy());
      if (url === undefined || response.destroyed) return void upstream.destroy();
      const outgoing = httpRequest({
        createConnection: () => upstream,
        method: request.method,
        path: `${url.pathname}${url.search}`,
        // Not the client's header: a server could choose another site by it.
        headers: [...listForwardedHeaders(request), "Host", url.host],
      });
      const answer = new Promise<IncomingMessage>((resolve, reject) =>
        outgoing.once("response", resolve).once("error", reject),
      );
      // A broken upload fails the answer.
      pipeline(request, outgoing, () => undefined);
      const incoming = await answer;
      response.writeHead(incoming.statusCode ?? 502, listForwardedHeaders(incoming));
      // After a failure the client's connection closes before the announced end of the body.
      pipeline(incoming, response, () => undefined);
    } catch (error) {
      const { status, message } = toFault(error);
      if (response.headersSent) response.destroy();
      else response.writeHead(Number(status.slice(0, 3)), { "content-type": "text/plain" }).end(message);
    }
  }

  /** Opens the connection to an allowed target. Rejects with `ProxyFault`, or with the system's error. */
  async #open(target: HostTarget | undefined): Promise<Socket> {
    if (target === undefined)
      throw new ProxyFault(
        "400 Bad Request",
        "gantry: expected CONNECT host:port, or an http URL without a user name\n",
      );
    const { rules, connect } = this.#options;
    if (!isTargetAllowed(rules, target)) throw this.#refuse(target, "unlisted");
    const socket = await connect(target);
    if (!socket) throw this.#refuse(target, "private");
    this.#track(socket);
    return socket;
  }

  #refuse(target: HostTarget, reason: RefusedConnection["reason"]): ProxyFault {
    const refusal = { target: formatTarget(target), reason };
    this.#options.onRefused(refusal);
    return new ProxyFault("403 Forbidden", `gantry: ${describeRefusal(refusal)}\n`);
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => undefined).once("close", () => this.#sockets.delete(socket));
    socket.setTimeout(IDLE_TIMEOUT_MS, () => socket.destroy());
    if (this.#isClosed) socket.destroy();
  }
}

/** Describes a refusal for the model and the user. */
export function describeRefusal({ target, reason }: RefusedConnection): string {
  return reason === "unlisted"
    ? `connection to ${target} refused: tools.bash.network does not list it; the user can add it`
    : `connection to ${target} refused: its address is not on the public internet, which tools.bash.network requires`;
}

function formatTarget({ host, port }: HostTarget): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Lists names and values alternately, without the headers of the connection and without `Host`. */
function listForwardedHeaders({ rawHeaders, headers }: IncomingMessage): string[] {
  const connectionNames = (headers.connection ?? "").split(",").map((name) => name.trim().toLowerCase());
  return rawHeaders.flatMap((value, i) => {
    const name = rawHeaders[i - (i % 2)]?.toLowerCase() ?? "";
    return CONNECTION_HEADERS.has(name) || connectionNames.includes(name) || name === "host" ? [] : [value];
  });
}

function toFault(error: unknown): ProxyFault {
  if (error instanceof ProxyFault) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  return new ProxyFault("502 Bad Gateway", `gantry: the connection failed: ${code ?? message}\n`);
}
