import {
  createDisconnectedError,
  toApiError,
  ApiError,
  createInvalidAnswerError,
  createInvalidIdError,
} from "./errors.js";
import { EventParser } from "./event-parser.js";
import { readTokenHeaders } from "./person-token.js";

/** Address of the server, and how to connect to it. */
export interface ClientOptions {
  /**
   * Address of the server. Default: the page's own origin in a browser, otherwise `http://127.0.0.1:8080`.
   */
  url?: string | undefined;
  /** Headers that the server requires. A function is called for each request. Default: none. */
  headers?: Record<string, string> | (() => Record<string, string>) | undefined;
  /**
   * Returns headers that prove that a person sends the request, or undefined if there are none. Called after the server
   * rejected a request for lack of proof. Default: in Node, the token that a server of this machine wrote into gantry's
   * home.
   */
  personHeaders?:
    ((server: URL) => Record<string, string> | undefined | Promise<Record<string, string> | undefined>) | undefined;
  /** Function that sends the requests. Default: the platform's `fetch`. */
  fetch?: typeof globalThis.fetch | undefined;
  /**
   * Silence after which a stream counts as dead, in ms; above 0, default 40,000. The server sends at least a comment
   * every 15 s.
   */
  silenceMs?: number | undefined;
}

/** Options of every request. */
export interface CallOptions {
  /** Aborts the request, which then rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** Parts of an HTTP request. */
export interface RequestParts extends CallOptions {
  method?: string;
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  headers?: Record<string, string>;
}

/**
 * An event or comment of a stream, with parsed data. For a comment, `comment` is set and `data` is undefined. `id` is
 * undefined for an event without an id.
 */
export interface StreamedEvent {
  type: string;
  data: unknown;
  id: string | undefined;
  comment?: string;
}

/**
 * The path of a session, run or ask. Throws `NotFoundError` for ids that would change the address: URLs resolve `.` and
 * `..`, and an empty id addresses the list.
 */
export function createResourcePath(resource: "session" | "run" | "ask", id: string): string {
  // A lone surrogate cannot be encoded in a URL.
  if (/^\.{0,2}$/.test(id) || !/^\P{Surrogate}*$/u.test(id)) throw createInvalidIdError(resource, id);
  return `${resource}s/${encodeURIComponent(id)}`;
}

/** Codes of the errors for requests that only a person may send. */
const PERSON_ERROR_CODES: ReadonlySet<string> = new Set(["person_required", "namespace_refused", "unseen_refused"]);

/** Sends requests to one server. */
export class ServerConnection {
  readonly #options: ClientOptions;
  readonly silenceMs: number;
  /** Headers that prove that a person sends the request; undefined until the server has required them. */
  #personHeaders: Record<string, string> | undefined;

  /** Throws `TypeError` for invalid options. */
  constructor(options: ClientOptions) {
    const { url = "", silenceMs: requestedSilenceMs = 40_000 } = options;
    // Without a scheme the address would be resolved relative to the page.
    if (!/^($|\/|https?:\/\/[^/@]+(\/|$))/i.test(url))
      throw new TypeError("url: expected http:// or https:// and a host, without credentials, or an absolute path");
    if (!(requestedSilenceMs > 0)) throw new TypeError("silenceMs: expected milliseconds, above 0");
    this.#options = options;
    // Timers with a larger delay fire at once.
    this.silenceMs = Math.min(requestedSilenceMs, 2 ** 31 - 1);
  }

  /**
   * Sends a request and reads the JSON answer. Rejects with `ApiError` if the request fails, or if `isExpectedBody`
   * returns false. `isExpectedBody` checks for the fields that the caller reads, because an answer of a proxy or of
   * another program lacks these fields.
   */
  async requestJson<T extends object>(
    path: string,
    request: RequestParts = {},
    isExpectedBody: (body: T) => boolean = () => true,
  ): Promise<{ body: T; headers: Headers }> {
    const response = await this.sendRequest(path, request);
    const body = await readBody(response, request.signal);
    if (body === undefined) throw createInvalidAnswerError(response.status, "the answer is not JSON");
    if (typeof body !== "object" || !body || !isExpectedBody(body as T))
      throw createInvalidAnswerError(response.status, "the answer is not from a gantry server");
    return { body: body as T, headers: response.headers };
  }

  /** Sends a request and returns the list in the field `name` of the answer. */
  async requestList<T>(name: string, path: string, request: RequestParts): Promise<T[]> {
    const { body } = await this.requestJson<Record<string, T[]>>(path, request, (answer) =>
      Array.isArray(answer[name]),
    );
    return body[name]!;
  }

