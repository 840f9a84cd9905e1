import { disconnected, toApiError, ApiError, invalidAnswer, invalidId } from "./errors.js";
import { EventParser } from "./event-parser.js";
import { tokenHeaders } from "./person-token.js";

/** Address of the server, and how to connect to it. */
export interface ClientOptions {
  /**
   * Address of the server, like `http://127.0.0.1:8080`; default: the page's own origin, or this address outside of a
   * browser.
   */
  url?: string | undefined;
  /** Headers that the server requires, for each request. A function is called for each request. Default: none. */
  headers?: Record<string, string> | (() => Record<string, string>) | undefined;
  /**
   * Returns headers that prove that a person sends the request, or undefined if there are none. Called after the server
   * rejected a request for lack of proof. Default: in Node, the token that a server of this machine wrote into gantry's
   * home.
   */
  personHeaders?:
    ((server: URL) => Record<string, string> | undefined | Promise<Record<string, string> | undefined>) | undefined;
  /** Replacement for the platform's `fetch`. */
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

/** An event or comment of a stream, with parsed data. */
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
export function pathOf(what: "session" | "run" | "ask", id: string): string {
  // A lone surrogate cannot be encoded in a URL.
  if (/^\.{0,2}$/.test(id) || !/^\P{Surrogate}*$/u.test(id)) throw invalidId(what, id);
  return `${what}s/${encodeURIComponent(id)}`;
}

/** Error codes of requests that require a person. */
const PERSON_CODES: ReadonlySet<string> = new Set(["person_required", "namespace_refused", "unseen_refused"]);

/** Sends requests to one server. */
export class ServerConnection {
  readonly #options: ClientOptions;
  /** Silence after which a stream counts as dead, in ms. */
  readonly silence: number;
  /** Undefined until the server has required them. */
  #personHeaders: Record<string, string> | undefined;

  /** Throws `TypeError` for invalid options. */
  constructor(options: ClientOptions) {
    const { url = "", silenceMs: silence = 40_000 } = options;
    // Without a scheme the address would be resolved relative to the page.
    if (!/^($|\/|https?:\/\/[^/@]+(\/|$))/i.test(url))
      throw new TypeError("url: expected http:// or https:// and a host, without a user");
    if (!(silence > 0)) throw new TypeError("silenceMs: expected milliseconds, above 0");
    this.#options = options;
    // Timers with a larger delay fire at once.
    this.silence = Math.min(silence, 2 ** 31 - 1);
  }

  /**
   * Sends a request and reads the JSON answer. `isWhole`: whether the body has the fields that are used; answers of
   * other servers lack them.
   */
  async json<T extends object>(
    path: string,
    call: RequestParts = {},
    isWhole: (body: T) => boolean = () => true,
  ): Promise<{ body: T; headers: Headers }> {
    const response = await this.open(path, call);
    const body = await readBody(response, call.signal);
    if (body === undefined) throw invalidAnswer(response.status, "the answer is not JSON");
    if (typeof body !== "object" || !body || !isWhole(body as T))
      throw invalidAnswer(response.status, "the answer is not from a gantry server");
    return { body: body as T, headers: response.headers };
  }

  /** Sends a request and returns the list with this name from the answer. */
  async list<T>(name: string, path: string, call: RequestParts): Promise<T[]> {
    const { body } = await this.json<Record<string, T[]>>(path, call, (all) => Array.isArray(all[name]));
    return body[name]!;
  }

  /** Sends a request and resolves when the headers of the answer are received. */
  async open(path: string, call: RequestParts): Promise<Response> {
    try {
      return await this.#send(path, call);
    } catch (error) {
      if (!(error instanceof ApiError) || !PERSON_CODES.has(error.code)) throw error;
      const { url = pageOrigin(), personHeaders = tokenHeaders } = this.#options;
      const headers = await personHeaders(new URL(url, pageOrigin()));
      if (!headers) throw error;
      this.#personHeaders = headers;
      return this.#send(path, call);
    }
  }

  async #send(path: string, { method = "GET", query = {}, body, headers, signal }: RequestParts): Promise<Response> {
    const { url = pageOrigin(), fetch = globalThis.fetch, headers: configuredHeaders } = this.#options;
    const address = new URL(`${url.replace(/\/$/, "")}/api/${path}`, pageOrigin());
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) address.searchParams.set(name, String(value));
    const init = {
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
    if (body !== undefined) init.headers.set("content-type", "application/json");
    let response: Response;
    try {
      response = await fetch(address.href, init);
    } catch (error) {
      signal?.throwIfAborted();
      throw disconnected("the server cannot be reached", error);
    }
    if (response.ok) return response;
    throw toApiError(
      response.status,
      await readBody(response, signal),
      readRetryAfter(response.headers.get("retry-after")),
    );
  }

  /**
   * The events and comments of a streamed answer. Leaving the loop closes the connection. Throws if the connection
   * breaks or is silent for too long.
   */
  async *events(response: Response, signal?: AbortSignal): AsyncGenerator<StreamedEvent, void, undefined> {
    const reader = (response.body as ReadableStream<Uint8Array> | null)?.getReader();
    if (!reader) return;
    const decoder = new TextDecoder();
    const parser = new EventParser();
    try {
      for (;;) {
        // Only the read is timed: a slow consumer of events is not silence.
        const { done, value } = await withSilenceLimit(reader.read(), this.silence);
        if (done) return;
        for (const event of parser.push(decoder.decode(value, { stream: true })))
          yield { ...event, data: event.comment === undefined ? parseEvent(event.data) : undefined };
      }
    } catch (error) {
      signal?.throwIfAborted();
      throw error instanceof ApiError ? error : disconnected("the connection broke", error);
    } finally {
      // A broken stream rejects again.
      reader.cancel().catch(() => undefined);
    }
  }
}

/** Whether all values are nonempty strings. */
export function areIds(...ids: unknown[]): boolean {
  return ids.every((id) => typeof id === "string" && id !== "");
}

/** A signal that aborts with `signal` or with `end()`. `end()` also removes the listener from `signal`. */
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

/** Resolves like `work`, or rejects with `DisconnectedError` after `ms`. */
export async function withSilenceLimit<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(disconnected("the server fell silent")), ms);
  });
  try {
    return await Promise.race([work, silence]);
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
    throw disconnected("the connection broke", error);
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function parseEvent(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalidAnswer(502, "an event is not JSON");
  }
}

function readRetryAfter(header: string | null): number | undefined {
  if (header === null) return undefined;
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

function pageOrigin(): string {
  return (globalThis as { location?: { origin: string } }).location?.origin ?? "http://127.0.0.1:8080";
}
