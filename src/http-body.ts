import type { IncomingMessage } from "node:http";

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
