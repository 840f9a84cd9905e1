import { ProviderError } from "gantry";
import { bounded, readWhole, type BodyLimits, type Whole } from "./bodies.js";
import type { FaultContext } from "./errors.js";

/** `fetch` as the AI SDK's packages call it. */
export type Fetch = typeof globalThis.fetch;

/** Read a whole body of at most `most` bytes; `what` names it in the refusal of a larger one. */
export type Read = (url: string, init: RequestInit, most: number, what: string) => Promise<Whole>;

interface Dispatchers {
  fetch: Fetch;
  close(): Promise<void>;
}

const LOOPBACK = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;
const REDIRECTS = 5;

/**
 * `fetch` on connections of its own, loaded with the first call: no limit on the wait for headers or for the next bytes
 * (the kernel's watchdog has that, and a local model may think for ten minutes), proxies by HTTPS_PROXY, HTTP_PROXY and
 * NO_PROXY, and never a proxy for this machine. No body is longer than `bodies.ts` allows, and no redirect leads to
 * another origin: it would carry the key and the whole prompt there.
 */
export class Network {
  readonly #context: FaultContext;
  readonly #limits: BodyLimits | undefined;
  #loading: Promise<Dispatchers> | undefined;
  #closed = false;

  constructor(context: FaultContext, limits?: BodyLimits) {
    this.#context = context;
    this.#limits = limits;
  }

  /** For answers: events of bounded size. */
  readonly fetch: Fetch = async (input, init) =>
    bounded(await this.#ask(urlOf(input), init ?? {}), this.#context.provider, this.#limits);

  /** For everything else. */
  readonly read: Read = async (url, init, most, what) =>
    await readWhole(await this.#ask(url, init), most, this.#context.provider, what);

  /** Breaks what is under way. */
  async close(): Promise<void> {
    this.#closed = true;
    const loaded = await this.#loading?.catch(() => undefined);
    await loaded?.close();
  }

  async #ask(url: string, init: RequestInit): Promise<Response> {
    if (this.#closed) throw new Error("the provider is closed");
    const { fetch } = await (this.#loading ??= load());
    let at = url;
    for (let hops = 0; ; hops++) {
      const response = await fetch(at, { ...init, redirect: "manual" }).catch((error: unknown) => {
        // Told with the host that was not reached.
        throw error instanceof TypeError ? Object.assign(error, { url: at }) : error;
      });
      const location = response.headers.get("location");
      if (location === null || ![301, 302, 303, 307, 308].includes(response.status)) return response;
      // Nobody reads it.
      void response.body?.cancel().catch(() => undefined);
      at = this.#redirect(at, location, response.status, init, hops);
    }
  }

  /** Where to go on; throws where that would be another server, another question, or no end. */
  #redirect(
    from: string,
    location: string,
    status: number,
    { method = "GET", body }: RequestInit,
    hops: number,
  ): string {
    const fail = (why: string): never => {
      const { provider, redact } = this.#context;
      throw new ProviderError(provider, "protocol", redact(why), { status });
    };
    const here = new URL(from);
    const target = URL.canParse(location, from) ? new URL(location, from) : undefined;
    // In the words of the answer, since a host in lower case could hide a key from the redaction.
    const named = /^(?:https?:)?[/\\]{2}(?:[^/?#\\]*@)?([^/?#\\]*)/i.exec(location)?.[1] ?? "another place";
    if (target?.origin !== here.origin)
      fail(
        `${here.host} redirects to ${named}, which gets neither key nor prompt; make it the base_url if it is right`,
      );
    const asks = method.toUpperCase() !== "GET";
    if (asks && (status < 307 || (body !== undefined && typeof body !== "string")))
      fail(`${here.host} redirects the question to a page that is only read; check base_url`);
    if (hops >= REDIRECTS) fail(`${here.host} redirects without end`);
    return target!.href;
  }
}

function urlOf(input: Parameters<Fetch>[0]): string {
  return input instanceof Request ? input.url : String(input);
}

async function load(): Promise<Dispatchers> {
  // By its default export: of a CommonJS package a bundle knows no names.
  const { default: undici } = await import("undici");
  const limits = { headersTimeout: 0, bodyTimeout: 0, connect: { timeout: 30_000 } };
  const direct = new undici.Agent(limits);
  const proxied = new undici.EnvHttpProxyAgent(limits);
  const fetch: Fetch = async (input, init) => {
    const url = urlOf(input);
    const dispatcher = LOOPBACK.test(new URL(url).hostname) ? direct : proxied;
    // undici's own types of Request and Response are those of the platform, declared twice.
    const answer: unknown = await undici.fetch(url, { ...(init as object), dispatcher });
    return answer as Response;
  };
  return {
    fetch,
    async close() {
      await Promise.all([direct.destroy(), proxied.destroy()]);
    },
  };
}
