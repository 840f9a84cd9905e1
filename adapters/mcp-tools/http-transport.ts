import {
  SdkHttpError,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type FetchLike,
  type JSONRPCMessage,
  type Transport,
} from "@modelcontextprotocol/client";
import type { ToolAddress } from "gantry/plugin";
import { HttpBodies } from "./http-bodies.js";
import { withinDepth } from "./depth.js";

/** For a server to be told that its session is over, in ms. */
const GOODBYE_MS = 1_000;
/** An answer that has ended may still be on its way through the parser, in ms. */
const PARSE_MS = 100;
/** How often a stream that broke off is asked for again, and when first, in ms. */
const AGAIN = {
  initialReconnectionDelay: 500,
  maxReconnectionDelay: 5_000,
  reconnectionDelayGrowFactor: 2,
  maxRetries: 3,
};

/** As late as a server may say that it wants to be asked again, in ms. */
const LONGEST_RETRY_MS = 60_000;

/** Why it is over where the server is there, and knows the session no more. */
export const FORGOTTEN = "its session is over";

interface Waiting {
  readonly cancel: AbortController;
}

/** Streamable HTTP, or HTTP with SSE as it was before: the SDK's, over connections of our own with limits. */
export class HttpTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #bodies = new HttpBodies();
  readonly #waiting = new Map<string | number, Waiting>();
  readonly #inner: StreamableHTTPClientTransport | SSEClientTransport;
  readonly #wanted: (message: Readonly<Record<string, unknown>>) => boolean;
  readonly #underWay = new Set<AbortController>();
  #order: Promise<void> = Promise.resolve();
  #streams = 0;
  #closed = false;
  #over = false;
  #why = "";

  constructor(
    { url, headers }: ToolAddress,
    type: "http" | "sse",
    wanted: (message: Readonly<Record<string, unknown>>) => boolean,
  ) {
    this.#wanted = wanted;
    const options = { fetch: this.#fetch, requestInit: { headers: { ...headers } } };
    this.#inner =
      type === "sse"
        ? new SSEClientTransport(new URL(url), options)
        : new StreamableHTTPClientTransport(new URL(url), { ...options, reconnectionOptions: AGAIN });
    if (type === "http") boundRetries(this.#inner);
    this.#inner.onmessage = (message) => this.#take(message);
    this.#inner.onerror = (error) => this.#fault(error);
    // What is the SDK's to tell of the end it tells when it is closed, which is done here alone.
    this.#inner.onclose = () => undefined;
  }

  get sessionId(): string | undefined {
    // A session means "no initialize": of a new connection there is none.
    return undefined;
  }

  /** Why it is over; `""` while it is not, and where it was closed from here. */
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
      // It knows the session no more: nothing of what was asked was done. Some say 400, as they do to what is wrong in itself.
      const isGone =
        error instanceof SdkHttpError &&
        (error.status === 404 || (error.status === 400 && /session/i.test(error.message)));
      if (isGone && "method" in message && message.method !== "initialize") this.#finish(FORGOTTEN);
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#finish("");
    if (this.#inner instanceof StreamableHTTPClientTransport) {
      const late = new Promise((resolve) => setTimeout(resolve, GOODBYE_MS).unref());
      await Promise.race([this.#inner.terminateSession().catch(() => undefined), late]);
    }
    this.#closed = true;
    for (const cancel of this.#underWay) cancel.abort();
    await this.#inner.close().catch(() => undefined);
    await this.#bodies.close();
  }

  readonly #fetch: FetchLike = async (url, init = {}) => {
    const { method = "GET", body } = init;
    const said = method === "POST" && typeof body === "string" ? (JSON.parse(body) as Record<string, unknown>) : {};
    const id = said["method"] === undefined ? undefined : (said["id"] as string | number | undefined);
    // In place of the SDK's one signal, to which each of many questions would listen.
    const cancel = new AbortController();
    if (this.#closed) cancel.abort();
    this.#underWay.add(cancel);
    const isStream = method === "GET";
    // The second one of the old way would be of a session that nobody began.
    if (isStream && this.#inner instanceof SSEClientTransport && this.#streams++ > 0) {
      this.#finish("its stream has ended");
      return new Response(null, { status: 204 });
    }
    if (id !== undefined) this.#waiting.set(id, { cancel });
    const over = (resumable: boolean): void => {
      this.#underWay.delete(cancel);
      if (id !== undefined && !resumable && !(this.#inner instanceof SSEClientTransport)) this.#brokeOff(id);
    };
    try {
      const answer = await this.#bodies.ask(url, { ...init, signal: cancel.signal }, over);
      if (said["method"] === "notifications/cancelled") this.#forget(said["params"]);
      return answer;
    } catch (error) {
      this.#underWay.delete(cancel);
      if (id !== undefined) this.#waiting.delete(id);
      throw error;
    }
  };

  /** Nobody waits for that answer any more. */
  #forget(params: unknown): void {
    const { requestId } = (params ?? {}) as { requestId?: string | number };
    if (requestId === undefined) return;
    this.#waiting.get(requestId)?.cancel.abort();
    this.#waiting.delete(requestId);
  }

  /** An answer ended without what was asked for. */
  #brokeOff(id: string | number): void {
    setTimeout(() => {
      if (!this.#waiting.delete(id)) return;
      this.onmessage?.({ jsonrpc: "2.0", id, error: { code: -32_000, message: "its answer broke off" } });
    }, PARSE_MS).unref();
  }

  #take(given: JSONRPCMessage): void {
    const message = withinDepth(given);
    if (!message) return;
    if ("id" in message && !("method" in message) && message.id !== undefined) this.#waiting.delete(message.id);
    // What was said before an answer is heard before it, though it is heard a moment later.
    if (this.#wanted(message)) this.#order = this.#order.then(() => this.onmessage?.(message));
  }

  #fault(error: Error): void {
    this.onerror?.(error);
    // It did not come back: whoever waits for the rest of an answer waits in vain.
    if (error.message.startsWith("Maximum reconnection attempts")) this.#finish("its stream broke off");
  }

  #finish(why: string): void {
    if (this.#over) return;
    this.#over = true;
    this.#why = why;
    this.#waiting.clear();
    this.onclose?.();
  }
}

/** A server says when it wants to be asked again: at once, in a thousand years. */
function boundRetries(inner: object): void {
  let wanted: number | undefined;
  Object.defineProperty(inner, "_serverRetryMs", {
    get: () => wanted,
    set: (ms: number | undefined) => {
      wanted = ms === undefined ? ms : Math.min(Math.max(ms, AGAIN.initialReconnectionDelay), LONGEST_RETRY_MS);
    },
  });
}
