import type { Context } from "koa";
import type { WatchEvent } from "gantry";
import type { ApiParts } from "./api.js";
import { QueryParameters } from "./query.js";
import { anySignal } from "./signals.js";
import { frame, SseStream } from "./sse.js";
import type { StreamLimiter } from "./streams.js";
import { wireWatched } from "./wire-live.js";

/** `GET /api/sessions/{id}/events`: the session's events as server-sent events for `EventSource`. */
export async function serveEvents(
  ctx: Context,
  id: string,
  { agent, options, stopping }: ApiParts,
  streams: StreamLimiter,
) {
  const query = new QueryParameters(ctx);
  // HEAD is answered like GET, but does not wait for events.
  const follow = query.oneOf("follow", ["true", "false"]) !== "false" && ctx.method !== "HEAD";
  const gone = new AbortController();
  if (ctx.res.closed) gone.abort();
  ctx.res.once("close", () => gone.abort());
  const { signal, untie } = anySignal(gone.signal, stopping);
  const events = agent.sessions
    .watch(id, {
      after: query.text("after") ?? "",
      afterSeq: query.integer("after_seq", 0),
      // `EventSource` sends this header automatically when it reconnects.
      lastSeen: ctx.get("Last-Event-ID"),
      follow,
      canAnswer: query.oneOf("can_answer", ["true", "false"]) === "true",
      signal,
    })
    [Symbol.asyncIterator]();
  try {
    // Await the first event before the headers: a missing session or an invalid cursor then gets a normal error
    // response.
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

/** Encoded frames by event. Watchers at the same position receive the same event object, which is encoded once. */
const frames = new Map<WatchEvent, Buffer>();
const MAX_CACHED_FRAMES = 64;
/** Maximum size of a cached frame, in bytes. */
const MAX_CACHED_FRAME_BYTES = 64 * 1024;

function frameOf(event: WatchEvent): Buffer {
  const made = frames.get(event);
  if (made) return made;
  const bytes = Buffer.from(frame(event.type, wireWatched(event), "cursor" in event ? event.cursor : undefined));
  if (bytes.length > MAX_CACHED_FRAME_BYTES) return bytes;
  frames.set(event, bytes);
  for (const [oldest] of frames) {
    if (frames.size <= MAX_CACHED_FRAMES) break;
    frames.delete(oldest);
  }
  return bytes;
}
