import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { WebSocket } from "ws";
import { silentLogger, type Agent } from "gantry";
import type { Listening } from "gantry/plugin";
import { AcpHttpTransport, type AcpHttpOptions } from "../../adapters/acp-http-sse-ws/index.js";
import type { Profile } from "../../adapters/acp-shared/index.js";
import { AcpPeer, type Json } from "./acp-peer.js";
import type { Hooks } from "./temp.js";

/** Serves an agent on its own port; stopped after the test. */
export async function serveHttp(
  hooks: Hooks,
  agent: Agent,
  options: Partial<AcpHttpOptions> = {},
): Promise<Listening & { url: string }> {
  const listening = await new AcpHttpTransport({ port: 0, ...options }, silentLogger).start(agent);
  hooks.after(() => listening.stop(AbortSignal.abort()));
  return Object.assign(listening, { url: listening.address });
}

export interface HttpAnswer {
  status: number;
  headers: IncomingMessage["headers"];
  text: string;
  json: Json;
}

/** Sends one plain request with exactly these headers. */
export async function http(
  url: string,
  method: string,
  headers: Record<string, string> = {},
  body?: string | Buffer,
  localAddress?: string,
): Promise<HttpAnswer> {
  const request = httpRequest(url, { method, headers, agent: false, localAddress });
  request.end(body);
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString();
  let json: Json;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  return { status: response.statusCode ?? 0, headers: response.headers, text, json };
}

const JSON_HEADERS = { "content-type": "application/json" };

/** An SSE stream, parsed while it arrives. */
export class Sse {
  readonly response: IncomingMessage;
  readonly messages: Json[] = [];
  comments = 0;
  readonly ended: Promise<void>;
  #rest = "";

  constructor(response: IncomingMessage, take: (message: Json) => void) {
    this.response = response;
    response.setEncoding("utf8");
    response.on("error", () => undefined);
    response.on("data", (text: string) => {
      const blocks = (this.#rest + text).split("\n\n");
      this.#rest = blocks.pop() ?? "";
      for (const block of blocks) {
        if (block.startsWith(":")) this.comments += 1;
        if (!block.startsWith("data: ")) continue;
        const message = JSON.parse(block.slice(6)) as Json;
        this.messages.push(message);
        take(message);
      }
    });
    this.ended = new Promise((resolve) => response.on("close", resolve));
  }

  close(): void {
    this.response.destroy();
  }
}

/** An ACP client over HTTP: it POSTs each message, and opens streams on request. */
export class HttpPeer extends AcpPeer {
  readonly url: string;
  id = "";
  /** Sent with every request. */
  headers: Record<string, string> = {};
  readonly posts: Promise<HttpAnswer>[] = [];

  constructor(url: string, profile: Profile = "spec") {
    super((text) => void this.posts.push(this.post(text)), profile);
    this.url = url;
  }

  /** Step 1 of the protocol: initializes; the response is in the body. */
  async open(params: Json = {}): Promise<HttpAnswer> {
    const message = { jsonrpc: "2.0", id: 0, method: "initialize", params: { protocolVersion: 1, ...params } };
    const answer = await http(this.url, "POST", { ...JSON_HEADERS, ...this.headers }, JSON.stringify(message));
    this.id = String(answer.headers["acp-connection-id"] ?? "");
    return answer;
  }

  post(text: string, headers: Record<string, string> = {}): Promise<HttpAnswer> {
    return http(this.url, "POST", { ...JSON_HEADERS, "acp-connection-id": this.id, ...this.headers, ...headers }, text);
  }

  /** Step 2: opens a stream. Resolves when the response headers have arrived. */
  async stream(sessionId?: string): Promise<Sse> {
    const headers = {
      accept: "text/event-stream",
      "acp-connection-id": this.id,
      ...this.headers,
      ...(sessionId === undefined ? {} : { "acp-session-id": sessionId }),
    };
    const request = httpRequest(this.url, { headers, agent: false });
    request.on("error", () => undefined);
    request.end();
    const [response] = (await once(request, "response")) as [IncomingMessage];
    if (response.statusCode !== 200) throw new Error(`GET answered ${response.statusCode}`);
    return new Sse(response, (message) => this.take(message));
  }

  /** Step 4: closes the connection. */
  remove(): Promise<HttpAnswer> {
    return http(this.url, "DELETE", { "acp-connection-id": this.id, ...this.headers });
  }
}

/** An ACP client over a WebSocket. */
export class SocketPeer extends AcpPeer {
  readonly socket: WebSocket;
  /** Connection id from the headers of the 101 response. */
  id = "";
  readonly closed: Promise<number>;

  constructor(url: string, options: { profile?: Profile; headers?: Record<string, string> } = {}) {
    super((text) => this.socket.send(text), options.profile);
    this.socket = new WebSocket(url.replace(/^http/, "ws"), {
      headers: options.headers,
      maxPayload: 128 * 1024 * 1024,
    });
    this.socket.on("upgrade", (response) => (this.id = String(response.headers["acp-connection-id"] ?? "")));
    this.socket.on("message", (data: Buffer) => this.take(JSON.parse(data.toString("utf8"))));
    this.closed = new Promise((resolve) => this.socket.on("close", (code) => resolve(code)));
    this.socket.on("error", () => undefined);
  }

  /** Resolves when the socket is open; rejects with the status if the server refuses it. */
  opened(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.socket.once("open", resolve);
      this.socket.once("unexpected-response", (_request, response) => reject(new Error(String(response.statusCode))));
      this.socket.once("error", reject);
    });
  }
}
