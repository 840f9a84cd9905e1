import { ProviderError } from "gantry";
import type { HttpResponse } from "./connections.js";
import type { ByteSource } from "./response-bytes.js";

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
 * Converts an answer to a platform `Response` with bounded size: the first bytes of an error, or the complete events of
 * an answer. Reading beyond a limit rejects with `ProviderError` of the kind `too_large`.
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
  const pieces = ok ? readEvents(body, provider, limits) : readFirstBytes(body, limits.error);
  const hasNoBody = [101, 204, 205, 304].includes(status);
  if (hasNoBody) body.release(true);
  const response = new Response(hasNoBody ? null : toReadableStream(pieces, body), { status, statusText, headers });
  // Errors name the host of this address.
  Object.defineProperty(response, "url", { value: url });
  return response;
}

/**
 * Reads a body of at most `maxBytes`; of an error response, the first bytes. Rejects with `ProviderError` of the kind
 * `too_large` that names `subject`.
 */
export async function readComplete(
  response: HttpResponse,
  maxBytes: number,
  provider: string,
  subject: string,
): Promise<CompleteBody> {
  const { ok, status, headers, body } = response;
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const piece of ok ? readPieces(body) : readFirstBytes(body, BODY_LIMITS.error)) {
      bytes += piece.length;
      pieces.push(piece);
      if (ok && bytes > maxBytes) break;
    }
    const bodyBytes = Buffer.concat(pieces);
    if (ok) checkSize(bodyBytes, maxBytes, provider, subject);
    return { ok, status, headers, bytes, text: new TextDecoder().decode(bodyBytes) };
  } finally {
    body.release();
  }
}

/** Reads the first bytes of an error body as text. */
export async function readErrorBody(body: ByteSource): Promise<string> {
  const pieces: Uint8Array[] = [];
  for await (const piece of readFirstBytes(body, BODY_LIMITS.error)) pieces.push(piece);
  return new TextDecoder().decode(Buffer.concat(pieces));
}

/** Reads the complete body of a request. */
export async function readRequestBody(request: Request): Promise<Uint8Array> {
  return new Uint8Array(await request.arrayBuffer());
}

/** Reads the body of a response of `toBoundedResponse`. */
export async function readResponseText(response: Response): Promise<string> {
  return await response.text();
}

/**
 * Throws `ProviderError` of the kind `too_large` for more than `maxBytes`, or for too many values. The message
 * names `subject`, or `valuesSubject` for too many values.
 */
export function checkSize(
  bytes: Uint8Array,
  maxBytes: number,
  provider: string,
  subject: string,
  valuesSubject = subject,
): void {
  // A smaller body cannot contain so many values.
  if (bytes.length > BODY_LIMITS.values) {
    let values = 0;
    for (const byte of bytes) if (isStructuralByte(byte)) values++;
    if (values > BODY_LIMITS.values) throw createTooManyValuesError(provider, valuesSubject, BODY_LIMITS.values);
  }
  if (bytes.length > maxBytes) throw createTooLargeError(provider, subject, maxBytes);
}

async function* readPieces(body: ByteSource): AsyncGenerator<Uint8Array, void, undefined> {
  for (let piece = await body.next(); piece !== undefined; piece = await body.next()) yield piece;
}

async function* readFirstBytes(body: ByteSource, maxBytes: number): AsyncGenerator<Uint8Array, void, undefined> {
  let remainingBytes = maxBytes;
  for await (const piece of readPieces(body)) {
    yield piece.subarray(0, remainingBytes);
    remainingBytes -= piece.length;
    if (remainingBytes > 0) continue;
    body.release();
    return;
  }
}

/** Yields complete events, so that parsers never hold more than one and never rescan its beginning. */
async function* readEvents(
  body: ByteSource,
  provider: string,
  limits: ResponseBodyLimits,
): AsyncGenerator<Uint8Array, void, undefined> {
  const endFinder = new EventEndFinder();
  let pendingPieces: Uint8Array[] = [];
  let pendingBytes = 0;
  let totalBytes = 0;
  for await (const piece of readPieces(body)) {
    totalBytes += piece.length;
    if (totalBytes > limits.answer) throw createTooLargeError(provider, "an answer", limits.answer);
    const end = endFinder.findLastEnd(piece);
    if (endFinder.maxEventValues > limits.values) throw createTooManyValuesError(provider, "an event", limits.values);
    if (end > 0) {
      yield pendingPieces.length === 0
        ? piece.subarray(0, end)
        : Buffer.concat([...pendingPieces, piece.subarray(0, end)]);
      pendingPieces = [];
      pendingBytes = 0;
    }
    if (end === piece.length) continue;
    pendingPieces.push(piece.subarray(end));
    pendingBytes += piece.length - end;
    if (pendingBytes > limits.event)
      throw createTooLargeError(provider, "an event, or a body without events,", limits.event);
  }
  if (pendingPieces.length > 0) yield Buffer.concat(pendingPieces);
}

/** Finds the blank lines that end events, in arbitrary pieces of bytes. Lines end with LF, CRLF or CR. */
class EventEndFinder {
  #isLineEmpty = true;
  #isAfterReturn = false;
  #isAfterEventEnd = false;
  #eventValues = 0;
  /** Greatest number of values in an event of the last piece. */
  maxEventValues = 0;

  /** Index after the last event that ends in this piece; 0 if no event ends in it. */
  findLastEnd(piece: Uint8Array): number {
    let end = 0;
    this.maxEventValues = this.#eventValues;
    for (let i = 0; i < piece.length; i++) {
      const byte = piece[i];
      if (byte !== 10 && byte !== 13) {
        this.#isLineEmpty = this.#isAfterReturn = this.#isAfterEventEnd = false;
        if (isStructuralByte(byte!) && ++this.#eventValues > this.maxEventValues)
          this.maxEventValues = this.#eventValues;
        continue;
      }
      // The LF of CRLF does not end another line.
      if (!(byte === 10 && this.#isAfterReturn)) {
        this.#isAfterEventEnd = this.#isLineEmpty;
        this.#isLineEmpty = true;
      }
      this.#isAfterReturn = byte === 13;
      if (!this.#isAfterEventEnd) continue;
      end = i + 1;
      this.#eventValues = 0;
    }
    return end;
  }
}

function toReadableStream(
  pieces: AsyncGenerator<Uint8Array, void, undefined>,
  body: ByteSource,
): ReadableStream<Uint8Array> {
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
function isStructuralByte(byte: number): boolean {
  return byte === 0x2c || byte === 0x5b || byte === 0x7b;
}

function createTooManyValuesError(provider: string, subject: string, maxValues: number): ProviderError {
  return new ProviderError(provider, "too_large", `${subject} of more than ${maxValues.toLocaleString("en")} values`);
}

/** Error for a body with too many bytes. */
export function createTooLargeError(provider: string, subject: string, maxBytes: number): ProviderError {
  const formattedSize = maxBytes >= 1024 * 1024 ? `${maxBytes / 1024 / 1024} MB` : `${maxBytes} bytes`;
  return new ProviderError(provider, "too_large", `${subject} of more than ${formattedSize}`);
}
