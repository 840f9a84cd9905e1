import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { createGzip } from "node:zlib";
import type { FakeFlood } from "./steps.js";

const BLOCK_CHARACTERS = 64 * 1024;

/** Sends a very large body as fast as the client reads it. Ends with the flood, or when the client disconnects. */
export async function sendFlood(
  flood: FakeFlood,
  status: number,
  headers: Record<string, string>,
  response: ServerResponse,
): Promise<void> {
  response.writeHead(status, {
    "content-type": flood.type ?? "text/event-stream",
    ...(flood.gzip === true ? { "content-encoding": "gzip" } : {}),
    ...headers,
  });
  const gzip = flood.gzip === true ? createGzip({ level: 1 }) : undefined;
  if (gzip !== undefined) {
    gzip.on("error", () => response.destroy());
    gzip.pipe(response);
    response.once("close", () => gzip.destroy());
  }
  const sink = gzip ?? response;
  const closeEvent = once(response, "close");
  for (const block of createBlocks(flood)) {
    if (response.destroyed) return;
    if (!sink.write(block)) await Promise.race([once(sink, "drain"), closeEvent]);
  }
  if (!response.destroyed) sink.end();
}

function* createBlocks({ head = "", piece, times = Infinity, tail = "" }: FakeFlood): Generator<string> {
  if (head !== "") yield head;
  const hasNumbers = piece.includes("%d");
  const blockRepetitions = Math.max(1, Math.ceil(BLOCK_CHARACTERS / piece.length));
  const block = hasNumbers ? "" : piece.repeat(blockRepetitions);
  for (let n = 0; n < times; n += blockRepetitions) {
    const repetitions = Math.min(blockRepetitions, times - n);
    if (hasNumbers) yield Array.from({ length: repetitions }, (_, i) => piece.replaceAll("%d", String(n + i))).join("");
    else yield repetitions === blockRepetitions ? block : piece.repeat(repetitions);
  }
  if (tail !== "") yield tail;
}
