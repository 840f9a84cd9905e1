import {
  withSilenceLimit,
  linkSignal,
  createResourcePath,
  type CallOptions,
  type RequestParts,
  type ServerConnection,
} from "./connection.js";
import { createDisconnectedError, ApiError, createInvalidAnswerError, NotFoundError } from "./errors.js";
import type { ApiMessage, SessionEvent } from "../shapes.js";

/**
 * An event of a session. A watch with this `cursor` as `after` continues with the next event. `first` marks the first
 * event of a connection: after this event, the server sends the output of running tools again.
 */
export type WatchedEvent = SessionEvent & { cursor?: string; first?: true };

/** State of a watch: trying to connect, connected, or waiting to reconnect. */
export type ConnectionState = "connecting" | "open" | "lost";

/** Start and options of a watch. Without `after`, `afterSeq` and `last`, the watch starts at the first message. */
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
  /** Called when the state of the connection changes; `error` is the reason for `lost`. */
  onConnection?: ((state: ConnectionState, error?: ApiError) => void) | undefined;
}

export const EVENT_TYPES: ReadonlySet<string> = new Set([
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
export const MAX_RETRY_MS = 15_000;
/** Maximum of a delay that the server requested, in ms. */
const MAX_RETRY_AFTER_MS = 300_000;

/** The events of a session across reconnects; see `SessionsApi.watch`. */
export async function* watch(
  connection: ServerConnection,
  id: string,
  { after, afterSeq, last, follow, canAnswer, signal, onConnection }: ApiWatchOptions = {},
): AsyncGenerator<WatchedEvent, void, undefined> {
  const sessionPath = createResourcePath("session", id);
  let cursor = after;
  let sessionExisted = false;
  for (let attempt = 0; !signal?.aborted; attempt += 1) {
    onConnection?.("connecting");
    const link = linkSignal(signal);
    const startedAtMs = performance.now();
    let failure: ApiError;
    try {
      const withLimit = <T>(work: Promise<T>) => withSilenceLimit(work, connection.silenceMs);
      if (cursor === undefined && afterSeq === undefined && last !== undefined)
        afterSeq = Math.max(0, (await withLimit(fetchNewestSeq(connection, sessionPath, link.signal))) - last);
      const query = { can_answer: canAnswer, follow, after_seq: cursor === undefined ? afterSeq : undefined };
      const response = await withLimit(openEventStream(connection, sessionPath, query, cursor, link.signal));
      onConnection?.("open");
      let first: { first?: true } = { first: true };
      for await (const { type, data, id: eventCursor } of connection.readEvents(response, link.signal)) {
        if (eventCursor !== undefined) {
          cursor = eventCursor;
          attempt = 0;
        }
        if (!EVENT_TYPES.has(type)) continue;
        sessionExisted = true;
        yield {
          type,
          ...(data as object),
          ...(eventCursor !== undefined && { cursor: eventCursor }),
          ...first,
        } as WatchedEvent;
        if (type === "deleted") return;
        first = {};
      }
      if (follow === false) return;
      failure = createDisconnectedError("the stream ended");
    } catch (error) {
      if (signal?.aborted) return;
      if (sessionExisted && error instanceof NotFoundError && error.code === "session_not_found") {
        yield { type: "deleted" };
        return;
      }
      if (!(error instanceof ApiError) || isPermanent(error.status)) throw error;
      failure = error;
    } finally {
      link.end();
    }
    // A connection that lasted longer than the maximum delay counts as successful, even without events.
    if (performance.now() - startedAtMs > MAX_RETRY_MS) attempt = 0;
    onConnection?.("lost", failure);
    await pauseBeforeRetry(attempt, failure, signal);
  }
}

/** Resolves when the next attempt may begin, or when the signal aborts. `attempt`: number of failures in a row, from 0. */
export function pauseBeforeRetry(attempt: number, failure: ApiError, signal: AbortSignal | undefined): Promise<void> {
  const requestedDelayMs = Math.min(MAX_RETRY_AFTER_MS, (failure.retryAfter ?? 0) * 1000);
  return pause(Math.max(computeRetryDelay(attempt), requestedDelayMs), signal);
}

async function fetchNewestSeq(connection: ServerConnection, sessionPath: string, signal: AbortSignal): Promise<number> {
  const query = { before: Number.MAX_SAFE_INTEGER, limit: 1 };
  const { body } = await connection.requestJson<{ messages: ApiMessage[] }>(`${sessionPath}/messages`, {
    query,
    signal,
  });
  return body.messages[0]?.seq ?? 0;
}

/** Opens the event stream, after `cursor` if it is set. Rejects with `ApiError` if the answer is not a stream. */
async function openEventStream(
  connection: ServerConnection,
  sessionPath: string,
  query: RequestParts["query"],
  cursor: string | undefined,
  signal: AbortSignal,
): Promise<Response> {
  // For a cursor that the store no longer has, this header restarts the stream; `?after=` would be rejected.
  const headers: Record<string, string> = cursor === undefined ? {} : { "last-event-id": cursor };
  const response = await connection.sendRequest(`${sessionPath}/events`, { query, headers, signal });
  if (!response.headers.get("content-type")?.startsWith("text/event-stream"))
    throw createInvalidAnswerError(502, "the answer is not a stream");
  return response;
}

/** Whether a retry would get the same answer. */
export function isPermanent(status: number): boolean {
  return status >= 400 && status < 500 && !RETRYABLE_STATUSES.has(status);
}

/**
 * Delay in ms, doubled with each attempt. A random part, up to half, is subtracted so that clients do not reconnect
 * together.
 */
function computeRetryDelay(attempt: number): number {
  return Math.min(MAX_RETRY_MS, INITIAL_RETRY_MS * 2 ** attempt) * (0.5 + Math.random() / 2);
}

/** Resolves after the delay, or when the signal aborts. */
export function pause(delayMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, delayMs);
    signal?.addEventListener("abort", finish);
    if (signal?.aborted) finish();
  });
}
