import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { answer, BodyError, readBody, type Refusal } from "gantry/http";
import { ADDRESS, SECURITY } from "./paths.js";

const CODE_BYTES = 16;
/** Lifetime of an unused code, in ms. */
const CODE_LIFETIME_MS = 60_000;
/** Maximum number of unused codes; beyond it the oldest is dropped. */
const MAX_CODES = 16;
/** Maximum wrong codes of one address within `WINDOW_MS`. Beyond it, the server answers 429 with the time to wait. */
const MAX_FAULTS = 10;
const WINDOW_MS = 60_000;
/** Maximum number of addresses whose wrong codes are counted; beyond it the oldest is dropped. */
const MAX_ADDRESSES = 1_000;
const MAX_BODY_BYTES = 1_024;

const NO_STORE = { ...SECURITY, "Cache-Control": "no-store" };
const BAD_CODE: Refusal = {
  status: 401,
  message: "this link was already used or has expired; get a new one with gantry console",
  code: "bad_link",
};
const BAD_BODY: Refusal = { status: 400, message: 'expected { "code": "..." } or {}', code: "bad_request" };

type Headers = Readonly<Record<string, string>>;

interface Code {
  readonly digest: Buffer;
  /** Expiry, on the clock of `performance.now()`. */
  readonly until: number;
  readonly headers: Headers;
}

/**
 * One-time links for browsers, which cannot send the headers that the API requires. A client that has the headers
 * creates a link. The first page that opens it in time receives the headers. Codes are stored in memory only, as
 * digests.
 */
export class OneTimeLinks {
  #codes: Code[] = [];
  readonly #faults = new Map<string, { count: number; until: number }>();

  /** Responds with a new link, which gives `headers` to the page. The caller has checked that the client has them. */
  make(response: ServerResponse, headers: Headers): void {
    if (Object.keys(headers).length === 0) return reply(response, { path: ADDRESS });
    const code = randomBytes(CODE_BYTES).toString("base64url");
    this.#codes = [
      ...this.#waiting().slice(1 - MAX_CODES),
      { digest: digestOf(code), until: now() + CODE_LIFETIME_MS, headers },
    ];
    reply(response, { path: `${ADDRESS}#code=${code}`, seconds: CODE_LIFETIME_MS / 1000 });
  }

  /** Responds with the headers of the code in the body; without a code, with those that `tokenHeaders` returns. */
  async use(request: IncomingMessage, response: ServerResponse, tokenHeaders: () => Headers): Promise<void> {
    let body: string;
    try {
      body = await readBody(request, MAX_BODY_BYTES);
    } catch (error) {
      if (!(error instanceof BodyError)) throw error;
      if (error.reason === "broken") return;
      const tooLarge = { status: 413, message: "request body too large", code: "too_large" };
      return answer(response, error.reason === "too_large" ? tooLarge : BAD_BODY, NO_STORE);
    }
    const code = codeIn(body);
    if (code === "") return reply(response, { headers: tokenHeaders() });
    if (code === undefined) return answer(response, BAD_BODY, NO_STORE);
    // Check a valid code before counting: many clients may share an address, and none of them may lock out the others.
    const headers = this.#take(code);
    if (headers) return reply(response, { headers: asSent(headers) });
    const from = request.socket.remoteAddress ?? "";
    const wait = this.#waitOf(from);
    if (wait === 0) {
      this.#count(from);
      return answer(response, BAD_CODE, NO_STORE);
    }
    const retry = { "Retry-After": String(Math.ceil(wait / 1000)) };
    const message = "too many invalid links; try again in a minute";
    answer(response, { status: 429, message, code: "too_many_attempts", headers: retry }, NO_STORE);
  }

  /**
   * Returns the headers of a valid code and invalidates it; otherwise undefined. Compares all codes in constant time.
   */
  #take(code: string): Headers | undefined {
    const digest = digestOf(code);
    const waiting = this.#waiting();
    const matching = waiting.filter((candidate) => timingSafeEqual(candidate.digest, digest));
    this.#codes = waiting.filter((candidate) => !matching.includes(candidate));
    return matching[0]?.headers;
  }

  #waiting(): Code[] {
    return this.#codes.filter(({ until }) => until > now());
  }

  /** Time that an address must wait, in ms; 0 if it need not. */
  #waitOf(address: string): number {
    const faults = this.#faults.get(address);
    return faults !== undefined && faults.count >= MAX_FAULTS ? Math.max(0, faults.until - now()) : 0;
  }

  #count(address: string): void {
    const before = this.#faults.get(address);
    const isWithinWindow = before !== undefined && before.until > now();
    this.#faults.delete(address);
    this.#faults.set(
      address,
      isWithinWindow ? { ...before, count: before.count + 1 } : { count: 1, until: now() + WINDOW_MS },
    );
    const [oldest] = this.#faults.keys();
    if (this.#faults.size > MAX_ADDRESSES && oldest !== undefined) this.#faults.delete(oldest);
  }
}

/** Monotonic clock, independent of changes of the system time, in ms. */
function now(): number {
  return performance.now();
}

function digestOf(code: string): Buffer {
  return createHash("sha256").update(code).digest();
}

/** `""` if the body has no code; undefined if the body is invalid. */
function codeIn(body: string): string | undefined {
  try {
    const value = JSON.parse(body) as { code?: unknown };
    const { code = "" } = value;
    return typeof code === "string" && !Array.isArray(value) ? code : undefined;
  } catch {
    // Also reached for `null`, which has no properties.
    return undefined;
  }
}

/**
 * A browser sends header values as Latin-1 bytes. Other values are converted to their UTF-8 bytes, which the server
 * decodes.
 */
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
