import type { SessionDriver } from "../ports/session-driver.js";
import type { WatchEvent, WatchOptions } from "../ports/watch.js";
import { InputError, SessionNotFoundError } from "../ports/errors.js";
import { found } from "../sessions/require-session.js";
import { isAway } from "../sessions/outage.js";
import { isOpen } from "../sessions/stored-run.js";
import { isStored, parseCursor } from "./cursor.js";
import type { Live } from "./live.js";
import { delay, onAbort } from "../base/abort.js";
import { Place, type Step } from "./stream-position.js";
import { behindOf, type Start } from "./watch-start.js";
import type { Tail } from "./tail.js";

/** While the store is away it is asked again so long after, in ms: at first, and at most. */
const AGAIN_MS = { first: 250, most: 2_000 };

/**
 * What a session says, from a cursor on, and then as it comes. Rejects with `InputError` (a cursor that never was),
 * `SessionNotFoundError` or `StoreError`. Whoever follows, and was told something, waits for a store that cannot be reached.
 */
export async function* watch(
  live: Live,
  store: SessionDriver,
  id: string,
  {
    after = "",
    lastSeen = "",
    behind = 0,
    follow = true,
    answers = false,
    signal = new AbortController().signal,
  }: WatchOptions,
): AsyncGenerator<WatchEvent, void, undefined> {
  const { chain } = await found(store, id);
  const cursor = after === "" ? lastSeen : after;
  const isNew = cursor === "" && behind > 0;
  let start: Start = isNew ? await behindOf(store, chain.root, behind) : { cursor: parseCursor(chain.root, cursor) };
  // What was seen and never came to the disk, before a power cut, say: the reader begins anew.
  if (!isNew && !(await isStored(store, chain.root, start.cursor))) {
    if (after !== "") throw new InputError("after", "a cursor of what was said, got one past the end");
    start = { ...start, voidAfter: 0 };
  }
  const { tail, leave } = live.open(chain.root, store);
  const unwatch = follow ? tail.watched() : leave;
  const unattend = answers ? tail.attended(answers) : leave;
  // Also of a reader that takes no further event, and never says so.
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

/** One watcher of a chain. */
class Watch {
  readonly #tail: Tail;
  #place: Place;
  /** The state that was told last. */
  #told: WatchEvent | undefined;
  readonly #progress = new Map<string, number>();
  #deleted = false;
  /** What the reader may have behind this `seq` is void, and it was not told yet. */
  #voidAfter: number | undefined;
  /** The reader hears where it is before anything is said. */
  readonly #isPlaced: boolean;

  constructor(tail: Tail, { cursor, voidAfter, isTold = false }: Start) {
    this.#tail = tail;
    this.#place = new Place(tail.rootId, cursor);
    this.#voidAfter = voidAfter;
    this.#isPlaced = isTold;
  }

  async *events(follow: boolean, signal: AbortSignal): AsyncGenerator<WatchEvent, void, undefined> {
    let pause = AGAIN_MS.first;
    while (!signal.aborted) {
      const seen = this.#tail.version;
      try {
        yield* this.#news();
        pause = AGAIN_MS.first;
      } catch (error) {
        // The agent closes, and the store with it, while something is read for whoever watches.
        if (signal.aborted) return;
        if (!follow || !this.#told || !isAway(error)) throw error;
        // Not all at once, as soon as it is back.
        await delay(pause * (0.5 + Math.random() / 2), signal).catch(() => undefined);
        pause = Math.min(2 * pause, AGAIN_MS.most);
        continue;
      }
      if (this.#deleted || (!follow && (await this.#isUncut()))) return;
      if (follow) await this.#tail.next(seen, signal);
    }
  }

  /** Whether nothing was cut since the cursor. */
  async #isUncut(): Promise<boolean> {
    const state = await this.#tail.state();
    return state?.state.session.cuts.length === this.#place.cursor.cuts;
  }

  /** Everything that there is now. */
  async *#news(): AsyncGenerator<WatchEvent, void, undefined> {
    for (let more = true; more;) {
      const state = await this.#tail.state();
      if (!state) {
        this.#deleted = true;
        if (!this.#told) throw new SessionNotFoundError(this.#tail.rootId);
        yield { type: "deleted" };
        return;
      }
      if (!this.#told) {
        this.#told = state;
        yield this.#isPlaced ? { ...state, cursor: this.#place.id } : state;
      }
      const { cuts } = state.state.session;
      const cut = lesser(this.#voidAfter, this.#place.cutOf(cuts));
      const first = Math.max(1, Math.min(this.#place.cursor.seq, cut ?? Infinity));
      const page = await this.#tail.from(first, cuts.length);
      if (cut === undefined) this.#place = this.#place.with(cuts);
      else yield* this.#step(this.#place.cut(cut, cuts, page.messages[0]));
      this.#voidAfter = undefined;
      for (const message of page.messages) yield* this.#step(this.#tail.step(this.#place, message, page));
      more = page.more;
      // Behind what was said by then: who hears that a run ended has all of it.
      const { run } = state.state;
      if (more || state === this.#told || (this.#tail.isHeld && !(run && isOpen(run)))) continue;
      yield (this.#told = state);
    }
    for (const { callId, text } of this.#tail.progress(this.#progress)) yield { type: "tool_progress", callId, text };
  }

  *#step({ events, place }: Step): Generator<WatchEvent, void, undefined> {
    this.#place = place;
    yield* events;
  }
}

function lesser(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.min(one, other);
}
