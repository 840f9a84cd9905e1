import { withSilenceLimit, linkSignal, pathOf, type CallOptions, type ServerConnection } from "./connection.js";
import { disconnected, ApiError, invalidAnswer, NotFoundError } from "./errors.js";
import type { ApiMessage, SessionEvent } from "../shapes.js";

/**
 * An event of a session. A watch with its `cursor` as `after` continues after it. `first` marks the first event of a
 * connection: the output of running tools is sent again after it.
 */
export type WatchedEvent = SessionEvent & { cursor?: string; first?: true };

/** State of a watch: it tries to connect, is connected, or waits to reconnect. */
export type ConnectionState = "connecting" | "open" | "lost";

/** Start and options of a watch. Without `after`, `afterSeq` and `last` it starts at the first message. */
export interface ApiWatchOptions extends CallOptions {
  /** Start after this cursor. */
  after?: string | undefined;
  /** Start after the message with this `seq`. */
  afterSeq?: number | undefined;
  /** Start with this number of messages before the end. */
  last?: number | undefined;
  /** False: end after all stored events. Default true. */
  follow?: boolean | undefined;
  /** Whether this client can answer the questions of runs. Default false. */
  canAnswer?: boolean | undefined;
  /** Called when the connection changes; `error` is the reason of `lost`. */
  onConnection?: ((state: ConnectionState, error?: ApiError) => void) | undefined;
}

const EVENT_TYPES: ReadonlySet<string> = new Set([
  "state",
  "message",
  "delta",
  "message_end",
  "rewind",
  "tool_progress",
  "deleted",
] satisfies SessionEvent["type"][]);
/** 4xx statuses for which a retry may succeed. */
const RETRYABLE_STATUSES: ReadonlySet<number> = new Set([408, 425, 429]);
/** Reconnect delay in ms: initial and maximum. */
const INITIAL_RETRY_MS = 250;
const MAX_RETRY_MS = 15_000;
/** Maximum of a delay that the server requested, in ms. */
const MAX_RETRY_AFTER_MS = 300_000;

/** The events of a session across reconnects; see `Sessions.watch`. */
export async function* watch(
  connection: ServerConnection,
  id: string,
  { after, afterSeq, last, follow, canAnswer, signal, onConnection }: ApiWatchOptions = {},
): AsyncGenerator<WatchedEvent, void, undefined> {
  const session = pathOf("session", id);
  let cursor = after;
  let sessionExisted = false;
  for (let attempt = 0; !signal?.aborted; attempt += 1) {
    onConnection?.("connecting");
    const link = linkSignal(signal);
    const began = performance.now();
    let failure: ApiError;
    try {
      const limited = <T>(work: Promise<T>) => withSilenceLimit(work, connection.silence);
      if (cursor === undefined && afterSeq === undefined && last !== undefined)
        afterSeq = Math.max(0, (await limited(newestSeq(connection, session, link.signal))) - last);
      const events = `${session}/events`;
      const query = { can_answer: canAnswer, follow, after_seq: cursor === undefined ? afterSeq : undefined };
      // For a cursor that the store no longer has, this header restarts the stream; `?after=` would be rejected.
      const headers: Record<string, string> = cursor === undefined ? {} : { "last-event-id": cursor };
      const response = await limited(connection.open(events, { query, headers, signal: link.signal }));
      if (!response.headers.get("content-type")?.startsWith("text/event-stream"))
        throw invalidAnswer(502, "the answer is not a stream");
      onConnection?.("open");
      let first: { first?: true } = { first: true };
      for await (const { type, data, id: place } of connection.events(response, link.signal)) {
        if (place !== undefined) {
          cursor = place;
          attempt = 0;
        }
        if (!EVENT_TYPES.has(type)) continue;
        sessionExisted = true;
        yield { type, ...(data as object), ...(place !== undefined && { cursor: place }), ...first } as WatchedEvent;
        if (type === "deleted") return;
        first = {};
      }
      if (follow === false) return;
      failure = disconnected("the stream ended");
    } catch (error) {
      if (signal?.aborted) return;
      if (sessionExisted && error instanceof NotFoundError && error.code === "session_not_found") {
        yield { type: "deleted" };
        return;
      }
      if (!(error instanceof ApiError) || isFinal(error.status)) throw error;
      failure = error;
    } finally {
      link.end();
    }
    // A connection that lasted longer than this was good, even without events.
    if (performance.now() - began > MAX_RETRY_MS) attempt = 0;
    onConnection?.("lost", failure);
    await pause(Math.max(backoff(attempt), Math.min(MAX_RETRY_AFTER_MS, (failure.retryAfter ?? 0) * 1000)), signal);
  }
}

async function newestSeq(connection: ServerConnection, session: string, signal: AbortSignal): Promise<number> {
  const query = { before: Number.MAX_SAFE_INTEGER, limit: 1 };
  const { body } = await connection.json<{ messages: ApiMessage[] }>(`${session}/messages`, { query, signal });
  return body.messages[0]?.seq ?? 0;
}

function isFinal(status: number): boolean {
  return status >= 400 && status < 500 && !RETRYABLE_STATUSES.has(status);
}

/** Doubles with each attempt; random, so that clients do not reconnect at the same moment. */
function backoff(attempt: number): number {
  return Math.min(MAX_RETRY_MS, INITIAL_RETRY_MS * 2 ** attempt) * (0.5 + Math.random() / 2);
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
    if (signal?.aborted) done();
  });
}
