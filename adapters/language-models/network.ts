import { ProviderError } from "gantry";
import { bounded, readSent, readWhole, type BodyLimits, type Whole } from "./bodies.js";
import { Connections, type Answered, type Question } from "./connections.js";
import type { FaultContext } from "./errors.js";

/** `fetch` as the AI SDK's packages call it. */
export type Fetch = typeof globalThis.fetch;

/** Read a whole body of at most `most` bytes; `what` names it in the refusal of a larger one. */
export type Read = (
  url: string,
  question: Omit<Question, "method">,
  signal: AbortSignal,
  most: number,
  what: string,
) => Promise<Whole>;

const REDIRECTS = 5;
/** Lists are long, and nobody waits for their first words. */
const COMPRESSED = { "accept-encoding": "gzip, br" };

/** What a provider is asked, and by whom it is answered: no redirect leads to another origin, which would get the key and the whole prompt. */
export class Network {
  readonly #context: FaultContext;
  readonly #limits: BodyLimits | undefined;
  readonly #connections = new Connections();

  constructor(context: FaultContext, limits?: BodyLimits) {
    this.#context = context;
    this.#limits = limits;
  }

  /** Ask, also where the provider leads to within its origin. Rejects with the signal's reason, or as `fetch` does, with the `url`. */
  async ask(url: string, question: Question, signal: AbortSignal): Promise<Answered> {
    let at = url;
    for (let hops = 0; ; hops++) {
      const answer = await this.#connections.ask(at, question, signal).catch((error: unknown) => {
        // Told with the host that was not reached.
        throw error instanceof TypeError && !signal.aborted ? Object.assign(error, { url: at }) : error;
      });
      const { location } = answer.headers;
      if (location === undefined || ![301, 302, 303, 307, 308].includes(answer.status)) return answer;
      // Nobody reads it.
      answer.body.leave(true);
      at = this.#redirect(at, location, answer.status, question.method, hops);
    }
  }

  /** For everything but answers. */
  readonly read: Read = async (url, { headers, body }, signal, most, what) => {
    const asked = { headers: { ...COMPRESSED, ...headers }, ...(body === undefined ? {} : { body }) };
    const answer = await this.ask(url, { ...asked, method: body === undefined ? "GET" : "POST" }, signal);
    return await readWhole(answer, most, this.#context.provider, what);
  };

  /** For packages that read answers themselves: events of bounded size. */
  readonly fetch: Fetch = async (input, init) => {
    const request = new Request(input, init);
    const { method, url, signal } = request;
    const headers = Object.fromEntries(request.headers);
    const question = { method, headers, ...(request.body === null ? {} : { body: await readSent(request) }) };
    return bounded(await this.ask(url, question, signal), this.#context.provider, this.#limits);
  };

  /** Breaks what is under way. */
  async close(): Promise<void> {
    await this.#connections.close();
  }

  /** Where to go on; throws where that would be another server, another question, or no end. */
  #redirect(from: string, location: string, status: number, method: string, hops: number): string {
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
    if (method !== "GET" && status < 307)
      fail(`${here.host} redirects the question to a page that is only read; check base_url`);
    if (hops >= REDIRECTS) fail(`${here.host} redirects without end`);
    return target!.href;
  }
}
