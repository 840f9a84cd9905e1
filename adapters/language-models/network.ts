import { ProviderError } from "gantry";
import {
  toBoundedResponse,
  readRequestBody,
  readComplete,
  type ResponseBodyLimits,
  type CompleteBody,
} from "./bodies.js";
import { HttpConnections, type HttpResponse, type HttpRequest } from "./connections.js";
import type { FaultContext } from "./errors.js";

/** `fetch` as the AI SDK's packages call it. */
export type Fetch = typeof globalThis.fetch;

/** Requests a URL and reads a body of at most `maxBytes`. `subject` names the body in the error for a larger body. */
export type Read = (
  url: string,
  httpRequest: Omit<HttpRequest, "method">,
  signal: AbortSignal,
  maxBytes: number,
  subject: string,
) => Promise<CompleteBody>;

const MAX_REDIRECTS = 5;
/** Used for lists, which are long and not streamed. */
const COMPRESSION_HEADERS = { "accept-encoding": "gzip, br" };

/**
 * Sends requests to a provider. Redirects to another origin are rejected: its server would get the key and the prompt.
 */
export class Network {
  readonly #context: FaultContext;
  readonly #limits: ResponseBodyLimits | undefined;
  readonly #connections = new HttpConnections();

  constructor(context: FaultContext, limits?: ResponseBodyLimits) {
    this.#context = context;
    this.#limits = limits;
  }

  /**
   * Sends a request and follows redirects within the origin. Rejects with the signal's reason, or like `fetch` with an
   * additional `url`.
   */
  async send(url: string, httpRequest: HttpRequest, signal: AbortSignal): Promise<HttpResponse> {
    let currentUrl = url;
    for (let redirectCount = 0; ; redirectCount++) {
      const response = await this.#connections.send(currentUrl, httpRequest, signal).catch((error: unknown) => {
        // The error message names the host that was not reached.
        throw error instanceof TypeError && !signal.aborted ? Object.assign(error, { url: currentUrl }) : error;
      });
      const { location } = response.headers;
      if (location === undefined || ![301, 302, 303, 307, 308].includes(response.status)) return response;
      // The body of a redirect is not read.
      response.body.release(true);
      currentUrl = this.#resolveRedirect(currentUrl, location, response.status, httpRequest.method, redirectCount);
    }
  }

  /** Sends a request and reads the complete answer. */
  readonly read: Read = async (url, { headers, body }, signal, maxBytes, subject) => {
    const requestOptions = { headers: { ...COMPRESSION_HEADERS, ...headers }, ...(body === undefined ? {} : { body }) };
    const response = await this.send(url, { ...requestOptions, method: body === undefined ? "GET" : "POST" }, signal);
    return await readComplete(response, maxBytes, this.#context.provider, subject);
  };

  /** `fetch` for packages that read answers themselves. Events of an answer have a bounded size. */
  readonly fetch: Fetch = async (input, init) => {
    const request = new Request(input, init);
    const { method, url, signal } = request;
    const headers = Object.fromEntries(request.headers);
    const httpRequest = { method, headers, ...(request.body === null ? {} : { body: await readRequestBody(request) }) };
    return toBoundedResponse(await this.send(url, httpRequest, signal), this.#context.provider, this.#limits);
  };

  /** Aborts requests in progress. */
  async close(): Promise<void> {
    await this.#connections.close();
  }

  /**
   * The target of a redirect. Throws for another origin and after too many redirects. Throws for a POST request with a
   * status below 307, which changes the request to GET.
   */
  #resolveRedirect(
    requestUrl: string,
    location: string,
    status: number,
    method: string,
    redirectCount: number,
  ): string {
    const fail = (reason: string): never => {
      const { provider, redact } = this.#context;
      throw new ProviderError(provider, "protocol", redact(reason), { status });
    };
    const sourceUrl = new URL(requestUrl);
    const target = URL.canParse(location, requestUrl) ? new URL(location, requestUrl) : undefined;
    // Quoted from the header: an embedded key in lower case would escape the redaction.
    const targetName = /^(?:https?:)?[/\\]{2}(?:[^/?#\\]*@)?([^/?#\\]*)/i.exec(location)?.[1] ?? "another server";
    if (target?.origin !== sourceUrl.origin)
      fail(
        `${sourceUrl.host} redirects to ${targetName}, which gets neither key nor prompt; if it is the right server, set it as base_url`,
      );
    if (method !== "GET" && status < 307) fail(`${sourceUrl.host} redirects the request to a GET page; check base_url`);
    if (redirectCount >= MAX_REDIRECTS) fail(`${sourceUrl.host} redirects without end`);
    return target!.href;
  }
}
