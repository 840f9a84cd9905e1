import type { FetchLike } from "@modelcontextprotocol/client";
import { MAX_MESSAGE_BYTES, WorkThrottle } from "./lines.js";

/** Maximum bytes read of an error response. */
const MAX_ERROR_BYTES = 64 * 1024;
const SMALL_PIECE_BYTES = 1024;
const CONNECT_TIMEOUT_MS = 30_000;
const LOOPBACK_HOST_PATTERN = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;

type Undici = typeof import("undici").default;
type Init = NonNullable<Parameters<FetchLike>[1]>;

/**
 * HTTP client for MCP servers that limits the size of response bodies.
 *
 * The client uses the proxies of HTTPS_PROXY, HTTP_PROXY and NO_PROXY, except for loopback addresses. The client has no
 * response timeout: callers pass a signal.
 */
export class BoundedHttpClient {
  #dispatchers: Promise<{ undici: Undici; direct: Dispatcher; proxied: Dispatcher }> | undefined;
  #isClosed = false;

  /**
   * Like `fetch`. `onEnd` is called once when the response body has ended, failed or been cancelled. `isResumable` is
   * true if the stream had an event id to resume from.
   */
  async fetch(url: string | URL, init: Init, onEnd: (isResumable: boolean) => void): Promise<Response> {
    if (this.#isClosed) throw new Error("the connection is closed");
    const { undici, direct, proxied } = await (this.#dispatchers ??= openDispatchers());
    const { hostname } = new URL(url);
    const dispatcher = LOOPBACK_HOST_PATTERN.test(hostname) ? direct : proxied;
    // Undici does not accept the platform's `Headers` objects.
    const headers = Object.fromEntries(new Headers(init.headers as Record<string, string>));
    const { method = "GET", body, signal, redirect } = init;
    const requestOptions = {
      method,
      headers,
      dispatcher,
      ...(typeof body === "string" && { body }),
      ...(signal && { signal }),
      ...(redirect && { redirect }),
    };
    const rawResponse = await undici.fetch(url, requestOptions).catch((error: unknown) => {
      onEnd(false);
      throw error;
    });
    const isEventStream = /^text\/event-stream\b/i.test(rawResponse.headers.get("content-type") ?? "");
    const rawBody = rawResponse.body as AsyncIterable<Uint8Array> | null;
    const limitedBody =
      rawBody === null
        ? undefined
        : limitBody(rawBody, !rawResponse.ok ? "error" : isEventStream ? "events" : "other", onEnd);
    if (!limitedBody) onEnd(false);
    const { status, statusText } = rawResponse;
    const responseHeaders = new Headers([...rawResponse.headers]);
    for (const name of ["content-encoding", "content-length"]) responseHeaders.delete(name);
    const response = new Response(limitedBody ? toStream(limitedBody) : null, {
      status,
      statusText,
      headers: responseHeaders,
    });
    // Callers need the final URL after redirects. The `Response` constructor cannot set it.
    Object.defineProperty(response, "url", { value: rawResponse.url });
    return response;
  }

  /** Aborts active requests and rejects new requests. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const dispatchers = await this.#dispatchers?.catch(() => undefined);
    await Promise.allSettled([dispatchers?.direct.destroy(), dispatchers?.proxied.destroy()]);
  }
}

type Dispatcher = import("undici").Dispatcher;

async function openDispatchers() {
  // Use the default export: a bundler cannot see the named exports of a CommonJS package.
  const { default: undici } = await import("undici");
  const options = { headersTimeout: 0, bodyTimeout: 0, connect: { timeout: CONNECT_TIMEOUT_MS } };
  return { undici, direct: new undici.Agent(options), proxied: new undici.EnvHttpProxyAgent(options) };
}

/**
 * Limits a response body. An error is truncated after `MAX_ERROR_BYTES`. A single event, or any other body as a whole,
 * may have `MAX_MESSAGE_BYTES` at most.
 */
async function* limitBody(
  body: AsyncIterable<Uint8Array>,
  kind: "error" | "events" | "other",
  onEnd: (isResumable: boolean) => void,
): AsyncGenerator<Uint8Array> {
  const throttle = new WorkThrottle();
  let messageBytes = 0;
  let isResumable = false;
  try {
    for await (const piece of body) {
      await throttle.yieldIfNeeded();
      const boundaryOffset = kind === "events" ? findLastBlankLine(piece) : -1;
      // Counts from the last blank line in the chunk. A blank line that is split between two chunks is missed, but the
      // next blank line restarts the count.
      messageBytes = boundaryOffset === -1 ? messageBytes + piece.length : piece.length - boundaryOffset;
      if (kind === "events") isResumable ||= /(^|[\r\n])id:/.test(Buffer.from(piece).toString("latin1"));
      if (kind === "error" && messageBytes >= MAX_ERROR_BYTES) {
        yield piece.subarray(0, piece.length - (messageBytes - MAX_ERROR_BYTES));
        return;
      }
      if (messageBytes > MAX_MESSAGE_BYTES)
        throw new Error(`the server sent a message larger than ${MAX_MESSAGE_BYTES / 1024 / 1024} MB`);
      yield piece;
      // A small piece means that the server sends with pauses.
      if (piece.length < SMALL_PIECE_BYTES) throttle.markIdle();
    }
  } finally {
    onEnd(isResumable);
  }
}

/** Offset of the last event boundary in a chunk, or -1. */
function findLastBlankLine(piece: Uint8Array): number {
  const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
  return Math.max(bytes.lastIndexOf("\n\n"), bytes.lastIndexOf("\r\n\r\n"), bytes.lastIndexOf("\r\r"));
}

function toStream(pieces: AsyncGenerator<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = (await pieces.next()) as IteratorResult<Uint8Array, undefined>;
          if (done === true) controller.close();
          else controller.enqueue(value);
        } catch (error) {
          controller.error(error);
        }
      },
      cancel: async () => {
        await pieces.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}
