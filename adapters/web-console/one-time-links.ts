import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { answer, BodyError, readBody, type Refusal } from "gantry/http";
import { ADDRESS, SECURITY } from "./paths.js";

const CODE_BYTES = 16;
/** How long a code may wait to be used, in ms. */
const LIFE_MS = 60_000;
/** Codes that wait at the same time; beyond it the oldest goes. */
const MOST_CODES = 16;
/** Wrong codes of one address in `WINDOW_MS` that are told so; beyond it, it is told to wait. */
const MOST_FAULTS = 10;
const WINDOW_MS = 60_000;
/** Addresses whose faults are counted; beyond it the oldest is forgotten. */
const MOST_ADDRESSES = 1_000;
const MAX_BODY = 1_024;

const NO_STORE = { ...SECURITY, "Cache-Control": "no-store" };
const BAD_CODE: Refusal = {
  status: 401,
  message: "this link was used already, or is too old; make another with gantry console",
  code: "bad_link",
};
const BAD_BODY: Refusal = { status: 400, message: 'expected { "code": "..." } or {}', code: "bad_request" };

type Headers = Readonly<Record<string, string>>;

interface Code {
  readonly digest: Buffer;
  /** On the clock of `performance.now()`. */
  readonly until: number;
  readonly headers: Headers;
}

/**
 * One-time links for those who cannot give a browser the headers that the API asks for: whoever has these makes a link,
 * and whoever opens it, once and soon, is given them. Codes are kept in memory alone, as digests.
 */
export class OneTimeLinks {
  /** Oldest first. */
  #codes: Code[] = [];
  readonly #faults = new Map<string, { count: number; until: number }>();

  /** Answers with a new link, which gives `headers` to the page. The caller has checked that the client knows them. */
  make(response: ServerResponse, headers: Headers): void {
    if (Object.keys(headers).length === 0) return reply(response, { path: ADDRESS });
    const code = randomBytes(CODE_BYTES).toString("base64url");
    this.#codes = [
      ...this.#waiting().slice(1 - MOST_CODES),
      { digest: digestOf(code), until: now() + LIFE_MS, headers },
    ];
    reply(response, { path: `${ADDRESS}#code=${code}`, seconds: LIFE_MS / 1000 });
  }

  /** Answers with the headers of the code in the body; without a code, with those that `tokenHeaders` returns. */
  async use(request: IncomingMessage, response: ServerResponse, tokenHeaders: () => Headers): Promise<void> {
    let body: string;
    try {
      body = await readBody(request, MAX_BODY);
    } catch (error) {
      if (!(error instanceof BodyError)) throw error;
      if (error.reason === "broken") return;
      const tooLarge = { status: 413, message: "request body too large", code: "too_large" };
      return answer(response, error.reason === "too_large" ? tooLarge : BAD_BODY, NO_STORE);
    }
    const code = codeIn(body);
    if (code === "") return reply(response, { headers: tokenHeaders() });
    if (code === undefined) return answer(response, BAD_BODY, NO_STORE);
    // Before anything is counted: many share an address, and none of them keeps the others out.
    const headers = this.#take(code);
    if (headers) return reply(response, { headers: asSent(headers) });
    const from = request.socket.remoteAddress ?? "";
    const wait = this.#waitOf(from);
    if (wait === 0) {
      this.#count(from);
      return answer(response, BAD_CODE, NO_STORE);
    }
    const retry = { "Retry-After": String(Math.ceil(wait / 1000)) };
    const message = "too many links that are not right; try again in a minute";
    answer(response, { status: 429, message, code: "too_many_attempts", headers: retry }, NO_STORE);
  }

  /** Headers of a valid code, which is not valid any more; else undefined. Compares every code in constant time. */
  #take(code: string): Headers | undefined {
    const digest = digestOf(code);
    const waiting = this.#waiting();
    const matching = waiting.filter((one) => timingSafeEqual(one.digest, digest));
    this.#codes = waiting.filter((one) => !matching.includes(one));
    return matching[0]?.headers;
  }

  #waiting(): Code[] {
    return this.#codes.filter(({ until }) => until > now());
  }

  /** How long an address has to wait, in ms. */
  #waitOf(address: string): number {
    const faults = this.#faults.get(address);
    return faults !== undefined && faults.count >= MOST_FAULTS ? Math.max(0, faults.until - now()) : 0;
  }

  #count(address: string): void {
    const before = this.#faults.get(address);
    const goesOn = before !== undefined && before.until > now();
    this.#faults.delete(address);
    this.#faults.set(address, goesOn ? { ...before, count: before.count + 1 } : { count: 1, until: now() + WINDOW_MS });
    const [oldest] = this.#faults.keys();
    if (this.#faults.size > MOST_ADDRESSES && oldest !== undefined) this.#faults.delete(oldest);
  }
}

/** Never set back, whatever becomes of the date. */
function now(): number {
  return performance.now();
}

function digestOf(code: string): Buffer {
  return createHash("sha256").update(code).digest();
}

/** `""` for a body without a code; undefined for a body that is not as expected. */
function codeIn(body: string): string | undefined {
  try {
    const value = JSON.parse(body) as { code?: unknown };
    const { code = "" } = value;
    return typeof code === "string" && !Array.isArray(value) ? code : undefined;
  } catch {
    // `null`, too, has no code.
    return undefined;
  }
}

/** A page can send bytes alone; what is beyond Latin-1 is UTF-8, as the port understands it. */
function asSent(headers: Headers): Headers {
  const bytes = (value: string): string => {
    const isLatin1 = Buffer.from(value, "latin1").toString("latin1") === value;
    return isLatin1 ? value : Buffer.from(value, "utf8").toString("latin1");
  };
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, bytes(value)]));
}

function reply(response: ServerResponse, body: unknown): void {
  const text = JSON.stringify(body);
  response.writeHead(200, {
    ...NO_STORE,
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(text),
  });
  response.end(text);
}
