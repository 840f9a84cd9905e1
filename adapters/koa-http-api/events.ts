import type { Context } from "koa";
import type { WatchEvent } from "gantry";
import { abortWith, createDisconnectController, type ApiDependencies } from "./api.js";
import { QueryParameters } from "./query.js";
import { encodeFrame, SseStream } from "./sse.js";
import type { StreamLimiter } from "./stream-limiter.js";
import { toWireSessionEvent } from "./wire-live.js";

/** `GET /api/sessions/{id}/events`: the session's events as server-sent events for `EventSource`. */
export async function serveEvents(
  ctx: Context,
  id: string,
  { agent, options, stopSignal }: ApiDependencies,
  streamLimiter: StreamLimiter,
) {
  const query = new QueryParameters(ctx);
  // HEAD is answered like GET, but does not wait for events.
  const follow = query.getOneOf("follow", ["true", "false"]) !== "false" && ctx.method !== "HEAD";
  const controller = createDisconnectController(ctx);
  const removeListener = abortWith(controller, stopSignal);
  const events = agent.sessions
    .watch(id, {
      after: query.getText("after") ?? "",
      afterSeq: query.getInteger("after_seq", 0),
      // `EventSource` sends this header automatically when it reconnects.
      lastSeen: ctx.get("Last-Event-ID"),
      follow,
      canAnswer: query.getOneOf("can_answer", ["true", "false"]) === "true",
      signal: controller.signal,
    })
    [Symbol.asyncIterator]();
  try {
    // Await the first event before the headers: a missing session or an invalid cursor then gets a normal error
    // response.
    let next = await events.next();
    streamLimiter.reserveSlot(ctx, "watch");
    ctx.respond = false;
    const stream = new SseStream(ctx.res, options.heartbeatMs);
    for (; !next.done && stream.isOpen; next = await events.next()) {
      const event = next.value;
      await stream.sendFrame(toFrame(event));
    }
    stream.close();
  } finally {
    removeListener();
    await events.return?.();
  }
}

/** Encoded frames by event. Watchers at the same position receive the same event object; this cache encodes it once. */
const framesByEvent = new Map<WatchEvent, Buffer>();
const MAX_CACHED_FRAMES = 64;
/** Maximum size of a cached frame, in bytes. */
const MAX_CACHED_FRAME_BYTES = 64 * 1024;

function toFrame(event: WatchEvent): Buffer {
  const cachedFrame = framesByEvent.get(event);
  if (cachedFrame) return cachedFrame;
  const bytes = Buffer.from(
    encodeFrame(event.type, toWireSessionEvent(event), "cursor" in event ? event.cursor : undefined),
  );
  if (bytes.length > MAX_CACHED_FRAME_BYTES) return bytes;
  framesByEvent.set(event, bytes);
  for (const [oldestEvent] of framesByEvent) {
    if (framesByEvent.size <= MAX_CACHED_FRAMES) break;
    framesByEvent.delete(oldestEvent);
  }
  return bytes;
}
