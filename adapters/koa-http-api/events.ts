import type { Context } from "koa";
import type { WatchEvent } from "gantry";
import type { ApiParts } from "./api.js";
import { Query } from "./query.js";
import { firstOf } from "./signals.js";
import { frame, SseStream } from "./sse.js";
import type { Streams } from "./streams.js";
import { wireWatched } from "./wire-live.js";

/** `GET /api/sessions/{id}/events`: what a session says, as server-sent events that `EventSource` reads. */
export async function serveEvents(ctx: Context, id: string, { agent, options, stopping }: ApiParts, streams: Streams) {
  const query = new Query(ctx);
  // HEAD is answered like GET, but for what it would wait for.
  const follow = query.oneOf("follow", ["true", "false"]) !== "false" && ctx.method !== "HEAD";
  const gone = new AbortController();
  if (ctx.res.closed) gone.abort();
  ctx.res.once("close", () => gone.abort());
  const { signal, untie } = firstOf(gone.signal, stopping);
  const events = agent.sessions
    .watch(id, {
      after: query.text("after") ?? "",
      behind: query.integer("behind", 0),
      // `EventSource` sends it by itself when it comes back.
      lastSeen: ctx.get("Last-Event-ID"),
      follow,
      answers: query.oneOf("answers", ["true", "false"]) === "true",
      signal,
    })
    [Symbol.asyncIterator]();
  try {
    // A session that is not there, and a cursor that never was, are answered as they are elsewhere.
    let next = await events.next();
    streams.count(ctx, "watch");
    ctx.respond = false;
    const stream = new SseStream(ctx.res, options.heartbeatMs);
    for (; !next.done && stream.open; next = await events.next()) {
      const event = next.value;
      await stream.sendFrame(frameOf(event));
    }
    stream.close();
  } finally {
    untie();
    await events.return?.();
  }
}

/** All who are at the same place are told the same events: each is written once, as long as they keep step. */
const frames = new Map<WatchEvent, Buffer>();
const FRAMES = 64;
/** Bytes of one that is kept. */
const FRAME = 64 * 1024;

function frameOf(event: WatchEvent): Buffer {
  const made = frames.get(event);
  if (made) return made;
  const bytes = Buffer.from(frame(event.type, wireWatched(event), "cursor" in event ? event.cursor : undefined));
  if (bytes.length > FRAME) return bytes;
  frames.set(event, bytes);
  for (const [oldest] of frames) {
    if (frames.size <= FRAMES) break;
    frames.delete(oldest);
  }
  return bytes;
}
