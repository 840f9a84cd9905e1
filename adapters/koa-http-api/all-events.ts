import { setMaxListeners } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { hasCode, SessionNotFoundError, type WatchEvent } from "gantry";
import type { Context } from "koa";
import { abortWith, createDisconnectController, type ApiDependencies } from "./api.js";
import { isInternal, toRefusal } from "./errors.js";
import { createQueryError, isPossibleId, QueryParameters } from "./query.js";
import { SessionOverview } from "./session-overview.js";
import type { ALL_EVENTS, ResponseBody } from "./shapes.js";
import { encodeFrame, SseStream } from "./sse.js";
import type { StreamLimiter } from "./stream-limiter.js";
import { toWireSessionEvent } from "./wire-live.js";

/** Data of each event, by event name. */
type AllEventData = { [Name in keyof typeof ALL_EVENTS]: ResponseBody<(typeof ALL_EVENTS)[Name]> };

/** Maximum watches of a stream. With their cursors the address stays below 8 kB, the limit of many proxies. */
const MAX_WATCHES = 64;
/** Retry delay for a session while the store is unavailable: initial and maximum, in ms. */
const RETRY_DELAY_MS = { initial: 250, max: 2_000 };

/** A `watch` parameter. */
interface RequestedWatch {
  /** Index of the parameter. */
  index: number;
  sessionId: string;
  /** Cursor of the last event that the client has; `""` for none. */
  cursor: string;
  /** `seq` of the last message that a client without a cursor has; 0 for none. */
  afterSeq: number;
}

/** `GET /api/events`: the events of many sessions, and the state of all, in one stream. */
export class AllEvents {
  readonly #dependencies: ApiDependencies;
  readonly #streamLimiter: StreamLimiter;
  readonly #overview: SessionOverview;

  constructor(dependencies: ApiDependencies, streamLimiter: StreamLimiter) {
    this.#dependencies = dependencies;
    this.#streamLimiter = streamLimiter;
    this.#overview = new SessionOverview(dependencies.agent, dependencies.logger);
  }

  async serve(ctx: Context): Promise<void> {
    const { agent, options, stopSignal } = this.#dependencies;
    const query = new QueryParameters(ctx);
    const watches = query.getTexts("watch").map(parseWatch);
    if (watches.length > MAX_WATCHES) throw createQueryError("watch");
    const canAnswer = query.getOneOf("can_answer", ["true", "false"]) === "true";
    this.#streamLimiter.reserveSlot(ctx, "watch");
    ctx.respond = false;
    const stream = new SseStream(ctx.res, options.heartbeatMs);
    if (ctx.method === "HEAD") return stream.close();
    const controller = createDisconnectController(ctx);
    const { signal } = controller;
    // Each watch adds listeners.
    setMaxListeners(0, signal);
    const removeListener = abortWith(controller, stopSignal);
    const removeResponder = canAnswer ? agent.addResponder() : undefined;
    const writer = new FrameWriter(stream);
    const sources = [
      this.#sendOverview(writer, signal),
      ...watches.map((watch) => this.#sendSession(watch, writer, canAnswer, signal)),
    ];
    try {
      await Promise.all(sources);
    } finally {
      controller.abort();
      await Promise.allSettled(sources);
      removeListener();
      removeResponder?.();
      stream.close();
    }
  }

  async #sendOverview(writer: FrameWriter, signal: AbortSignal): Promise<void> {
    const reader = this.#overview.open();
    try {
      while (!signal.aborted) {
        const { asks, sessions } = await reader.take(signal);
        if (asks) await writer.write("asks", () => ({ asks }));
        for (const [id, session] of sessions)
          if (session) await writer.write("session", () => ({ session }));
          else await writer.write("session_removed", () => ({ session_id: id }));
      }
    } finally {
      await reader.close();
    }
  }

  /** Sends the events of a session until it is deleted or the signal aborts. An error becomes an event. */
  async #sendSession(
    { index, sessionId, cursor: firstCursor, afterSeq }: RequestedWatch,
    writer: FrameWriter,
    canAnswer: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const watchFields = { session_id: sessionId, watch: index };
    let cursor = firstCursor;
    let retryDelayMs = RETRY_DELAY_MS.initial;
    while (!signal.aborted) {
      try {
        if (!isPossibleId(sessionId)) throw new SessionNotFoundError("");
        const watchOptions = { lastSeen: cursor, afterSeq, canAnswer, signal };
        for await (const event of this.#dependencies.agent.sessions.watch(sessionId, watchOptions)) {
          const eventCursor = "cursor" in event ? event.cursor : undefined;
          const eventId = eventCursor === undefined ? undefined : `${sessionId}@${eventCursor}`;
          await writer.write(event.type, () => toEventData(event, watchFields), eventId);
          cursor = eventCursor ?? cursor;
          retryDelayMs = RETRY_DELAY_MS.initial;
        }
        return;
      } catch (error) {
        if (signal.aborted) return;
        const isTemporary = hasCode(error, "store") && (error.isUnavailable || error.isFull);
        if (!isTemporary) return this.#sendFailure(error, watchFields, writer);
        await delay(retryDelayMs, undefined, { signal }).catch(() => undefined);
        retryDelayMs = Math.min(2 * retryDelayMs, RETRY_DELAY_MS.max);
      }
    }
  }

  async #sendFailure(
    failure: unknown,
    watchFields: { session_id: string; watch: number },
    writer: FrameWriter,
  ): Promise<void> {
    const refusal = toRefusal(failure);
    const { status, message: error, code } = refusal;
    if (isInternal(refusal))
      this.#dependencies.logger.error("a watch failed", { session: watchFields.session_id, error: failure });
    await writer.write("watch_failed", () => ({ ...watchFields, status, error, code }));
  }
}

/**
 * Sends the frames of several sources one after the other. A slow reader delays all sources, and only one frame waits
 * in memory.
 */
class FrameWriter {
  readonly #stream: SseStream;
  #lastWrite: Promise<void> = Promise.resolve();

  constructor(stream: SseStream) {
    this.#stream = stream;
  }

  /** Resolves when the reader can take more, or is disconnected. `createData` is called when it is this frame's turn. */
  write<Name extends keyof AllEventData>(
    event: Name,
    createData: () => AllEventData[Name],
    eventId?: string,
  ): Promise<void> {
    return (this.#lastWrite = this.#lastWrite.then(() =>
      this.#stream.isOpen ? this.#stream.sendFrame(encodeFrame(event, createData(), eventId)) : undefined,
    ));
  }
}

function toEventData<Name extends WatchEvent["type"]>(
  event: WatchEvent & { type: Name },
  watchFields: { session_id: string; watch: number },
): AllEventData[Name] {
  return { ...watchFields, ...toWireSessionEvent(event) } as unknown as AllEventData[Name];
}

/** Parses `<session id>`, or `<session id>@<position>`. The position is a cursor, or the `seq` of a message. */
function parseWatch(value: string, index: number): RequestedWatch {
  const separator = value.lastIndexOf("@");
  const sessionId = separator < 0 ? value : value.slice(0, separator);
  const position = separator < 0 ? "" : value.slice(separator + 1);
  const isSeq = /^\d{1,15}$/.test(position);
  return { index, sessionId, cursor: isSeq ? "" : position, afterSeq: isSeq ? Number(position) : 0 };
}
