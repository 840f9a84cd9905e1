import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { answer, BodyError, readBody, type Refusal } from "gantry/http";
import { CONSOLE_PATH } from "./console-path.js";
import { SECURITY_HEADERS } from "./security-headers.js";

/** Random bytes of a code, which must not be guessable. */
const CODE_BYTES = 16;
/** Lifetime of an unused code, in ms. */
const CODE_LIFETIME_MS = 60_000;
/** Maximum number of unused codes. A further code replaces the oldest code. */
const MAX_CODES = 16;
/** Maximum wrong codes of one address within the window. Further wrong codes get status 429 with the time to wait. */
const MAX_WRONG_CODES = 10;
const WRONG_CODE_WINDOW_MS = 60_000;
/** Maximum number of addresses whose wrong codes are counted. A further address replaces the oldest address. */
const MAX_ADDRESSES = 1_000;
const MAX_BODY_BYTES = 1_024;

const RESPONSE_HEADERS = { ...SECURITY_HEADERS, "Cache-Control": "no-store" };
const INVALID_CODE_REFUSAL: Refusal = {
  status: 401,
  message: "this link was already used or has expired; get a new one with gantry console",
  code: "bad_link",
};
const INVALID_BODY_REFUSAL: Refusal = { status: 400, message: 'expected { "code": "..." } or {}', code: "bad_request" };

type Headers = Readonly<Record<string, string>>;

interface StoredCode {
  readonly digest: Buffer;
  /** Expiry, on the clock of `performance.now()`. */
  readonly expiryMs: number;
  readonly headers: Headers;
}

/**
 * One-time links for browsers, which cannot send the headers that the API requires. A client that has the headers
 * creates a link. The first page that opens the link in time receives the headers. Codes are stored in memory only, as
 * digests.
 */
export class OneTimeLinks {
  #codes: StoredCode[] = [];
  readonly #wrongCodesByAddress = new Map<string, { count: number; windowEndMs: number }>();

  /**
   * Responds with a new link, which gives `headers` to the page. The caller has checked that the client sent these
   * headers. Without headers, responds with the path of the console.
   */
  respondWithLink(response: ServerResponse, headers: Headers): void {
    if (Object.keys(headers).length === 0) return sendJson(response, { path: CONSOLE_PATH });
    const code = randomBytes(CODE_BYTES).toString("base64url");
    this.#codes = [
      ...this.#listValidCodes().slice(1 - MAX_CODES),
      { digest: computeDigest(code), expiryMs: getNowMs() + CODE_LIFETIME_MS, headers },
    ];
    sendJson(response, { path: `${CONSOLE_PATH}#code=${code}`, seconds: CODE_LIFETIME_MS / 1000 });
  }

  /**
   * Responds with the headers of the code in the body. Without a code, responds with the headers of `getTokenHeaders`.
   */
  async redeem(request: IncomingMessage, response: ServerResponse, getTokenHeaders: () => Headers): Promise<void> {
    let body: string;
    try {
      body = await readBody(request, MAX_BODY_BYTES);
    } catch (error) {
      if (!(error instanceof BodyError)) throw error;
      if (error.reason === "broken") return;
      const tooLargeRefusal = { status: 413, message: "request body too large", code: "too_large" };
      return answer(response, error.reason === "too_large" ? tooLargeRefusal : INVALID_BODY_REFUSAL, RESPONSE_HEADERS);
    }
    const code = parseCode(body);
    if (code === "") return sendJson(response, { headers: getTokenHeaders() });
    if (code === undefined) return answer(response, INVALID_BODY_REFUSAL, RESPONSE_HEADERS);
    // Check the code before the limit: many clients may share an address, and no client may lock out the others.
    const headers = this.#redeemCode(code);
    if (headers) return sendJson(response, { headers: encodeHeaders(headers) });
    const address = request.socket.remoteAddress ?? "";
    const waitMs = this.#getWaitMs(address);
    if (waitMs === 0) {
      this.#countWrongCode(address);
      return answer(response, INVALID_CODE_REFUSAL, RESPONSE_HEADERS);
    }
    const retryHeaders = { "Retry-After": String(Math.ceil(waitMs / 1000)) };
    const message = "too many invalid links; try again in a minute";
    answer(response, { status: 429, message, code: "too_many_attempts", headers: retryHeaders }, RESPONSE_HEADERS);
  }

  /**
   * Returns the headers of a valid code and invalidates the code. Undefined for a wrong code. Compares all codes in
   * constant time.
   */
  #redeemCode(code: string): Headers | undefined {
    const digest = computeDigest(code);
    const validCodes = this.#listValidCodes();
    const matchingCodes = validCodes.filter((candidate) => timingSafeEqual(candidate.digest, digest));
    this.#codes = validCodes.filter((candidate) => !matchingCodes.includes(candidate));
    return matchingCodes[0]?.headers;
  }

  #listValidCodes(): StoredCode[] {
    return this.#codes.filter(({ expiryMs }) => expiryMs > getNowMs());
  }

  /** Time until an address may try a code again, in ms; 0 if it may now. */
  #getWaitMs(address: string): number {
    const wrongCodes = this.#wrongCodesByAddress.get(address);
    return wrongCodes !== undefined && wrongCodes.count >= MAX_WRONG_CODES
      ? Math.max(0, wrongCodes.windowEndMs - getNowMs())
      : 0;
  }

  #countWrongCode(address: string): void {
    const wrongCodes = this.#wrongCodesByAddress.get(address);
    const isWithinWindow = wrongCodes !== undefined && wrongCodes.windowEndMs > getNowMs();
    this.#wrongCodesByAddress.delete(address);
    this.#wrongCodesByAddress.set(
      address,
      isWithinWindow
        ? { ...wrongCodes, count: wrongCodes.count + 1 }
        : { count: 1, windowEndMs: getNowMs() + WRONG_CODE_WINDOW_MS },
    );
    const [oldestAddress] = this.#wrongCodesByAddress.keys();
    if (this.#wrongCodesByAddress.size > MAX_ADDRESSES && oldestAddress !== undefined)
      this.#wrongCodesByAddress.delete(oldestAddress);
  }
}

/** Monotonic clock, independent of changes of the system time, in ms. */
function getNowMs(): number {
  return performance.now();
}

function computeDigest(code: string): Buffer {
  return createHash("sha256").update(code).digest();
}

/** Reads the code from a body: `""` if the body has no code; undefined if the body is invalid. */
function parseCode(body: string): string | undefined {
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
function encodeHeaders(headers: Headers): Headers {
  const encodeValue = (value: string): string => {
    const isLatin1 = Buffer.from(value, "latin1").toString("latin1") === value;
    return isLatin1 ? value : Buffer.from(value, "utf8").toString("latin1");
  };
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, encodeValue(value)]));
}

function sendJson(response: ServerResponse, body: unknown): void {
  const text = JSON.stringify(body);
  response.writeHead(200, {
    ...RESPONSE_HEADERS,
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(text),
  });
  response.end(text);
}
