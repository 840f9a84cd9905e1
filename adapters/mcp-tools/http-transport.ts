import {
  SdkHttpError,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type AuthProvider,
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

/** JSON-RPC code of a server error. */
const SERVER_ERROR_CODE = -32_000;

/** End reason when a reachable server no longer knows the session. */
export const SESSION_LOST_REASON = "the server lost the session";

/** The `Authorization` header of the request to a response. */
const sentAuthorizations = new WeakMap<Response, string>();

/** Returns the `Authorization` header that was sent for this response; undefined if none was sent. */
export function getSentAuthorization(response: Response): string | undefined {
  return sentAuthorizations.get(response);
}

interface PendingRequest {
  readonly controller: AbortController;
}

/** Streamable HTTP or the older HTTP with SSE. Wraps the SDK's transport and adds size and time limits. */
export class HttpTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #httpClient = new BoundedHttpClient();
  /** Requests without a response, by JSON-RPC id. */
  readonly #pendingRequests = new Map<string | number, PendingRequest>();
  readonly #sdkTransport: StreamableHTTPClientTransport | SSEClientTransport;
  /** Whether the client handles a message; other messages are dropped. */
  readonly #shouldDeliver: (message: Readonly<Record<string, unknown>>) => boolean;
  /** Controllers of the active HTTP requests, including requests with an open response body. */
  readonly #activeControllers = new Set<AbortController>();
  #delivery: Promise<void> = Promise.resolve();
  #streamCount = 0;
  /** Whether `close` aborts all requests, including new requests. */
  #isClosed = false;
  /** Whether `onclose` was called: after `close`, or after the server ended the connection. */
  #hasReportedEnd = false;
  #endReason = "";

  constructor(
    { url, headers }: McpServerHttp,
    type: "http" | "sse",
    shouldDeliver: (message: Readonly<Record<string, unknown>>) => boolean,
    authProvider?: AuthProvider,
  ) {
    this.#shouldDeliver = shouldDeliver;
    const options = {
      fetch: this.#fetch,
      requestInit: { headers: { ...headers } },
      ...(authProvider && { authProvider }),
    };
    this.#sdkTransport =
      type === "sse"
        ? new SSEClientTransport(new URL(url), options)
        : new StreamableHTTPClientTransport(new URL(url), { ...options, reconnectionOptions: RECONNECTION_OPTIONS });
    if (type === "http") limitRetryDelay(this.#sdkTransport);
    this.#sdkTransport.onmessage = (message) => this.#receive(message);
    this.#sdkTransport.onerror = (error) => this.#handleError(error);
    // The SDK's transport reports its end only when it is closed, and only this class closes it.
    this.#sdkTransport.onclose = () => undefined;
  }

  get sessionId(): string | undefined {
    // The SDK skips `initialize` if a session id is set. A new connection has no session yet.
    return undefined;
  }

  /** End reason. `""` while the connection is open, or if it was closed locally. */
  get endReason(): string {
    return this.#endReason;
  }

  async start(): Promise<void> {
    await this.#sdkTransport.start();
  }

  setProtocolVersion(version: string): void {
    this.#sdkTransport.setProtocolVersion(version);
  }

  async send(message: JSONRPCMessage): Promise<void> {
    try {
      await this.#sdkTransport.send(message);
    } catch (error) {
      // The server no longer knows the session, so it has not processed the request. Some servers answer 400, which
      // these servers also use for invalid requests.
      const isSessionLost =
        error instanceof SdkHttpError &&
        (error.status === 404 || (error.status === 400 && /session/i.test(error.message)));
      if (isSessionLost && "method" in message && message.method !== "initialize") this.#finish(SESSION_LOST_REASON);
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#finish("");
    if (this.#sdkTransport instanceof StreamableHTTPClientTransport) {
      const timeout = new Promise((resolve) => setTimeout(resolve, CLOSE_TIMEOUT_MS).unref());
      await Promise.race([this.#sdkTransport.terminateSession().catch(() => undefined), timeout]);
    }
    this.#isClosed = true;
    for (const controller of this.#activeControllers) controller.abort();
    await this.#sdkTransport.close().catch(() => undefined);
    await this.#httpClient.close();
  }

  readonly #fetch: FetchLike = async (url, init = {}) => {
    const { method = "GET", body } = init;
    const requestMessage =
      method === "POST" && typeof body === "string" ? (JSON.parse(body) as Record<string, unknown>) : {};
    const id =
      requestMessage["method"] === undefined ? undefined : (requestMessage["id"] as string | number | undefined);
    // The SDK shares one signal, on which many requests would add listeners. Use one controller for each request.
    const controller = new AbortController();
    if (this.#isClosed) controller.abort();
    this.#activeControllers.add(controller);
    const isStream = method === "GET";
    // A second SSE stream would belong to a session that was never initialized.
    if (isStream && this.#sdkTransport instanceof SSEClientTransport && this.#streamCount++ > 0) {
      this.#finish("the event stream ended");
      return new Response(null, { status: 204 });
    }
    if (id !== undefined) this.#pendingRequests.set(id, { controller });
    const onBodyEnd = (isResumable: boolean): void => {
      this.#activeControllers.delete(controller);
      if (id !== undefined && !isResumable && !(this.#sdkTransport instanceof SSEClientTransport))
        this.#failIfUnanswered(id, controller);
    };
    try {
      const response = await this.#httpClient.fetch(url, { ...init, signal: controller.signal }, onBodyEnd);
      // The SDK logs in and repeats the request, or reports the error.
      if (response.status === 401 && id !== undefined) this.#pendingRequests.delete(id);
      const authorization = new Headers(init.headers).get("authorization");
      if (authorization !== null) sentAuthorizations.set(response, authorization);
      if (requestMessage["method"] === "notifications/cancelled") this.#dropRequest(requestMessage["params"]);
      return response;
    } catch (error) {
      this.#activeControllers.delete(controller);
      if (id !== undefined) this.#pendingRequests.delete(id);
      throw error;
    }
  };

  /** Aborts the request whose response is no longer needed. */
  #dropRequest(params: unknown): void {
    const { requestId } = (params ?? {}) as { requestId?: string | number };
    if (requestId === undefined) return;
    this.#pendingRequests.get(requestId)?.controller.abort();
    this.#pendingRequests.delete(requestId);
  }

  /** Called when a response body has ended. Fails the request if its response has not arrived. */
  #failIfUnanswered(id: string | number, controller: AbortController): void {
    setTimeout(() => {
      if (this.#pendingRequests.get(id)?.controller !== controller) return;
      this.#pendingRequests.delete(id);
      this.onmessage?.({
        jsonrpc: "2.0",
        id,
        error: { code: SERVER_ERROR_CODE, message: "the response was incomplete" },
      });
    }, PARSE_GRACE_MS).unref();
  }

  #receive(rawMessage: JSONRPCMessage): void {
    const message = limitDepth(rawMessage);
    if (!message) return;
    if ("id" in message && !("method" in message) && message.id !== undefined) this.#pendingRequests.delete(message.id);
    // Deliver in order: notifications before a response are handled asynchronously and must not be overtaken.
    if (this.#shouldDeliver(message)) this.#delivery = this.#delivery.then(() => this.onmessage?.(message));
  }

  #handleError(error: Error): void {
    this.onerror?.(error);
    // The stream did not reconnect, so the rest of a response cannot arrive.
    if (error.message.startsWith("Maximum reconnection attempts")) this.#finish("the event stream was interrupted");
  }

  #finish(reason: string): void {
    if (this.#hasReportedEnd) return;
    this.#hasReportedEnd = true;
    this.#endReason = reason;
    this.#pendingRequests.clear();
    this.onclose?.();
  }
}

/**
 * Limits the retry delay that a server requests to 500 ms to 60 s. Replaces the private field of the SDK's transport.
 */
function limitRetryDelay(sdkTransport: object): void {
  let retryMs: number | undefined;
  Object.defineProperty(sdkTransport, "_serverRetryMs", {
    get: () => retryMs,
    set: (ms: number | undefined) => {
      retryMs =
        ms === undefined
          ? ms
          : Math.min(Math.max(ms, RECONNECTION_OPTIONS.initialReconnectionDelay), MAX_RETRY_DELAY_MS);
    },
  });
}
