import { disconnected, errorOf, GantryError, invalidAnswer, noId } from "./errors.js";
import { EventParser } from "./event-parser.js";
import { tokenHeaders } from "./person-token.js";

/** How a client finds its server. */
export interface ClientOptions {
  /** Where the server is, like `http://127.0.0.1:8080`; default the page's own origin. */
  url?: string | undefined;
  /** Sent with each request: what the server requires. A function is asked for each. */
  headers?: Record<string, string> | (() => Record<string, string>) | undefined;
  /**
   * Headers that prove that a person sends a request, for requests that the server refuses without them; undefined where
   * there are none. Default: in Node the token that a server of this machine wrote into gantry's home.
   */
  personHeaders?:
    ((server: URL) => Record<string, string> | undefined | Promise<Record<string, string> | undefined>) | undefined;
  /** In place of the platform's. */
  fetch?: typeof globalThis.fetch | undefined;
  /** Milliseconds of silence after which a stream counts as dead, above 0; default 40,000. The server says something every 15 s. */
  silence?: number | undefined;
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

/** An event as it came, or a comment. */
export interface StreamedEvent {
  type: string;
  data: unknown;
  id: string | undefined;
  comment?: string;
}

/**
 * The path of a session, a run or an ask. Throws `NotFoundError` for ids that address something else: addresses are
 * folded at `.` and `..`, and without an id at all it is that of the list.
 */
export function pathOf(what: "session" | "run" | "ask", id: string): string {
  // Half a character has no form in an address.
  if (/^\.{0,2}$/.test(id) || !/^\P{Surrogate}*$/u.test(id)) throw noId(what, id);
  return `${what}s/${encodeURIComponent(id)}`;
}

/** Codes of answers to requests that only a person may send. */
const NEEDS_PERSON: ReadonlySet<string> = new Set(["person_required", "namespace_refused", "unseen_refused"]);

/** Requests to one server. */
export class Connection {
  readonly #options: ClientOptions;
  /** Milliseconds after which a stream that says nothing is dead. */
  readonly silence: number;
  /** Known once the server has asked for them. */
  #personHeaders: Record<string, string> | undefined;

  /** Throws `TypeError` for options that cannot be. */
  constructor(options: ClientOptions) {
    const { url = "", silence = 40_000 } = options;
    // An address without it would be one of the page's own.
    if (!/^($|\/|https?:\/\/[^/@]+(\/|$))/i.test(url))
      throw new TypeError("url: expected http:// or https:// and a host, without a user");
    if (!(silence > 0)) throw new TypeError("silence: expected milliseconds, above 0");
    this.#options = options;
    // What is more fires at once.
    this.silence = Math.min(silence, 2 ** 31 - 1);
  }

  /** Ask, and read the answer whole. `isWhole`: whether it has what is used of it, as that of another server has not. */
  async json<T extends object>(
    path: string,
    call: Call = {},
    isWhole: (body: T) => boolean = () => true,
  ): Promise<{ body: T; headers: Headers }> {
    const response = await this.open(path, call);
    const body = await bodyOf(response, call.signal);
    if (body === undefined) throw invalidAnswer(response.status, "the answer is not JSON");
    if (typeof body !== "object" || !body || !isWhole(body as T))
      throw invalidAnswer(response.status, "the answer is not gantry's");
    return { body: body as T, headers: response.headers };
  }

  /** The list of this name in an answer. */
  async list<T>(name: string, path: string, call: Call): Promise<T[]> {
    const { body } = await this.json<Record<string, T[]>>(path, call, (all) => Array.isArray(all[name]));
    return body[name]!;
  }

  /** Ask, and give the answer as soon as its headers are there. */
  async open(path: string, call: Call): Promise<Response> {
    try {
      return await this.#send(path, call);
    } catch (error) {
      if (!(error instanceof GantryError) || !NEEDS_PERSON.has(error.code)) throw error;
      const { url = pageOrigin(), personHeaders = tokenHeaders } = this.#options;
      const headers = await personHeaders(new URL(url, pageOrigin()));
      if (!headers) throw error;
      this.#personHeaders = headers;
      return this.#send(path, call);
    }
  }

  async #send(path: string, { method = "GET", query = {}, body, headers, signal }: Call): Promise<Response> {
    const { url = pageOrigin(), fetch = globalThis.fetch, headers: own } = this.#options;
    const address = new URL(`${url.replace(/\/$/, "")}/api/${path}`, pageOrigin());
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) address.searchParams.set(name, String(value));
    const init = {
      method,
      // Made here, so that a value that cannot be sent is told as that.
      headers: new Headers({ ...(typeof own === "function" ? own() : own), ...this.#personHeaders, ...headers }),
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
    throw errorOf(response.status, await bodyOf(response, signal), secondsOf(response.headers.get("retry-after")));
  }

  /**
   * The events of an answer, with its comments. Whoever stops to iterate closes the connection. Ends where the stream
   * ends, and throws where it breaks or falls silent.
   */
  async *events(response: Response, signal?: AbortSignal): AsyncGenerator<StreamedEvent, void, undefined> {
    const reader = (response.body as ReadableStream<Uint8Array> | null)?.getReader();
    if (!reader) return;
    const decoder = new TextDecoder();
    const parser = new EventParser();
    try {
      for (;;) {
        // Who is slow to take what was said has not heard silence.
        const { done, value } = await inTime(reader.read(), this.silence);
        if (done) return;
        for (const event of parser.push(decoder.decode(value, { stream: true })))
          yield { ...event, data: event.comment === undefined ? parsed(event.data) : undefined };
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

/** Whether these are ids. */
export function areIds(...ids: unknown[]): boolean {
  return ids.every((id) => typeof id === "string" && id !== "");
}

/** A signal that aborts with this one, or when it is ended; who ends it lets go of this one too. */
export function linked(signal: AbortSignal | undefined): { signal: AbortSignal; end: () => void } {
  const own = new AbortController();
  const abort = () => own.abort(signal?.reason);
  signal?.addEventListener("abort", abort);
  if (signal?.aborted) abort();
  return {
    signal: own.signal,
    end: () => {
      signal?.removeEventListener("abort", abort);
      own.abort();
    },
  };
}

/** What this comes to, or `DisconnectedError` when it takes longer. */
export async function inTime<T>(work: Promise<T>, ms: number): Promise<T> {
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

/** The answer's JSON; undefined where it has none. */
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
    return undefined;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalidAnswer(502, "an event is not JSON");
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
