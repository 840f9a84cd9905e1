import type { AgentEvent } from "../ports/events.js";
import type { RunInput } from "../ports/run.js";

/** Undelivered events of one run beyond which adjacent `token` events are joined, and for a slow reader dropped. */
const CAPACITY = 256;
/** Most characters of a joined event, so that what is dropped is dropped in small pieces. */
const JOINED = 4096;
/** A reader that stays behind for so long, in ms, is slow; a burst is over sooner. */
const GRACE_MS = 1000;

type TokenEvent = Extract<AgentEvent, { type: "token" }>;

/**
 * Events between a run and its one reader. The run never waits. With `drop`, beyond 256 events adjacent tokens are
 * joined; only a reader that stays behind for a second loses the oldest ones, since a model or a gateway may answer
 * thousands of tokens before the reader's socket gets a turn. With `merge` adjacent tokens are always joined, and none
 * is lost.
 */
export class EventBuffer implements AsyncIterableIterator<AgentEvent> {
  readonly #overflow: "drop" | "merge";
  readonly #graceMs: number;
  #events: AgentEvent[] = [];
  #ended = false;
  #closed = false;
  #wake: (() => void) | undefined;
  /** Runs while more than fits is waiting. */
  #grace: NodeJS.Timeout | undefined;
  #slow = false;
  #dropped = 0;

  constructor(overflow: NonNullable<RunInput["overflow"]>, graceMs = GRACE_MS) {
    this.#overflow = overflow;
    this.#graceMs = graceMs;
  }

  /** `token` events that the reader was too slow for. */
  get dropped(): number {
    return this.#dropped;
  }

  push(event: AgentEvent): void {
    if (this.#ended || this.#closed) return;
    const full = this.#events.length >= CAPACITY;
    if (event.type === "token" && this.#overflow === "merge" && this.#join(event, Infinity)) return;
    if (event.type === "token" && this.#overflow === "drop" && full && this.#join(event, JOINED)) return;
    this.#events.push(event);
    if (this.#overflow === "drop" && full) this.#overflowed();
    this.#notify();
  }

  /** No more events will come. */
  end(): void {
    this.#ended = true;
    this.#inTime();
    this.#notify();
  }

  async next(): Promise<IteratorResult<AgentEvent, undefined>> {
    for (;;) {
      const event = this.#events.shift();
      if (event !== undefined) {
        if (this.#events.length < CAPACITY) this.#inTime();
        return { value: event, done: false };
      }
      if (this.#ended || this.#closed) return { value: undefined, done: true };
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** The reader leaves; the run goes on unheard. */
  return(): Promise<IteratorResult<AgentEvent, undefined>> {
    this.#closed = true;
    this.#events = [];
    this.#inTime();
    this.#notify();
    return Promise.resolve({ value: undefined, done: true });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  #join(event: TokenEvent, most: number): boolean {
    const last = this.#events.at(-1);
    if (last?.type !== "token" || last.messageId !== event.messageId) return false;
    for (const kind of ["text", "reasoning"] as const) {
      const [before, more] = [last[kind], event[kind]];
      if (before === undefined || more === undefined || before.length + more.length > most) continue;
      this.#events[this.#events.length - 1] = { ...last, [kind]: before + more };
      return true;
    }
    return false;
  }

  #overflowed(): void {
    if (this.#slow) this.#shed();
    else
      this.#grace ??= setTimeout(() => {
        // Timers come before sockets in a turn of the event loop: a process that was busy gives the reader its chance first.
        setImmediate(() => {
          if (this.#grace === undefined) return;
          this.#slow = true;
          this.#shed();
        });
      }, this.#graceMs).unref();
  }

  #inTime(): void {
    clearTimeout(this.#grace);
    this.#grace = undefined;
    this.#slow = false;
  }

  /** Drop the oldest tokens that are too many. */
  #shed(): void {
    let over = this.#events.length - CAPACITY;
    this.#events = this.#events.filter((event) => {
      if (over <= 0 || event.type !== "token") return true;
      over -= 1;
      this.#dropped += 1;
      return false;
    });
  }
}
