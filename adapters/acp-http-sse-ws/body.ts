import type { IncomingMessage } from "node:http";
import { CODES, refusal } from "../acp-shared/index.js";
import { badMessage, tooLarge } from "./errors.js";

/** The text of a request's body. Rejects with `HttpRefusal` when it is too large or no UTF-8. */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<string> {
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) throw tooLarge();
  const chunks: Buffer[] = [];
  let bytes = 0;
  // Not destroyed when we stop reading: the refusal must still get through.
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw tooLarge();
    chunks.push(chunk);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch {
    throw badMessage(refusal(CODES.parse, "parse error"));
  }
}
