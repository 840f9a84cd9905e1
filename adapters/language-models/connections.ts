import type { ClientRequest, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { ResponseBytes, type Bytes } from "./response-bytes.js";

export interface Question {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/** What a server answered; of its body nothing is read yet. */
export interface Answered {
  readonly url: string;
  readonly ok: boolean;
  readonly status: number;
  readonly statusText: string;
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Bytes;
}

interface Way {
  ask(url: URL, question: Question, signal: AbortSignal): Promise<Answered>;
  /** Breaks what is under way. */
  close(): Promise<void>;
}

const LOOPBACK = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;
const PROXIES = ["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"];
const CONNECT_MS = 30_000;
/** As long as most servers keep a connection that nobody uses, or a little less. */
const IDLE_MS = 4_000;

/**
 * Connections of one's own, kept for the next question, each kind loaded with its first: no limit on the wait for headers
 * or for the next bytes (the kernel's watchdog has that, and a local model may think for ten minutes), proxies by
 * HTTPS_PROXY, HTTP_PROXY and NO_PROXY, and never a proxy for this machine. Faults are those of the platform's `fetch`:
 * a `TypeError` with the cause.
 */
export class Connections {
  readonly #ways = new Map<OpenWay, Way | Promise<Way>>();
  #closed = false;

  /** Rejects with the signal's reason as soon as it is aborted; a body under way then breaks off with it. */
  async ask(url: string, question: Question, signal: AbortSignal): Promise<Answered> {
    const target = new URL(url);
    const open = wayTo(target);
    let way = this.#ways.get(open);
    if (way === undefined) this.#ways.set(open, (way = open()));
    const opened = await way;
    if (this.#closed) throw new Error("the provider is closed");
    signal.throwIfAborted();
    return await opened.ask(target, question, signal);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled([...this.#ways.values()].map(async (way) => (await way).close()));
  }
}

type OpenWay = () => Way | Promise<Way>;

function wayTo({ protocol, hostname }: URL): OpenWay {
  if (!LOOPBACK.test(hostname) && PROXIES.some((name) => Boolean(process.env[name]))) return proxied;
  return protocol === "https:" ? secure : plain;
}

function plain(): Way {
  // Not by import(), which from Node 22 on loads the platform's fetch as well: 30 ms.
  const { Agent, request } = process.getBuiltinModule("node:http");
  return direct(new Agent({ keepAlive: true, timeout: IDLE_MS }), request, "connect");
}

function secure(): Way {
  const { Agent, request } = process.getBuiltinModule("node:https");
  return direct(new Agent({ keepAlive: true, timeout: IDLE_MS }), request, "secureConnect");
}

type Agent = import("node:http").Agent;

function direct(agent: Agent, request: typeof import("node:http").request, connected: string): Way {
  const ask: Way["ask"] = (url, { method, headers, body }, signal) =>
    new Promise((resolve, reject) => {
      // As bytes, since a text is copied once more to stand behind the headers.
      const bytes = typeof body === "string" ? Buffer.from(body) : body;
      const length = bytes === undefined ? {} : { "content-length": String(bytes.length) };
      const asked = request(url, { method, agent, headers: { accept: "*/*", ...headers, ...length } });
      const onAbort = (): void => {
        reject(signal.reason as Error);
        asked.destroy();
      };
      signal.addEventListener("abort", onAbort, { once: true });
      asked.once("socket", (socket) => limitConnecting(asked, socket, connected));
      asked.on("error", (error) => {
        signal.removeEventListener("abort", onAbort);
        reject(new TypeError("fetch failed", { cause: error }));
      });
      asked.once("response", (response) => {
        signal.removeEventListener("abort", onAbort);
        const { statusCode = 0, statusMessage = "" } = response;
        resolve(answered(url, statusCode, statusMessage, response.headers, response, signal));
      });
      asked.end(bytes);
    });
  return { ask, close: async () => agent.destroy() };
}

/** A host that swallows packets would else be waited for as long as the system does. */
function limitConnecting(asked: ClientRequest, socket: Socket, connected: string): void {
  if (asked.reusedSocket) return;
  const late = Object.assign(new Error("connecting took too long"), { code: "ETIMEDOUT" });
  const timer = setTimeout(() => asked.destroy(late), CONNECT_MS);
  const stop = (): void => clearTimeout(timer);
  socket.once(connected, stop).once("close", stop);
}

async function proxied(): Promise<Way> {
  // By its default export: of a CommonJS package a bundle knows no names.
  const { default: undici } = await import("undici");
  const agent = new undici.EnvHttpProxyAgent({ headersTimeout: 0, bodyTimeout: 0, connect: { timeout: CONNECT_MS } });
  return {
    async ask(url, { method, headers, body }, signal) {
      const asked = { origin: url.origin, path: url.pathname + url.search, headers, signal, body: body ?? null };
      const answer = await agent.request({ ...asked, method: method as "POST" }).catch((error: unknown) => {
        signal.throwIfAborted();
        throw new TypeError("fetch failed", { cause: error });
      });
      const { statusCode, headers: told, body: stream } = answer;
      return answered(
        url,
        statusCode,
        process.getBuiltinModule("node:http").STATUS_CODES[statusCode] ?? "",
        told,
        stream,
        signal,
      );
    },
    close: () => agent.destroy(),
  };
}

function answered(
  { href }: URL,
  status: number,
  statusText: string,
  told: IncomingMessage["headers"],
  stream: Readable,
  signal: AbortSignal,
): Answered {
  const headers: Record<string, string> = {};
  for (const name in told) {
    const value = told[name];
    if (value !== undefined) headers[name] = typeof value === "string" ? value : value.join(", ");
  }
  const body = new ResponseBytes(stream, headers["content-encoding"], signal);
  return { url: href, ok: status >= 200 && status < 300, status, statusText, headers, body };
}
