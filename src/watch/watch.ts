import type { SessionDriver } from "../ports/session-driver.js";
import type { WatchEvent, WatchOptions } from "../ports/watch.js";
import { InputError, SessionNotFoundError } from "../ports/errors.js";
import { requireSession } from "../sessions/require-session.js";
import { isUnavailable } from "../sessions/outage.js";
import { isOpen } from "../sessions/stored-run.js";
import { isStored, parseCursor } from "./cursor.js";
import type { Live } from "./live.js";
import { delay, onAbort } from "../base/abort.js";
import { StreamPosition, type PositionChange } from "./stream-position.js";
import { startAfterSeq, type WatchStart } from "./watch-start.js";
import type { SessionTail } from "./tail.js";

/** Retry delay while the store is unavailable: initial and maximum, in ms. */
const RETRY_DELAY_MS = { first: 250, most: 2_000 };

/**
 * Streams the events of a session, from a cursor on and then live. Rejects with `InputError` (invalid cursor),
 * `SessionNotFoundError` or `StoreError`. With `follow`, after the first event, it retries while the store is
 * unavailable.
 */
export async function* watch(
  live: Live,
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
  const isNew = cursor === "" && afterSeq > 0;
  let start: WatchStart = isNew
    ? await startAfterSeq(store, chain.root, afterSeq)
    : { cursor: parseCursor(chain.root, cursor) };
  // The cursor is ahead of the store, which may have lost its last writes in a power failure. The reader starts again.
  if (!isNew && !(await isStored(store, chain.root, start.cursor))) {
    if (after !== "") throw new InputError("after", "a cursor of stored events, got one past the end");
    start = { ...start, voidAfter: 0 };
  }
  const { tail, leave } = live.open(chain.root, store);
  const unwatch = follow ? tail.addWatcher() : leave;
  const unattend = canAnswer ? tail.addResponder(canAnswer) : leave;
  // Also releases a reader that takes no further event without ending the stream.
  const untie = onAbort(signal, () => {
    unattend();
    unwatch();
    leave();
  });
  try {
    yield* new Watch(tail, start).events(follow, signal);
  } finally {
    untie();
    unattend();
    unwatch();
    leave();
  }
}

/** A single watcher of a chain. */
class Watch {
  readonly #tail: SessionTail;
  #position: StreamPosition;
  /** The last state that was sent. */
  #sentState: WatchEvent | undefined;
  readonly #progress = new Map<string, number>();
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

  async *events(follow: boolean, signal: AbortSignal): AsyncGenerator<WatchEvent, void, undefined> {
    let pause = RETRY_DELAY_MS.first;
    while (!signal.aborted) {
      const seen = this.#tail.version;
      try {
        yield* this.#availableEvents();
        pause = RETRY_DELAY_MS.first;
      } catch (error) {
        // The agent and its store may close during a read.
        if (signal.aborted) return;
        if (!follow || !this.#sentState || !isUnavailable(error)) throw error;
        // A random delay, so that watchers do not all reconnect at once.
        await delay(pause * (0.5 + Math.random() / 2), signal).catch(() => undefined);
        pause = Math.min(2 * pause, RETRY_DELAY_MS.most);
        continue;
      }
      if (this.#isDeleted || (!follow && (await this.#isUpToDate()))) return;
      if (follow) await this.#tail.next(seen, signal);
    }
  }

  /** Whether the session was not rewound since the cursor. */
  async #isUpToDate(): Promise<boolean> {
    const state = await this.#tail.state();
    return state?.state.session.rewinds.length === this.#position.cursor.cuts;
  }

  /** Sends all events that are available now. */
  async *#availableEvents(): AsyncGenerator<WatchEvent, void, undefined> {
    for (let hasMore = true; hasMore;) {
      const state = await this.#tail.state();
      if (!state) {
        this.#isDeleted = true;
        if (!this.#sentState) throw new SessionNotFoundError(this.#tail.rootId);
        yield { type: "deleted" };
        return;
      }
      if (!this.#sentState) {
        this.#sentState = state;
        yield this.#sendsCursor ? { ...state, cursor: this.#position.id } : state;
      }
      const { rewinds } = state.state.session;
      const cut = lowerSeq(this.#voidAfter, this.#position.voidAfter(rewinds));
      const first = Math.max(1, Math.min(this.#position.cursor.seq, cut ?? Infinity));
      const page = await this.#tail.from(first, rewinds.length);
      if (cut === undefined) this.#position = this.#position.withRewinds(rewinds);
      else yield* this.#sendChange(this.#position.rewind(cut, rewinds, page.messages[0]));
      this.#voidAfter = undefined;
      for (const message of page.messages) yield* this.#sendChange(this.#tail.changeFor(this.#position, message, page));
      hasMore = page.hasMore;
      // The state follows the messages stored by then: a reader that sees the end of a run has all of its messages.
      const { run } = state.state;
      if (hasMore || state === this.#sentState || (this.#tail.isHeld && !(run && isOpen(run)))) continue;
      yield (this.#sentState = state);
    }
    for (const { callId, text } of this.#tail.progress(this.#progress)) yield { type: "tool_progress", callId, text };
  }

  *#sendChange({ events, position }: PositionChange): Generator<WatchEvent, void, undefined> {
    this.#position = position;
    yield* events;
  }
}

function lowerSeq(firstSeq: number | undefined, secondSeq: number | undefined): number | undefined {
  return firstSeq === undefined || secondSeq === undefined ? (firstSeq ?? secondSeq) : Math.min(firstSeq, secondSeq);
}
