import type { Failure } from "../shapes.js";
import { disconnected, errorOf, GantryError } from "./errors.js";
import { EventParser, type ServerSentEvent } from "./server-sent-events.js";

/** How a client finds its server. */
export interface ClientOptions {
  /** The server's origin, like `http://127.0.0.1:8080`; default that of the page. */
  url?: string;
  /** Sent with each request: what the server requires. A function is asked for each. */
  headers?: Record<string, string> | (() => Record<string, string>);
  /** In place of the platform's. */
  fetch?: typeof globalThis.fetch;
  /** Milliseconds of silence after which a stream counts as dead; default 40,000. The server says something every 15 s. */
  silence?: number;
}

/** What each request takes. */
export interface CallOptions {
  /** Ends the request, which then rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** What a request is made of. */
export interface Call extends CallOptions {
  method?: string;
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  headers?: Record<string, string>;
}

/** Requests to one server. */
export class Connection {
  readonly #options: ClientOptions;

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  /** Ask, and read the answer whole. Throws `GantryError`. */
  async json<T>(path: string, call: Call = {}): Promise<{ body: T; headers: Headers }> {
    const response = await this.open(path, call);
    return { body: (await bodyOf(response, call.signal)) as T, headers: response.headers };
  }

  /** Ask, and give the answer as soon as its headers are there. Throws `GantryError` for one that is an error. */
  async open(path: string, { method = "GET", query = {}, body, headers, signal }: Call): Promise<Response> {
    const { url = pageOrigin(), fetch = globalThis.fetch, headers: own } = this.#options;
    const parameters = Object.entries(query).flatMap(([name, value]) =>
      value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`],
    );
    const search = parameters.length > 0 ? `?${parameters.join("&")}` : "";
    let response: Response;
    try {
      response = await fetch(`${url.replace(/\/+$/, "")}/api/${path}${search}`, {
        method,
        headers: {
          ...(body !== undefined && { "content-type": "application/json" }),
          ...(typeof own === "function" ? own() : own),
          ...headers,
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        ...(signal && { signal }),
      });
    } catch (error) {
      signal?.throwIfAborted();
      throw disconnected("the server cannot be reached", error);
    }
    if (response.ok) return response;
    const failure = await bodyOf(response, signal).catch((error: unknown) => {
      signal?.throwIfAborted();
      if (error instanceof GantryError) return {};
      throw error;
    });
    throw errorOf(response.status, failure as Partial<Failure>, secondsOf(response.headers.get("retry-after")));
  }

  /**
   * The events of an answer, with its comments. Whoever stops to iterate closes the connection. Ends where the stream
   * ends, and throws where it breaks or stays silent.
   */
  async *events(response: Response, signal?: AbortSignal): AsyncGenerator<ServerSentEvent, void, undefined> {
    const reader = (response.body as ReadableStream<Uint8Array> | null)?.getReader();
    if (!reader) return;
    const decoder = new TextDecoder();
    const parser = new EventParser();
    try {
      for (;;) {
        const { done, value } = await inTime(reader.read(), this.#options.silence ?? 40_000);
        if (done) return;
        yield* parser.push(decoder.decode(value, { stream: true }));
      }
    } catch (error) {
      signal?.throwIfAborted();
      throw error instanceof GantryError ? error : disconnected("the connection broke", error);
    } finally {
      // One that broke says so again.
      reader.cancel().catch(() => undefined);
    }
  }
}

async function inTime<T>(work: Promise<T>, ms: number): Promise<T> {
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

async function bodyOf(response: Response, signal: AbortSignal | undefined): Promise<unknown> {
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
    throw errorOf(response.status, { error: "the answer is not JSON" });
  }
}

function secondsOf(header: string | null): number | undefined {
  if (header === null) return undefined;
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

function pageOrigin(): string {
  return (globalThis as { location?: { origin: string } }).location?.origin ?? "http://127.0.0.1:8080";
}
