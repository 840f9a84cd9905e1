import type { ClientRequest, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { ResponseBytes, type ByteSource } from "./response-bytes.js";

export interface HttpRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/** A response with an unread body. */
export interface HttpResponse {
  readonly url: string;
  readonly ok: boolean;
  readonly status: number;
  readonly statusText: string;
  /** Names are in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: ByteSource;
}

interface HttpTransport {
  send(url: URL, httpRequest: HttpRequest, signal: AbortSignal): Promise<HttpResponse>;
  /** Aborts requests in progress. */
  close(): Promise<void>;
}

const LOOPBACK_HOST_PATTERN = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;
const PROXY_VARIABLES = ["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"];
const CONNECT_TIMEOUT_MS = 30_000;
/** Timeout of an idle connection. Most servers keep idle connections longer. */
const IDLE_TIMEOUT_MS = 4_000;

/**
 * HTTP connections with keep-alive. The code for HTTP, HTTPS and proxies is loaded with the first use of each.
 *
 * The wait for headers or bytes has no limit here: the caller's watchdog limits the wait, and a local model may think
 * for ten minutes. HTTPS_PROXY, HTTP_PROXY and NO_PROXY apply, except to servers of this machine. Errors are those of
 * the platform's `fetch`: a `TypeError` with the cause.
 */
export class HttpConnections {
  readonly #transportsByOpener = new Map<OpenTransport, HttpTransport | Promise<HttpTransport>>();
  #isClosed = false;

  /**
   * Sends a request. Rejects with the signal's reason as soon as the signal aborts; a body in progress then ends with
   * this reason.
   */
  async send(url: string, httpRequest: HttpRequest, signal: AbortSignal): Promise<HttpResponse> {
    const target = new URL(url);
    const openTransport = selectTransport(target);
    let transport = this.#transportsByOpener.get(openTransport);
    if (transport === undefined) this.#transportsByOpener.set(openTransport, (transport = openTransport()));
    const openedTransport = await transport;
    if (this.#isClosed) throw new Error("the provider is closed");
    signal.throwIfAborted();
    return await openedTransport.send(target, httpRequest, signal);
  }

  /** Aborts requests in progress. Later requests are rejected. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled(
      [...this.#transportsByOpener.values()].map(async (transport) => (await transport).close()),
    );
  }
}

type OpenTransport = () => HttpTransport | Promise<HttpTransport>;

function selectTransport({ protocol, hostname }: URL): OpenTransport {
  if (!LOOPBACK_HOST_PATTERN.test(hostname) && PROXY_VARIABLES.some((name) => Boolean(process.env[name])))
    return openProxied;
  return protocol === "https:" ? openSecure : openPlain;
}

function openPlain(): HttpTransport {
  // On Node 22 and later `import()` also loads the platform's fetch, which takes 30 ms.
  const { Agent, request } = process.getBuiltinModule("node:http");
  return createDirectTransport(new Agent({ keepAlive: true, timeout: IDLE_TIMEOUT_MS }), request, "connect");
}

function openSecure(): HttpTransport {
  const { Agent, request } = process.getBuiltinModule("node:https");
  return createDirectTransport(new Agent({ keepAlive: true, timeout: IDLE_TIMEOUT_MS }), request, "secureConnect");
}

type Agent = import("node:http").Agent;

function createDirectTransport(
  agent: Agent,
  request: typeof import("node:http").request,
  connectEvent: string,
): HttpTransport {
  const send: HttpTransport["send"] = (url, { method, headers, body }, signal) =>
    new Promise((resolve, reject) => {
      // Bytes, because Node would copy a text again after the headers.
      const bytes = typeof body === "string" ? Buffer.from(body) : body;
      const lengthHeader = bytes === undefined ? {} : { "content-length": String(bytes.length) };
      const clientRequest = request(url, { method, agent, headers: { accept: "*/*", ...headers, ...lengthHeader } });
      const onAbort = (): void => {
        reject(signal.reason as Error);
        clientRequest.destroy();
      };
      signal.addEventListener("abort", onAbort, { once: true });
      clientRequest.once("socket", (socket) => limitConnecting(clientRequest, socket, connectEvent));
      clientRequest.on("error", (error) => {
        signal.removeEventListener("abort", onAbort);
        reject(new TypeError("fetch failed", { cause: error }));
      });
      clientRequest.once("response", (response) => {
        signal.removeEventListener("abort", onAbort);
        const { statusCode = 0, statusMessage = "" } = response;
        resolve(toResponse(url, statusCode, statusMessage, response.headers, response, signal));
      });
      clientRequest.end(bytes);
    });
  return { send, close: async () => agent.destroy() };
}

/** Limits the time to connect. Without this limit the operating system waits minutes for a host that drops packets. */
function limitConnecting(clientRequest: ClientRequest, socket: Socket, connectEvent: string): void {
  if (clientRequest.reusedSocket) return;
  const timeoutError = Object.assign(new Error("connection attempt timed out"), { code: "ETIMEDOUT" });
  const timer = setTimeout(() => clientRequest.destroy(timeoutError), CONNECT_TIMEOUT_MS);
  const stopTimer = (): void => clearTimeout(timer);
  socket.once(connectEvent, stopTimer).once("close", stopTimer);
}

async function openProxied(): Promise<HttpTransport> {
  // Default export: bundles cannot resolve the names of a CommonJS package.
  const { default: undici } = await import("undici");
  const agent = new undici.EnvHttpProxyAgent({
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: { timeout: CONNECT_TIMEOUT_MS },
  });
  return {
    async send(url, { method, headers, body }, signal) {
      const requestOptions = {
        origin: url.origin,
        path: url.pathname + url.search,
        headers,
        signal,
        body: body ?? null,
      };
      const response = await agent.request({ ...requestOptions, method: method as "POST" }).catch((error: unknown) => {
        signal.throwIfAborted();
        throw new TypeError("fetch failed", { cause: error });
      });
      const { statusCode, headers: responseHeaders, body: stream } = response;
      return toResponse(
        url,
        statusCode,
        process.getBuiltinModule("node:http").STATUS_CODES[statusCode] ?? "",
        responseHeaders,
        stream,
        signal,
      );
    },
    close: () => agent.destroy(),
  };
}

function toResponse(
  { href }: URL,
  status: number,
  statusText: string,
  responseHeaders: IncomingMessage["headers"],
  stream: Readable,
  signal: AbortSignal,
): HttpResponse {
  const headers: Record<string, string> = {};
  for (const name in responseHeaders) {
    const value = responseHeaders[name];
    if (value !== undefined) headers[name] = typeof value === "string" ? value : value.join(", ");
  }
  const body = new ResponseBytes(stream, headers["content-encoding"], signal);
  return { url: href, ok: status >= 200 && status < 300, status, statusText, headers, body };
}
