import { ProviderError } from "gantry";
import type { HttpResponse } from "./connections.js";
import type { ByteSource } from "./response-bytes.js";

/** Limits of response bodies. Sizes apply after decompression. */
export const BODY_LIMITS = {
  /** All pages of a model list together. */
  listBytes: 16 * 1024 * 1024,
  /** An error body. A longer error body is truncated, so that its status and beginning are still reported. */
  errorBytes: 64 * 1024,
  /** An event of a stream, or a body without events. */
  eventBytes: 8 * 1024 * 1024,
  /** A complete streamed answer: twice the size of the longest answers with one token per event. */
  answerBytes: 128 * 1024 * 1024,
  /**
   * Number of commas, opening braces and opening brackets of a list or an event. A value of two bytes takes fifty bytes
   * of memory, and parsing millions of values takes seconds.
   */
  structuralBytes: 1_000_000,
};

export type ResponseBodyLimits = Readonly<typeof BODY_LIMITS>;

/** A body that was read to its end, or the first bytes of an error body. */
export interface CompleteBody {
  readonly ok: boolean;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  /** Number of bytes of `text` after decompression. */
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
  const isBinary = answer.headers["content-type"]?.includes("vnd.amazon.eventstream") === true;
  const readAnswer = isBinary ? readFrames : readEvents;
  const pieces = ok ? readAnswer(body, provider, limits) : readFirstBytes(body, limits.errorBytes);
  // `Response` rejects a body with these statuses.
  const hasBody = ![101, 204, 205, 304].includes(status);
  if (!hasBody) body.release(true);
  const response = new Response(hasBody ? toReadableStream(pieces, body) : null, { status, statusText, headers });
  // Error messages name the host of this URL.
  Object.defineProperty(response, "url", { value: url });
  return response;
}

/**
 * Reads a body of at most `maxBytes`, or the first bytes of an error response. Rejects with `ProviderError` of the kind
 * `too_large` for a larger body or too many values. The message names `subject`.
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
    for await (const piece of ok ? readPieces(body) : readFirstBytes(body, BODY_LIMITS.errorBytes)) {
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
  for await (const piece of readFirstBytes(body, BODY_LIMITS.errorBytes)) pieces.push(piece);
  return new TextDecoder().decode(Buffer.concat(pieces));
}

/** Reads a request body without a limit: the body comes from this process. */
export async function readRequestBody(request: Request): Promise<Uint8Array> {
  return new Uint8Array(await request.arrayBuffer());
}

/** Reads a response of `toBoundedResponse`, whose size is bounded already. */
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
  if (bytes.length > BODY_LIMITS.structuralBytes) {
    let valueCount = 0;
    for (const byte of bytes) if (isStructuralByte(byte)) valueCount++;
    if (valueCount > BODY_LIMITS.structuralBytes)
      throw createTooManyValuesError(provider, valuesSubject, BODY_LIMITS.structuralBytes);
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

/** Yields the pieces of a binary stream, whose decoder holds one frame. Throws `ProviderError` (`too_large`). */
async function* readFrames(
  body: ByteSource,
  provider: string,
  { answerBytes }: ResponseBodyLimits,
): AsyncGenerator<Uint8Array, void, undefined> {
  let bytes = 0;
  for await (const piece of readPieces(body)) {
    bytes += piece.length;
    if (bytes > answerBytes) throw createTooLargeError(provider, "an answer", answerBytes);
    yield piece;
  }
}

/**
 * Yields complete events, so that a parser never holds more than one event and never rescans its beginning. Throws
 * `ProviderError` of the kind `too_large`.
 */
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
    if (totalBytes > limits.answerBytes) throw createTooLargeError(provider, "an answer", limits.answerBytes);
    const end = endFinder.findLastEnd(piece);
    if (endFinder.maxEventValues > limits.structuralBytes)
      throw createTooManyValuesError(provider, "an event", limits.structuralBytes);
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
    if (pendingBytes > limits.eventBytes)
      throw createTooLargeError(provider, "an event, or a body without events,", limits.eventBytes);
  }
  if (pendingPieces.length > 0) yield Buffer.concat(pendingPieces);
}

const LF = 0x0a;
const CR = 0x0d;

/** Finds the blank lines that end events, in arbitrary pieces of bytes. Lines end with LF, CRLF or CR. */
class EventEndFinder {
  #isLineEmpty = true;
  #isAfterReturn = false;
  #isAfterEventEnd = false;
  #eventValueCount = 0;
  /** Greatest number of values in an event of the last piece. */
  maxEventValues = 0;

  /** Index after the last event that ends in this piece; 0 if no event ends in it. */
  findLastEnd(piece: Uint8Array): number {
    let end = 0;
    this.maxEventValues = this.#eventValueCount;
    for (let i = 0; i < piece.length; i++) {
      const byte = piece[i];
      if (byte !== LF && byte !== CR) {
        this.#isLineEmpty = this.#isAfterReturn = this.#isAfterEventEnd = false;
        if (isStructuralByte(byte!) && ++this.#eventValueCount > this.maxEventValues)
          this.maxEventValues = this.#eventValueCount;
        continue;
      }
      // The LF of CRLF does not end another line.
      if (!(byte === LF && this.#isAfterReturn)) {
        this.#isAfterEventEnd = this.#isLineEmpty;
        this.#isLineEmpty = true;
      }
      this.#isAfterReturn = byte === CR;
      if (!this.#isAfterEventEnd) continue;
      end = i + 1;
      this.#eventValueCount = 0;
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

/** `ProviderError` of the kind `too_large`; `subject` names the body. */
export function createTooLargeError(provider: string, subject: string, maxBytes: number): ProviderError {
  const formattedSize = maxBytes >= 1024 * 1024 ? `${maxBytes / 1024 / 1024} MB` : `${maxBytes} bytes`;
  return new ProviderError(provider, "too_large", `${subject} of more than ${formattedSize}`);
}
