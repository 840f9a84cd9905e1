import { ProviderError } from "gantry";
import type { Answered } from "./connections.js";
import type { Bytes } from "./response-bytes.js";

/** The most that is read of each kind of body, in bytes after decompression. */
export const BODY_LIMITS = {
  /** All pages of a list of models together. */
  list: 16 * 1024 * 1024,
  /** An error; what is longer is cut, so that its status and its first words are still told. */
  error: 64 * 1024,
  /** One event of a stream, and a body that has no events. */
  event: 8 * 1024 * 1024,
  /** A streamed answer as a whole: twice what the longest answers take, a token an event. */
  answer: 128 * 1024 * 1024,
  /** Commas, braces and brackets of a list or an event: a value of two bytes takes fifty in memory, and seconds by the million. */
  values: 1_000_000,
};

export type BodyLimits = Readonly<typeof BODY_LIMITS>;

/** A body that was read to its end. */
export interface Whole {
  readonly ok: boolean;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  readonly bytes: number;
}

/**
 * The answer as a platform's response whose body ends, whatever the provider sends: of an error the first bytes, of an
 * answer events of bounded size, each passed on whole. Reading beyond a limit rejects with `ProviderError` of the kind
 * `too_large`.
 */
export function bounded(answer: Answered, provider: string, limits: BodyLimits = BODY_LIMITS): Response {
  const { ok, status, statusText, body, url } = answer;
  const headers = new Headers(answer.headers);
  // They tell of what was on the wire, not of what comes out here.
  headers.delete("content-encoding");
  headers.delete("content-length");
  const pieces = ok ? events(body, provider, limits) : firstBytes(body, limits.error);
  const empty = [101, 204, 205, 304].includes(status);
  if (empty) body.leave(true);
  const response = new Response(empty ? null : streamOf(pieces, body), { status, statusText, headers });
  // Faults name the host that they came from.
  Object.defineProperty(response, "url", { value: url });
  return response;
}

/** A whole body of at most `most` bytes, else a rejection that says that `what` is larger; of an error the first bytes. */
export async function readWhole(answer: Answered, most: number, provider: string, what: string): Promise<Whole> {
  const { ok, status, headers, body } = answer;
  const parts: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const piece of ok ? all(body) : firstBytes(body, BODY_LIMITS.error)) {
      bytes += piece.length;
      parts.push(piece);
      if (ok && bytes > most) break;
    }
    const read = Buffer.concat(parts);
    if (ok) checkSize(read, most, provider, what);
    return { ok, status, headers, bytes, text: new TextDecoder().decode(read) };
  } finally {
    body.leave();
  }
}

/** The first bytes of an error as text. */
export async function readError(body: Bytes): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const piece of firstBytes(body, BODY_LIMITS.error)) parts.push(piece);
  return new TextDecoder().decode(Buffer.concat(parts));
}

/** All of what is sent. */
export async function readSent(request: Request): Promise<Uint8Array> {
  return new Uint8Array(await request.arrayBuffer());
}

/** All of a body that is bounded already. */
export async function readText(response: Response): Promise<string> {
  return await response.text();
}

/** Throws `ProviderError` of the kind `too_large` where there are more bytes than `most`, or too many values in them; `event` names what has values. */
export function checkSize(bytes: Uint8Array, most: number, provider: string, what: string, event = what): void {
  // Of fewer bytes none can have so many.
  if (bytes.length > BODY_LIMITS.values) {
    let values = 0;
    for (const byte of bytes) if (isStructure(byte)) values++;
    if (values > BODY_LIMITS.values) throw tooMany(provider, event, BODY_LIMITS.values);
  }
  if (bytes.length > most) throw tooLarge(provider, what, most);
}

async function* all(body: Bytes): AsyncGenerator<Uint8Array, void, undefined> {
  for (let piece = await body.next(); piece !== undefined; piece = await body.next()) yield piece;
}

async function* firstBytes(body: Bytes, most: number): AsyncGenerator<Uint8Array, void, undefined> {
  let left = most;
  for await (const piece of all(body)) {
    yield piece.subarray(0, left);
    left -= piece.length;
    if (left > 0) continue;
    body.leave();
    return;
  }
}

/** Each event whole, so that who takes them apart never holds more than one, nor looks at its beginning again and again. */
async function* events(body: Bytes, provider: string, limits: BodyLimits): AsyncGenerator<Uint8Array, void, undefined> {
  const ends = new EventEnds();
  let held: Uint8Array[] = [];
  let size = 0;
  let total = 0;
  for await (const piece of all(body)) {
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

/** Finds blank lines, which end an event, in bytes that come in any pieces; lines end with LF, CRLF or CR. */
class EventEnds {
  #emptyLine = true;
  #afterReturn = false;
  #afterEnd = false;
  #values = 0;
  /** The most values of one event in the last piece. */
  values = 0;

  /** Where the last event that ends in this piece is over; 0: none does. */
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
      // The second half of CRLF ends nothing of its own.
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
          body.leave();
          controller.error(error);
        }
      },
      cancel: () => body.leave(),
    },
    // Nothing is read before somebody wants it.
    { highWaterMark: 0 },
  );
}

/** `{`, `[` or a comma. */
function isStructure(byte: number): boolean {
  return byte === 0x2c || byte === 0x5b || byte === 0x7b;
}

function tooMany(provider: string, what: string, most: number): ProviderError {
  return new ProviderError(provider, "too_large", `${what} of more than ${most.toLocaleString("en")} values`);
}

/** What is said of too many bytes. */
export function tooLarge(provider: string, what: string, most: number): ProviderError {
  const amount = most >= 1024 * 1024 ? `${most / 1024 / 1024} MB` : `${most} bytes`;
  return new ProviderError(provider, "too_large", `${what} of more than ${amount}`);
}
