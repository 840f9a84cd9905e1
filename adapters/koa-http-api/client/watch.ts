import type { SessionEvent } from "../shapes.js";
import type { CallOptions, Connection } from "./connection.js";
import { disconnected, errorOf, GantryError } from "./errors.js";

/** An event of a session, with the place that it leads to. Who comes back with that `cursor` goes on behind it. */
export type WatchedEvent = SessionEvent & { cursor?: string };

/** How a session is watched. */
export interface WatchOptions extends CallOptions {
  /** A cursor: go on behind it. */
  after?: string | undefined;
  /** A `seq`: leave out this message and those before it. */
  behind?: number | undefined;
  /** That somebody is there who answers what is asked. */
  answers?: boolean | undefined;
  /** Told when the connection changes; `lost` has why. It comes back by itself. */
  onConnection?: ((state: ConnectionState, error?: GantryError) => void) | undefined;
}

/** How a watch stands. */
export type ConnectionState = "connecting" | "open" | "lost";

const KNOWN: ReadonlySet<string> = new Set([
  "state",
  "message",
  "delta",
  "message_end",
  "cut",
  "tool_progress",
  "deleted",
] satisfies SessionEvent["type"][]);
/** Answers of the 4xx that may be another one next time. */
const PASSING: ReadonlySet<number> = new Set([408, 409, 425, 429]);
/** Milliseconds before the first attempt to come back, and at most. */
const FIRST = 250;
const LAST = 15_000;

/**
 * What a session says, whatever happens to the connection. Ends when the session is deleted or the signal aborts; throws
 * `GantryError` for an answer that will not get better.
 */
export async function* watch(
  connection: Connection,
  id: string,
  { after, behind, answers, signal, onConnection }: WatchOptions = {},
): AsyncGenerator<WatchedEvent, void, undefined> {
  let cursor = after;
  for (let attempt = 0; !signal?.aborted; attempt += 1) {
    onConnection?.("connecting");
    let failure: GantryError;
    try {
      const response = await connection.open(`sessions/${encodeURIComponent(id)}/events`, {
        query: { answers: answers || undefined, behind: cursor === undefined ? behind : undefined },
        // Of a place that the store does not have any more the server begins anew, where `after` would be refused.
        headers: cursor === undefined ? {} : { "last-event-id": cursor },
        signal,
      });
      if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
        await response.body?.cancel();
        throw errorOf(502, { error: "the answer is not a stream" });
      }
      onConnection?.("open");
      for await (const { type, data, id: place } of connection.events(response, signal)) {
        if (place !== undefined) {
          cursor = place;
          attempt = 0;
        }
        if (!KNOWN.has(type)) continue;
        const event = { type, ...(JSON.parse(data) as object) } as WatchedEvent;
        yield place === undefined ? event : { ...event, cursor: place };
        if (type === "deleted") return;
      }
      failure = disconnected("the stream ended");
    } catch (error) {
      if (signal?.aborted) return;
      if (!(error instanceof GantryError) || isFinal(error.status)) throw error;
      failure = error;
    }
    onConnection?.("lost", failure);
    await pause(Math.max(backoff(attempt), (failure.retryAfter ?? 0) * 1000), signal);
  }
}

function isFinal(status: number): boolean {
  return status >= 400 && status < 500 && !PASSING.has(status);
}

/** Twice as long each time, and never for all at once. */
function backoff(attempt: number): number {
  return Math.min(LAST, FIRST * 2 ** attempt) * (0.5 + Math.random() / 2);
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
