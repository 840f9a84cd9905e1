import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { WebSocket } from "ws";
import { silentLogger, type Agent } from "gantry";
import type { Listening } from "gantry/plugin";
import { AcpHttpTransport, type AcpHttpOptions } from "../../adapters/acp-http-sse-ws/index.js";
import type { Profile } from "../../adapters/acp-shared/index.js";
import { AcpPeer, type Json } from "./acp-peer.js";
import type { Hooks } from "./temp-dir.js";

/** Serves an agent on its own port; stopped after the test. */
export async function startAcpHttp(
  hooks: Hooks,
  agent: Agent,
  options: Partial<AcpHttpOptions> = {},
): Promise<Listening & { url: string }> {
  const listening = await new AcpHttpTransport({ port: 0, ...options }, silentLogger).start(agent);
  hooks.after(() => listening.stop(AbortSignal.abort()));
  return Object.assign(listening, { url: listening.address });
}

export interface AcpHttpResponse {
  status: number;
  headers: IncomingMessage["headers"];
  text: string;
  /** The parsed body; undefined if the body is not JSON. */
  json: Json;
}

/** Sends one plain request with exactly these headers. */
export async function sendHttp(
  url: string,
  method: string,
  headers: Record<string, string> = {},
  body?: string | Buffer,
  localAddress?: string,
): Promise<AcpHttpResponse> {
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
export class SseStream {
  readonly response: IncomingMessage;
  readonly messages: Json[] = [];
  commentCount = 0;
  /** Resolves when the connection of the stream has closed. */
  readonly ended: Promise<void>;
  #incompleteText = "";

  constructor(response: IncomingMessage, onMessage: (message: Json) => void) {
    this.response = response;
    response.setEncoding("utf8");
    response.on("error", () => undefined);
    response.on("data", (text: string) => {
      const blocks = (this.#incompleteText + text).split("\n\n");
      this.#incompleteText = blocks.pop() ?? "";
      for (const block of blocks) {
        if (block.startsWith(":")) this.commentCount += 1;
        if (!block.startsWith("data: ")) continue;
        const message = JSON.parse(block.slice("data: ".length)) as Json;
        this.messages.push(message);
        onMessage(message);
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
  connectionId = "";
  /** Additional headers of every request. */
  headers: Record<string, string> = {};
  readonly postResponses: Promise<AcpHttpResponse>[] = [];

  constructor(url: string, profile: Profile = "spec") {
    super((text) => void this.postResponses.push(this.post(text)), profile);
    this.url = url;
  }

  /** Step 1 of the protocol: initializes; the response is in the body. */
  async open(params: Json = {}): Promise<AcpHttpResponse> {
    const message = { jsonrpc: "2.0", id: 0, method: "initialize", params: { protocolVersion: 1, ...params } };
    const response = await sendHttp(this.url, "POST", { ...JSON_HEADERS, ...this.headers }, JSON.stringify(message));
    this.connectionId = String(response.headers["acp-connection-id"] ?? "");
    return response;
  }

  post(text: string, headers: Record<string, string> = {}): Promise<AcpHttpResponse> {
    return sendHttp(
      this.url,
      "POST",
      { ...JSON_HEADERS, "acp-connection-id": this.connectionId, ...this.headers, ...headers },
      text,
    );
  }

  /** Step 2: opens a stream. Resolves when the response headers have arrived. */
  async openStream(sessionId?: string): Promise<SseStream> {
    const headers = {
      accept: "text/event-stream",
      "acp-connection-id": this.connectionId,
      ...this.headers,
      ...(sessionId === undefined ? {} : { "acp-session-id": sessionId }),
    };
    const request = httpRequest(this.url, { headers, agent: false });
    request.on("error", () => undefined);
    request.end();
    const [response] = (await once(request, "response")) as [IncomingMessage];
    if (response.statusCode !== 200) throw new Error(`GET answered ${response.statusCode}`);
    return new SseStream(response, (message) => this.receiveMessage(message));
  }

  /** Step 4: closes the connection. */
  closeConnection(): Promise<AcpHttpResponse> {
    return sendHttp(this.url, "DELETE", { "acp-connection-id": this.connectionId, ...this.headers });
  }
}

/** An ACP client over a WebSocket. */
export class SocketPeer extends AcpPeer {
  readonly socket: WebSocket;
  /** Connection id from the headers of the 101 response. */
  connectionId = "";
  /** Resolves with the close code. */
  readonly closed: Promise<number>;

  constructor(url: string, options: { profile?: Profile; headers?: Record<string, string> } = {}) {
    super((text) => this.socket.send(text), options.profile);
    this.socket = new WebSocket(url.replace(/^http/, "ws"), {
      headers: options.headers,
      maxPayload: 128 * 1024 * 1024,
    });
    this.socket.on("upgrade", (response) => (this.connectionId = String(response.headers["acp-connection-id"] ?? "")));
    this.socket.on("message", (data: Buffer) => this.receiveMessage(JSON.parse(data.toString("utf8"))));
    this.closed = new Promise((resolve) => this.socket.on("close", (code) => resolve(code)));
    this.socket.on("error", () => undefined);
  }

  /** Resolves when the socket is open; rejects with the status if the server refuses the connection. */
  waitUntilOpen(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.socket.once("open", resolve);
      this.socket.once("unexpected-response", (_request, response) => reject(new Error(String(response.statusCode))));
      this.socket.once("error", reject);
    });
  }
}
