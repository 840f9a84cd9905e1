import type { SessionDriver } from "../ports/session-driver.js";
import type { WatchEvent, WatchOptions } from "../ports/watch.js";
import { InputError, SessionNotFoundError } from "../ports/errors.js";
import { requireSession } from "../sessions/require-session.js";
import { isUnavailable } from "../sessions/outage.js";
import { isOpen } from "../sessions/stored-run.js";
import { findStartAfterSeq, isCursorStored, parseCursor, type WatchStart } from "./cursor.js";
import type { LiveSessions } from "./live-sessions.js";
import { delay, onAbort } from "../base/abort.js";
import { StreamPosition, type PositionChange } from "./stream-position.js";
import type { SessionTail } from "./session-tail.js";

/** Retry delay while the store is unavailable: initial and maximum, in ms. */
const RETRY_DELAY_MS = { initial: 250, max: 2_000 };

/**
 * Streams the events of a session, from a cursor on and then live. Rejects with `InputError` (invalid cursor),
 * `SessionNotFoundError` or `StoreError`. With `follow`, after the first event, it retries while the store is
 * unavailable.
 */
export async function* watch(
  live: LiveSessions,
  store: SessionDriver,
  id: string,
  {
    after = "",
    lastSeen = "",
    afterSeq = 0,
    follow = true,
    canAnswer = false,
    signal = new AbortController().signal,
  }: WatchOptions,
): AsyncGenerator<WatchEvent, void, undefined> {
  const { chain } = await requireSession(store, id);
  const cursor = after === "" ? lastSeen : after;
  const startsAtSeq = cursor === "" && afterSeq > 0;
  let start: WatchStart = startsAtSeq
    ? await findStartAfterSeq(store, chain.root, afterSeq)
    : { cursor: parseCursor(chain.root, cursor) };
  // If the cursor is ahead of the store, a power failure may have lost the last writes. The reader starts again.
  if (!startsAtSeq && !(await isCursorStored(store, chain.root, start.cursor))) {
    if (after !== "") throw new InputError("after", "a cursor of stored events, got one past the end");
    start = { ...start, voidAfter: 0 };
  }
  const { tail, release: releaseTail } = live.open(chain.root, store);
  const removeWatcher = follow ? tail.addWatcher() : releaseTail;
  const removeResponder = canAnswer ? tail.addResponder(canAnswer) : releaseTail;
  // An abort also releases the watcher if its reader neither takes an event nor ends the stream.
  const removeListener = onAbort(signal, () => {
    removeResponder();
    removeWatcher();
    releaseTail();
  });
  try {
    yield* new Watch(tail, start).events(follow, signal);
  } finally {
    removeListener();
    removeResponder();
    removeWatcher();
    releaseTail();
  }
}

/** A single watcher of a chain. */
class Watch {
  readonly #tail: SessionTail;
  #position: StreamPosition;
  /** The last state that was sent. */
  #sentState: WatchEvent | undefined;
  readonly #reportedLengths = new Map<string, number>();
  #isDeleted = false;
  /** Messages of the reader after this `seq` are void, which has not been sent yet. */
  #voidAfter: number | undefined;
  /** Whether the first event contains the cursor. */
  readonly #sendsCursor: boolean;

  constructor(tail: SessionTail, { cursor, voidAfter, sendsCursor = false }: WatchStart) {
    this.#tail = tail;
    this.#position = new StreamPosition(tail.rootId, cursor);
    this.#voidAfter = voidAfter;
    this.#sendsCursor = sendsCursor;
  }

  /** Sends events until the signal aborts or the session is deleted; without `follow`, until all are sent. */
  async *events(follow: boolean, signal: AbortSignal): AsyncGenerator<WatchEvent, void, undefined> {
    let retryDelayMs = RETRY_DELAY_MS.initial;
    while (!signal.aborted) {
      const version = this.#tail.version;
      try {
        yield* this.#availableEvents();
        retryDelayMs = RETRY_DELAY_MS.initial;
      } catch (error) {
        // The agent and its store may close during a read.
        if (signal.aborted) return;
        if (!follow || !this.#sentState || !isUnavailable(error)) throw error;
        // A random part of the delay, from 50 to 100 %, so that watchers do not all retry at once.
        await delay(retryDelayMs * (0.5 + Math.random() / 2), signal).catch(() => undefined);
        retryDelayMs = Math.min(2 * retryDelayMs, RETRY_DELAY_MS.max);
        continue;
      }
      if (this.#isDeleted || (!follow && (await this.#isUpToDate()))) return;
      if (follow) await this.#tail.waitForChange(version, signal);
    }
  }

  /** Whether the reader knows all rewinds of the session. */
  async #isUpToDate(): Promise<boolean> {
    const state = await this.#tail.readState();
    return state?.state.session.rewinds.length === this.#position.cursor.rewindCount;
  }

  /** Sends all events that are available now. */
  async *#availableEvents(): AsyncGenerator<WatchEvent, void, undefined> {
    for (let hasMore = true; hasMore;) {
      const state = await this.#tail.readState();
      if (!state) {
        this.#isDeleted = true;
        if (!this.#sentState) throw new SessionNotFoundError(this.#tail.rootId);
        yield { type: "deleted" };
        return;
      }
      if (!this.#sentState) {
        this.#sentState = state;
        yield this.#sendsCursor ? { ...state, cursor: this.#position.cursorText } : state;
      }
      const { rewinds } = state.state.session;
      const voidAfter = findLowerSeq(this.#voidAfter, this.#position.findVoidAfter(rewinds));
      const firstSeq = Math.max(1, Math.min(this.#position.cursor.seq, voidAfter ?? Infinity));
      const page = await this.#tail.readPage(firstSeq, rewinds.length);
      if (voidAfter === undefined) this.#position = this.#position.withRewinds(rewinds);
      else yield* this.#sendChange(this.#position.rewind(voidAfter, rewinds, page.messages[0]));
      this.#voidAfter = undefined;
      for (const message of page.messages) yield* this.#sendChange(this.#tail.getChange(this.#position, message, page));
      hasMore = page.hasMore;
      // The state follows the messages stored by then: a reader that sees the end of a run has all of its messages.
      const { run } = state.state;
      if (hasMore || state === this.#sentState || (this.#tail.hasLocalWriter && !(run && isOpen(run)))) continue;
      yield (this.#sentState = state);
    }
    for (const { callId, text } of this.#tail.takeProgress(this.#reportedLengths))
      yield { type: "tool_progress", callId, text };
  }

  *#sendChange({ events, position }: PositionChange): Generator<WatchEvent, void, undefined> {
    this.#position = position;
    yield* events;
  }
}

/** Returns the lower of two `seq`; undefined means no limit. */
function findLowerSeq(firstSeq: number | undefined, secondSeq: number | undefined): number | undefined {
  return firstSeq === undefined || secondSeq === undefined ? (firstSeq ?? secondSeq) : Math.min(firstSeq, secondSeq);
}
