import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { Transform, type TransformCallback } from "node:stream";
import { TextDecoder } from "node:util";
import { JsonLimits } from "../base/json.js";

/** A request body could not be read, for one of the reasons that `readBody` lists. */
export class BodyError extends Error {
  constructor(readonly reason: "too_large" | "not_text" | "broken") {
    super(`request body: ${reason}`);
    this.name = "BodyError";
  }
}

/** Initial buffer size of `readBody`, and chunk size of `rechunkBody`. */
const BUFFER_BYTES = 16 * 1024;

/**
 * Reads the text of a request body. Rejects with `BodyError`:
 * - `too_large`: the body is larger than `maxBytes`. The remaining body is not read.
 * - `not_text`: the body is not UTF-8.
 * - `broken`: the client disconnected before the end.
 *
 * Chunks are copied into one buffer. A body sent in chunks of one byte would otherwise use hundreds of times its size.
 */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<string> {
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) throw new BodyError("too_large");
  let buffer = Buffer.allocUnsafeSlow(Math.min(BUFFER_BYTES, maxBytes));
  let bodyBytes = 0;
  try {
    // The request is not destroyed when reading stops, because the refusal must still be sent.
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      const newBodyBytes = bodyBytes + chunk.length;
      if (newBodyBytes > maxBytes) throw new BodyError("too_large");
      if (newBodyBytes > buffer.length) {
        const largerBuffer = Buffer.allocUnsafeSlow(Math.min(maxBytes, Math.max(newBodyBytes, buffer.length * 2)));
        buffer.copy(largerBuffer, 0, 0, bodyBytes);
        buffer = largerBuffer;
      }
      chunk.copy(buffer, bodyBytes);
      bodyBytes = newBodyBytes;
    }
  } catch (error) {
    throw error instanceof BodyError ? error : new BodyError("broken");
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(buffer.subarray(0, bodyBytes));
  } catch {
    throw new BodyError("not_text");
  }
}

/**
 * A request body with small chunks joined to at most 16 KiB; larger chunks stay unchanged. Has the headers that a
 * parser of another package reads.
 */
export interface RechunkedBody extends Transform {
  readonly headers: IncomingMessage["headers"];
}

/**
 * Joins small chunks of a request body, because some parsers keep every chunk as an object. The parser must limit the
 * size. The stream fails if the client disconnects before the end.
 *
 * With `jsonDepth` the stream also fails if the body is not UTF-8, is nested deeper, or has too many keys. These
 * failures occur at the end of the stream, before a JSON parser starts to parse the complete body.
 */
export function rechunkBody(request: IncomingMessage, options: { readonly jsonDepth?: number } = {}): RechunkedBody {
  const body = new GatheringTransform(request.headers, options.jsonDepth);
  request.once("close", () => request.complete || body.destroy(new BodyError("broken")));
  request.once("error", (error) => body.destroy(error));
  return request.pipe(body);
}

class GatheringTransform extends Transform implements RechunkedBody {
  readonly headers: IncomingMessage["headers"];
  #buffer: Buffer | undefined;
  #bufferedBytes = 0;
  readonly #limits: JsonLimits | undefined;
  /** Undefined while each chunk ended with a complete character. */
  #decoder: TextDecoder | undefined;
  #firstError: Error | undefined;

  constructor(headers: IncomingMessage["headers"], jsonDepth: number | undefined) {
    super();
    this.headers = headers;
    if (jsonDepth !== undefined) this.#limits = new JsonLimits(jsonDepth);
  }

  override _transform(chunk: Buffer, _encoding: string, done: TransformCallback): void {
    this.#captureError(() => {
      this.#limits?.scan(chunk);
      if (!this.#decoder && isUtf8(chunk)) return;
      this.#decoder ??= new TextDecoder("utf-8", { fatal: true });
      this.#decoder.decode(chunk, { stream: true });
    });
    if (this.#bufferedBytes + chunk.length > BUFFER_BYTES) this.#pushBuffer();
    if (chunk.length >= BUFFER_BYTES) this.push(chunk);
    else {
      this.#buffer ??= Buffer.allocUnsafeSlow(BUFFER_BYTES);
      chunk.copy(this.#buffer, this.#bufferedBytes);
      this.#bufferedBytes += chunk.length;
    }
    done();
  }

  override _flush(done: TransformCallback): void {
    // Throws if the last character is incomplete.
    this.#captureError(() => void this.#decoder?.decode());
    this.#pushBuffer();
    done(this.#firstError);
  }

  /**
   * Stores the first error until `_flush`, so that the whole body is read. A client that is still sending would not
   * read the response.
   */
  #captureError(check: () => void): void {
    if (!this.#limits || this.#firstError) return;
    try {
      check();
    } catch (error) {
      this.#firstError = error as Error;
    }
  }

  #pushBuffer(): void {
    if (!this.#buffer) return;
    this.push(this.#buffer.subarray(0, this.#bufferedBytes));
    this.#buffer = undefined;
    this.#bufferedBytes = 0;
  }
}