  /** Sends a request and resolves when the headers of the answer are received. */
  async sendRequest(path: string, request: RequestParts): Promise<Response> {
    try {
      return await this.#sendOnce(path, request);
    } catch (error) {
      if (!(error instanceof ApiError) || !PERSON_ERROR_CODES.has(error.code)) throw error;
      const { url = getPageOrigin(), personHeaders = readTokenHeaders } = this.#options;
      const headers = await personHeaders(new URL(url, getPageOrigin()));
      if (!headers) throw error;
      this.#personHeaders = headers;
      return this.#sendOnce(path, request);
    }
  }

  async #sendOnce(
    path: string,
    { method = "GET", query = {}, body, headers, signal }: RequestParts,
  ): Promise<Response> {
    const { url = getPageOrigin(), fetch = globalThis.fetch, headers: configuredHeaders } = this.#options;
    const address = new URL(`${url.replace(/\/$/, "")}/api/${path}`, getPageOrigin());
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) address.searchParams.set(name, String(value));
    const requestInit = {
      method,
      // Built outside of the `try`: an invalid header value must not be reported as a connection failure.
      headers: new Headers({
        ...(typeof configuredHeaders === "function" ? configuredHeaders() : configuredHeaders),
        ...this.#personHeaders,
        ...headers,
      }),
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    };
    if (body !== undefined) requestInit.headers.set("content-type", "application/json");
    let response: Response;
    try {
      response = await fetch(address.href, requestInit);
    } catch (error) {
      signal?.throwIfAborted();
      throw createDisconnectedError("the server cannot be reached", error);
    }
    if (response.ok) return response;
    throw toApiError(
      response.status,
      await readBody(response, signal),
      parseRetryAfter(response.headers.get("retry-after")),
    );
  }

  /**
   * The events and comments of a streamed answer. Ending the caller's `for await` loop closes the connection. Throws
   * `ApiError` if the connection breaks, or if it is silent for `silenceMs`.
   */
  async *readEvents(response: Response, signal?: AbortSignal): AsyncGenerator<StreamedEvent, void, undefined> {
    const reader = (response.body as ReadableStream<Uint8Array> | null)?.getReader();
    if (!reader) return;
    const decoder = new TextDecoder();
    const parser = new EventParser();
    try {
      for (;;) {
        // Only the read is timed: a slow consumer of events is not silence.
        const { done, value } = await withSilenceLimit(reader.read(), this.silenceMs);
        if (done) return;
        for (const event of parser.push(decoder.decode(value, { stream: true })))
          yield { ...event, data: event.comment === undefined ? parseEvent(event.data) : undefined };
      }
    } catch (error) {
      signal?.throwIfAborted();
      throw error instanceof ApiError ? error : createDisconnectedError("the connection broke", error);
    } finally {
      // If the stream is broken, `cancel` rejects with the error that was already thrown.
      reader.cancel().catch(() => undefined);
    }
  }
}

/** Whether all values are strings that are not empty. */
export function areIds(...ids: unknown[]): boolean {
  return ids.every((id) => typeof id === "string" && id !== "");
}

/** Returns a signal that aborts with `signal` or with `end()`. `end()` also removes the listener from `signal`. */
export function linkSignal(signal: AbortSignal | undefined): { signal: AbortSignal; end: () => void } {
  const controller = new AbortController();
  const abort = () => controller.abort(signal?.reason);
  signal?.addEventListener("abort", abort);
  if (signal?.aborted) abort();
  return {
    signal: controller.signal,
    end: () => {
      signal?.removeEventListener("abort", abort);
      controller.abort();
    },
  };
}

/** Settles like `work`, or rejects with `DisconnectedError` after `limitMs`. */
export async function withSilenceLimit<T>(work: Promise<T>, limitMs: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(createDisconnectedError("the server sent nothing for too long")), limitMs);
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/** The JSON body of an answer; undefined if the body is not JSON. */
async function readBody(response: Response, signal: AbortSignal | undefined): Promise<unknown> {
  let text: string;
  try {
    text = await response.text();
  } catch (error) {
    signal?.throwIfAborted();
    throw createDisconnectedError("the connection broke", error);
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Throws `ApiError` with the status 502 (bad gateway): only a proxy or another program sends other text. */
function parseEvent(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw createInvalidAnswerError(502, "an event is not JSON");
  }
}

/** Seconds from a `Retry-After` header, which is a number or a date. Undefined if the header is absent or invalid. */
function parseRetryAfter(header: string | null): number | undefined {
  if (header === null) return undefined;
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

function getPageOrigin(): string {
  return (globalThis as { location?: { origin: string } }).location?.origin ?? "http://127.0.0.1:8080";
}
