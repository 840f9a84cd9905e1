import type { IncomingMessage } from "node:http";
import { Transform, type TransformCallback } from "node:stream";
import { JsonLimits } from "../base/json.js";

/** Why a body was not had. */
export class BodyError extends Error {
  constructor(readonly reason: "too_large" | "not_text" | "broken") {
    super(`request body: ${reason}`);
    this.name = "BodyError";
  }
}

/** What a body that begins to come gets, in bytes. */
const FIRST = 16 * 1024;

/**
 * The text of a request's body. Its bytes are copied together as they come: kept one by one, a body that is sent in
 * pieces of a byte would take hundreds of times its size. Rejects with `BodyError`: `too_large` beyond `maxBytes`,
 * before more is taken; `not_text` when it is no UTF-8; `broken` when the client left in the middle.
 */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<string> {
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) throw new BodyError("too_large");
  let bytes = Buffer.allocUnsafeSlow(Math.min(FIRST, maxBytes));
  let length = 0;
  try {
    // Not destroyed when we stop reading: the refusal must still get through.
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

/** A body as a parser of others may read it. */
export interface GatheredBody extends Transform {
  readonly headers: IncomingMessage["headers"];
}

/**
 * A request's body for a parser that keeps the pieces as they come: in pieces of 16 KiB, so that it keeps few. The limit
 * on its size is the parser's. Ends with an error when the client leaves in the middle. With `jsonDepth`, for parsers of
 * JSON, it ends with an error also where the body is no UTF-8, is nested deeper or has too many keys: nothing is parsed then.
 */
export function gatheredBody(request: IncomingMessage, options: { readonly jsonDepth?: number } = {}): GatheredBody {
  const gathered = new Gathered(request.headers, options.jsonDepth);
  request.once("close", () => request.complete || gathered.destroy(new BodyError("broken")));
  request.once("error", (error) => gathered.destroy(error));
  return request.pipe(gathered);
}

class Gathered extends Transform implements GatheredBody {
  readonly headers: IncomingMessage["headers"];
  #bytes = Buffer.allocUnsafeSlow(FIRST);
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
    if (this.#length + chunk.length > FIRST) this.#pass();
    if (chunk.length >= FIRST) this.push(chunk);
    else {
      chunk.copy(this.#bytes, this.#length);
      this.#length += chunk.length;
    }
    done();
  }

  override _flush(done: TransformCallback): void {
    // The end of a character may be missing.
    this.#check(() => void this.#decoder.decode());
    this.#pass();
    done(this.#fault);
  }

  /** A fault is kept to the end, so that the whole body is read: a client that still sends would miss the answer. */
  #check(check: () => void): void {
    if (!this.#limits || this.#fault) return;
    try {
      check();
    } catch (error) {
      this.#fault = error as Error;
    }
  }

  #pass(): void {
    if (this.#length === 0) return;
    this.push(this.#bytes.subarray(0, this.#length));
    this.#bytes = Buffer.allocUnsafeSlow(FIRST);
    this.#length = 0;
  }
}
