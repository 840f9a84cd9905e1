import { inTime, linked, pathOf, type CallOptions, type Connection } from "./connection.js";
import { disconnected, GantryError, invalidAnswer, NotFoundError } from "./errors.js";
import type { Message, SessionEvent } from "../shapes.js";

/**
 * An event of a session. Who comes back with its `cursor` goes on behind it. `first` of a connection: what running tools
 * printed is told anew behind it.
 */
export type WatchedEvent = SessionEvent & { cursor?: string; first?: true };

/** How a watch stands: a connection is tried, is there, or was lost and will be tried again. */
export type ConnectionState = "connecting" | "open" | "lost";

/** From where a session is watched, and how. Without `after`, `behind` and `last`: from its first message on. */
export interface WatchOptions extends CallOptions {
  /** Go on behind this cursor. */
  after?: string | undefined;
  /** Begin behind the message with this `seq`. */
  behind?: number | undefined;
  /** Begin with so many messages before the end. */
  last?: number | undefined;
  /** False: end when all that there is was told. */
  follow?: boolean | undefined;
  /** That somebody is there who answers what is asked. */
  answers?: boolean | undefined;
  /** Told when the connection changes; `lost` has why. */
  onConnection?: ((state: ConnectionState, error?: GantryError) => void) | undefined;
}

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
const PASSING: ReadonlySet<number> = new Set([408, 425, 429]);
/** Milliseconds before the first attempt to come back, and at most. */
const FIRST = 250;
const LONGEST = 15_000;
/** The same where the server said when to come. */
const MOST = 300_000;

/** What a session says, whatever happens to the connection; see `Sessions.watch`. */
export async function* watch(
  connection: Connection,
  id: string,
  { after, behind, last, follow, answers, signal, onConnection }: WatchOptions = {},
): AsyncGenerator<WatchedEvent, void, undefined> {
  const session = pathOf("session", id);
  let cursor = after;
  let wasThere = false;
  for (let attempt = 0; !signal?.aborted; attempt += 1) {
    onConnection?.("connecting");
    const one = linked(signal);
    const began = performance.now();
    let failure: GantryError;
    try {
      const asked = <T>(work: Promise<T>) => inTime(work, connection.silence);
      if (cursor === undefined && behind === undefined && last !== undefined)
        behind = Math.max(0, (await asked(newestSeq(connection, session, one.signal))) - last);
      const events = `${session}/events`;
      const query = { answers, follow, behind: cursor === undefined ? behind : undefined };
      // At a place that the store has no more the server begins anew; as `?after=` it would be refused.
      const headers: Record<string, string> = cursor === undefined ? {} : { "last-event-id": cursor };
      const response = await asked(connection.open(events, { query, headers, signal: one.signal }));
      if (!response.headers.get("content-type")?.startsWith("text/event-stream"))
        throw invalidAnswer(502, "the answer is not a stream");
      onConnection?.("open");
      let first: { first?: true } = { first: true };
      for await (const { type, data, id: place } of connection.events(response, one.signal)) {
        if (place !== undefined) {
          cursor = place;
          attempt = 0;
        }
        if (!KNOWN.has(type)) continue;
        wasThere = true;
        yield { type, ...(data as object), ...(place !== undefined && { cursor: place }), ...first } as WatchedEvent;
        if (type === "deleted") return;
        first = {};
      }
      if (follow === false) return;
      failure = disconnected("the stream ended");
    } catch (error) {
      if (signal?.aborted) return;
      if (wasThere && error instanceof NotFoundError && error.code === "session_not_found") {
        yield { type: "deleted" };
        return;
      }
      if (!(error instanceof GantryError) || isFinal(error.status)) throw error;
      failure = error;
    } finally {
      one.end();
    }
    // One that held for a while, though nothing was said, was a good one.
    if (performance.now() - began > LONGEST) attempt = 0;
    onConnection?.("lost", failure);
    await pause(Math.max(backoff(attempt), Math.min(MOST, (failure.retryAfter ?? 0) * 1000)), signal);
  }
}

async function newestSeq(connection: Connection, session: string, signal: AbortSignal): Promise<number> {
  const query = { before: Number.MAX_SAFE_INTEGER, limit: 1 };
  const { body } = await connection.json<{ messages: Message[] }>(`${session}/messages`, { query, signal });
  return body.messages[0]?.seq ?? 0;
}

function isFinal(status: number): boolean {
  return status >= 400 && status < 500 && !PASSING.has(status);
}

/** Twice as long each time, and never for all at once. */
function backoff(attempt: number): number {
  return Math.min(LONGEST, FIRST * 2 ** attempt) * (0.5 + Math.random() / 2);
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
