import {
  SdkHttpError,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type FetchLike,
  type JSONRPCMessage,
  type Transport,
} from "@modelcontextprotocol/client";
import type { McpServerHttp } from "gantry/plugin";
import { BoundedHttpClient } from "./http-bodies.js";
import { limitDepth } from "./depth.js";

/** Timeout of the request that terminates the session at the server. */
const CLOSE_TIMEOUT_MS = 1_000;
/** Delay before an ended response counts as incomplete. Its last message can still be in the parser. */
const PARSE_GRACE_MS = 100;
/** Reconnection of an interrupted stream. Delays are in ms. */
const RECONNECTION_OPTIONS = {
  initialReconnectionDelay: 500,
  maxReconnectionDelay: 5_000,
  reconnectionDelayGrowFactor: 2,
  maxRetries: 3,
};

/** Maximum retry delay that a server can request. */
const MAX_RETRY_DELAY_MS = 60_000;

/** End reason when a reachable server no longer knows the session. */
export const SESSION_LOST = "the server lost the session";

interface PendingRequest {
  readonly cancel: AbortController;
}

/** Streamable HTTP or the older HTTP with SSE. It wraps the SDK's transport and adds size and time limits. */
export class HttpTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #bodies = new BoundedHttpClient();
  readonly #pending = new Map<string | number, PendingRequest>();
  readonly #inner: StreamableHTTPClientTransport | SSEClientTransport;
  readonly #isWanted: (message: Readonly<Record<string, unknown>>) => boolean;
  readonly #activeRequests = new Set<AbortController>();
  #delivery: Promise<void> = Promise.resolve();
  #streams = 0;
  #closed = false;
  #over = false;
  #why = "";

  constructor(
    { url, headers }: McpServerHttp,
    type: "http" | "sse",
    isWanted: (message: Readonly<Record<string, unknown>>) => boolean,
  ) {
    this.#isWanted = isWanted;
    const options = { fetch: this.#fetch, requestInit: { headers: { ...headers } } };
    this.#inner =
      type === "sse"
        ? new SSEClientTransport(new URL(url), options)
        : new StreamableHTTPClientTransport(new URL(url), { ...options, reconnectionOptions: RECONNECTION_OPTIONS });
    if (type === "http") boundRetries(this.#inner);
    this.#inner.onmessage = (message) => this.#receive(message);
    this.#inner.onerror = (error) => this.#handleError(error);
    // The SDK's transport reports its end only when it is closed, and only this class closes it.
    this.#inner.onclose = () => undefined;
  }

  get sessionId(): string | undefined {
    // The SDK skips `initialize` if a session id is set. A new connection has no session yet.
    return undefined;
  }

  /** End reason. `""` while the connection is open, or if it was closed locally. */
  get why(): string {
    return this.#why;
  }

  async start(): Promise<void> {
    await this.#inner.start();
  }

  setProtocolVersion(version: string): void {
    this.#inner.setProtocolVersion(version);
  }

  async send(message: JSONRPCMessage): Promise<void> {
    try {
      await this.#inner.send(message);
    } catch (error) {
      // The server no longer knows the session, so it has not processed the request. Some servers answer 400, which
      // they also use for invalid requests.
      const isGone =
        error instanceof SdkHttpError &&
        (error.status === 404 || (error.status === 400 && /session/i.test(error.message)));
      if (isGone && "method" in message && message.method !== "initialize") this.#finish(SESSION_LOST);
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#finish("");
    if (this.#inner instanceof StreamableHTTPClientTransport) {
      const late = new Promise((resolve) => setTimeout(resolve, CLOSE_TIMEOUT_MS).unref());
      await Promise.race([this.#inner.terminateSession().catch(() => undefined), late]);
    }
    this.#closed = true;
    for (const cancel of this.#activeRequests) cancel.abort();
    await this.#inner.close().catch(() => undefined);
    await this.#bodies.close();
  }

  readonly #fetch: FetchLike = async (url, init = {}) => {
    const { method = "GET", body } = init;
    const requestMessage =
      method === "POST" && typeof body === "string" ? (JSON.parse(body) as Record<string, unknown>) : {};
    const id =
      requestMessage["method"] === undefined ? undefined : (requestMessage["id"] as string | number | undefined);
    // The SDK shares one signal, on which many requests would add listeners. Use one controller for each request.
    const cancel = new AbortController();
    if (this.#closed) cancel.abort();
    this.#activeRequests.add(cancel);
    const isStream = method === "GET";
    // A second SSE stream would belong to a session that was never initialized.
    if (isStream && this.#inner instanceof SSEClientTransport && this.#streams++ > 0) {
      this.#finish("the event stream ended");
      return new Response(null, { status: 204 });
    }
    if (id !== undefined) this.#pending.set(id, { cancel });
    const over = (resumable: boolean): void => {
      this.#activeRequests.delete(cancel);
      if (id !== undefined && !resumable && !(this.#inner instanceof SSEClientTransport)) this.#failIfUnanswered(id);
    };
    try {
      const answer = await this.#bodies.fetch(url, { ...init, signal: cancel.signal }, over);
      if (requestMessage["method"] === "notifications/cancelled") this.#dropRequest(requestMessage["params"]);
      return answer;
    } catch (error) {
      this.#activeRequests.delete(cancel);
      if (id !== undefined) this.#pending.delete(id);
      throw error;
    }
  };

  /** Aborts the request whose response is no longer needed. */
  #dropRequest(params: unknown): void {
    const { requestId } = (params ?? {}) as { requestId?: string | number };
    if (requestId === undefined) return;
    this.#pending.get(requestId)?.cancel.abort();
    this.#pending.delete(requestId);
  }

  /** The response body ended. Fails the request if its response has not arrived. */
  #failIfUnanswered(id: string | number): void {
    setTimeout(() => {
      if (!this.#pending.delete(id)) return;
      this.onmessage?.({ jsonrpc: "2.0", id, error: { code: -32_000, message: "the response was incomplete" } });
    }, PARSE_GRACE_MS).unref();
  }

  #receive(rawMessage: JSONRPCMessage): void {
    const message = limitDepth(rawMessage);
    if (!message) return;
    if ("id" in message && !("method" in message) && message.id !== undefined) this.#pending.delete(message.id);
    // Deliver in order: notifications before a response are handled asynchronously and must not be overtaken.
    if (this.#isWanted(message)) this.#delivery = this.#delivery.then(() => this.onmessage?.(message));
  }

  #handleError(error: Error): void {
    this.onerror?.(error);
    // The stream did not reconnect, so the rest of a response cannot arrive.
    if (error.message.startsWith("Maximum reconnection attempts")) this.#finish("the event stream was interrupted");
  }

  #finish(why: string): void {
    if (this.#over) return;
    this.#over = true;
    this.#why = why;
    this.#pending.clear();
    this.onclose?.();
  }
}

/** Limits the retry delay that a server requests to the range of 500 ms to 60 s. */
function boundRetries(inner: object): void {
  let retryMs: number | undefined;
  Object.defineProperty(inner, "_serverRetryMs", {
    get: () => retryMs,
    set: (ms: number | undefined) => {
      retryMs =
        ms === undefined
          ? ms
          : Math.min(Math.max(ms, RECONNECTION_OPTIONS.initialReconnectionDelay), MAX_RETRY_DELAY_MS);
    },
  });
}
