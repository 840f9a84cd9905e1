import { ProviderError } from "gantry";
import type { HttpResponse } from "./connections.js";
import type { Bytes } from "./response-bytes.js";

/** Maximum size of each kind of body, in bytes after decompression. */
export const BODY_LIMITS = {
  /** All pages of a model list together. */
  list: 16 * 1024 * 1024,
  /** An error body; a longer one is truncated, so that its status and beginning are still reported. */
  error: 64 * 1024,
  /** An event of a stream, or a body without events. */
  event: 8 * 1024 * 1024,
  /** A complete streamed answer: twice the size of the longest answers with one token per event. */
  answer: 128 * 1024 * 1024,
  /**
   * Commas, braces and brackets of a list or an event. A value of two bytes takes fifty in memory, and millions of
   * values take seconds.
   */
  values: 1_000_000,
};

export type ResponseBodyLimits = Readonly<typeof BODY_LIMITS>;

/** A completely read body. */
export interface CompleteBody {
  readonly ok: boolean;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  readonly bytes: number;
}

/**
 * Converts an answer to a platform `Response` with bounded size. It passes on the first bytes of an
 * error, and the complete events of an answer. Reading beyond a limit rejects with `ProviderError` of the kind `too_large`.
 */
export function toBoundedResponse(
  answer: HttpResponse,
  provider: string,
  limits: ResponseBodyLimits = BODY_LIMITS,
): Response {
  const { ok, status, statusText, body, url } = answer;
  const headers = new Headers(answer.headers);
  // These headers describe the compressed body, not the decompressed one.
  headers.delete("content-encoding");
  headers.delete("content-length");
  const pieces = ok ? events(body, provider, limits) : firstBytes(body, limits.error);
  const empty = [101, 204, 205, 304].includes(status);
  if (empty) body.release(true);
  const response = new Response(empty ? null : streamOf(pieces, body), { status, statusText, headers });
  // Errors name the host of this address.
  Object.defineProperty(response, "url", { value: url });
  return response;
}

/**
 * Reads a body of at most `most` bytes; of an error response, the first bytes. Rejects with `ProviderError` of the kind
 * `too_large` that names `what`.
 */
export async function readComplete(
  answer: HttpResponse,
  most: number,
  provider: string,
  what: string,
): Promise<CompleteBody> {
  const { ok, status, headers, body } = answer;
  const parts: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const piece of ok ? allPieces(body) : firstBytes(body, BODY_LIMITS.error)) {
      bytes += piece.length;
      parts.push(piece);
      if (ok && bytes > most) break;
    }
    const read = Buffer.concat(parts);
    if (ok) checkSize(read, most, provider, what);
    return { ok, status, headers, bytes, text: new TextDecoder().decode(read) };
  } finally {
    body.release();
  }
}

/** Reads the first bytes of an error body as text. */
export async function readError(body: Bytes): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const piece of firstBytes(body, BODY_LIMITS.error)) parts.push(piece);
  return new TextDecoder().decode(Buffer.concat(parts));
}

/** Reads the complete body of a request. */
export async function readSent(request: Request): Promise<Uint8Array> {
  return new Uint8Array(await request.arrayBuffer());
}

/** Reads a body that is bounded already. */
export async function readText(response: Response): Promise<string> {
  return await response.text();
}

/**
 * Throws `ProviderError` of the kind `too_large` for more bytes than `most`, or for too many values. `event` names the
 * part that contains the values.
 */
export function checkSize(bytes: Uint8Array, most: number, provider: string, what: string, event = what): void {
  // A smaller body cannot contain so many values.
  if (bytes.length > BODY_LIMITS.values) {
    let values = 0;
    for (const byte of bytes) if (isStructure(byte)) values++;
    if (values > BODY_LIMITS.values) throw tooMany(provider, event, BODY_LIMITS.values);
  }
  if (bytes.length > most) throw tooLarge(provider, what, most);
}

async function* allPieces(body: Bytes): AsyncGenerator<Uint8Array, void, undefined> {
  for (let piece = await body.next(); piece !== undefined; piece = await body.next()) yield piece;
}

async function* firstBytes(body: Bytes, most: number): AsyncGenerator<Uint8Array, void, undefined> {
  let remainingBytes = most;
  for await (const piece of allPieces(body)) {
    yield piece.subarray(0, remainingBytes);
    remainingBytes -= piece.length;
    if (remainingBytes > 0) continue;
    body.release();
    return;
  }
}

/** Yields complete events, so that parsers never hold more than one and never rescan its beginning. */
async function* events(
  body: Bytes,
  provider: string,
  limits: ResponseBodyLimits,
): AsyncGenerator<Uint8Array, void, undefined> {
  const ends = new EventEnds();
  let held: Uint8Array[] = [];
  let size = 0;
  let total = 0;
  for await (const piece of allPieces(body)) {
    total += piece.length;
    if (total > limits.answer) throw tooLarge(provider, "an answer", limits.answer);
    const end = ends.last(piece);
    if (ends.values > limits.values) throw tooMany(provider, "an event", limits.values);
    if (end > 0) {
      yield held.length === 0 ? piece.subarray(0, end) : Buffer.concat([...held, piece.subarray(0, end)]);
      held = [];
      size = 0;
    }
    if (end === piece.length) continue;
    held.push(piece.subarray(end));
    size += piece.length - end;
    if (size > limits.event) throw tooLarge(provider, "an event, or a body without events,", limits.event);
  }
  if (held.length > 0) yield Buffer.concat(held);
}

/** Finds the blank lines that end events, in arbitrary pieces of bytes. Lines end with LF, CRLF or CR. */
class EventEnds {
  #emptyLine = true;
  #afterReturn = false;
  #afterEnd = false;
  #values = 0;
  /** Greatest number of values in an event of the last piece. */
  values = 0;

  /** The end of the last event that ends in this piece; 0 if none does. */
  last(piece: Uint8Array): number {
    let end = 0;
    this.values = this.#values;
    for (let i = 0; i < piece.length; i++) {
      const byte = piece[i];
      if (byte !== 10 && byte !== 13) {
        this.#emptyLine = this.#afterReturn = this.#afterEnd = false;
        if (isStructure(byte!) && ++this.#values > this.values) this.values = this.#values;
        continue;
      }
      // The LF of CRLF does not end another line.
      if (!(byte === 10 && this.#afterReturn)) {
        this.#afterEnd = this.#emptyLine;
        this.#emptyLine = true;
      }
      this.#afterReturn = byte === 13;
      if (!this.#afterEnd) continue;
      end = i + 1;
      this.#values = 0;
    }
    return end;
  }
}

function streamOf(pieces: AsyncGenerator<Uint8Array, void, undefined>, body: Bytes): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await pieces.next();
          if (done === true) controller.close();
          else controller.enqueue(value);
        } catch (error) {
          body.release();
          controller.error(error);
        }
      },
      cancel: () => body.release(),
    },
    // Read only on demand.
    { highWaterMark: 0 },
  );
}

/** Whether the byte is `{`, `[` or a comma. */
function isStructure(byte: number): boolean {
  return byte === 0x2c || byte === 0x5b || byte === 0x7b;
}

function tooMany(provider: string, what: string, most: number): ProviderError {
  return new ProviderError(provider, "too_large", `${what} of more than ${most.toLocaleString("en")} values`);
}

/** Error for a body with too many bytes. */
export function tooLarge(provider: string, what: string, most: number): ProviderError {
  const amount = most >= 1024 * 1024 ? `${most / 1024 / 1024} MB` : `${most} bytes`;
  return new ProviderError(provider, "too_large", `${what} of more than ${amount}`);
}
