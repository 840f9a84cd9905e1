import type { IncomingMessage } from "node:http";
import { Transform, type TransformCallback } from "node:stream";
import { JsonLimits } from "../base/json.js";

/** Why a request body could not be read. */
export class BodyError extends Error {
  constructor(readonly reason: "too_large" | "not_text" | "broken") {
    super(`request body: ${reason}`);
    this.name = "BodyError";
  }
}

/** Initial buffer size, in bytes. */
const BUFFER_BYTES = 16 * 1024;

/**
 * Reads the text of a request body. Rejects with `BodyError`:
 * - `too_large`: more than `maxBytes`; no more is read.
 * - `not_text`: not UTF-8.
 * - `broken`: the client disconnected before the end.
 *
 * Chunks are copied into one buffer. A body sent in pieces of one byte would otherwise use hundreds of times its size.
 */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<string> {
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) throw new BodyError("too_large");
  let bytes = Buffer.allocUnsafeSlow(Math.min(BUFFER_BYTES, maxBytes));
  let length = 0;
  try {
    // The request is not destroyed when reading stops, because the refusal must still be sent.
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      const needed = length + chunk.length;
      if (needed > maxBytes) throw new BodyError("too_large");
      if (needed > bytes.length) {
        const grown = Buffer.allocUnsafeSlow(Math.min(maxBytes, Math.max(needed, bytes.length * 2)));
        bytes.copy(grown, 0, 0, length);
        bytes = grown;
      }
      chunk.copy(bytes, length);
      length = needed;
    }
  } catch (error) {
    throw error instanceof BodyError ? error : new BodyError("broken");
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, length));
  } catch {
    throw new BodyError("not_text");
  }
}

/** A body for a parser of another package. */
export interface GatheredBody extends Transform {
  readonly headers: IncomingMessage["headers"];
}

/**
 * A request body for a parser that keeps every chunk: it arrives in chunks of 16 KiB, so that the parser keeps few. The
 * parser must limit the size. Ends with an error if the client disconnects before the end.
 *
 * With `jsonDepth` it also ends with an error if the body is not UTF-8, is nested deeper, or has too many keys. A JSON
 * parser then parses nothing.
 */
export function gatheredBody(request: IncomingMessage, options: { readonly jsonDepth?: number } = {}): GatheredBody {
  const gathered = new Gathered(request.headers, options.jsonDepth);
  request.once("close", () => request.complete || gathered.destroy(new BodyError("broken")));
  request.once("error", (error) => gathered.destroy(error));
  return request.pipe(gathered);
}

class Gathered extends Transform implements GatheredBody {
  readonly headers: IncomingMessage["headers"];
  #bytes = Buffer.allocUnsafeSlow(BUFFER_BYTES);
  #length = 0;
  readonly #limits: JsonLimits | undefined;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  #fault: Error | undefined;

  constructor(headers: IncomingMessage["headers"], jsonDepth: number | undefined) {
    super();
    this.headers = headers;
    if (jsonDepth !== undefined) this.#limits = new JsonLimits(jsonDepth);
  }

  override _transform(chunk: Buffer, _encoding: string, done: TransformCallback): void {
    this.#check(() => {
      this.#limits?.scan(chunk);
      this.#decoder.decode(chunk, { stream: true });
    });
    if (this.#length + chunk.length > BUFFER_BYTES) this.#pushBuffer();
    if (chunk.length >= BUFFER_BYTES) this.push(chunk);
    else {
      chunk.copy(this.#bytes, this.#length);
      this.#length += chunk.length;
    }
    done();
  }

  override _flush(done: TransformCallback): void {
    // The last character may be incomplete.
    this.#check(() => void this.#decoder.decode());
    this.#pushBuffer();
    done(this.#fault);
  }

  /**
   * Keeps an error until the end, so that the whole body is read. A client that is still sending would not read the
   * response.
   */
  #check(check: () => void): void {
    if (!this.#limits || this.#fault) return;
    try {
      check();
    } catch (error) {
      this.#fault = error as Error;
    }
  }

  #pushBuffer(): void {
    if (this.#length === 0) return;
    this.push(this.#bytes.subarray(0, this.#length));
    this.#bytes = Buffer.allocUnsafeSlow(BUFFER_BYTES);
    this.#length = 0;
  }
}
