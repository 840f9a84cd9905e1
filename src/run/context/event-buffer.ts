import { endOf } from "../../base/last-characters.js";
import type { AgentEvent } from "../../ports/events.js";
import type { RunInput } from "../../ports/run.js";

/** Undelivered events of one run beyond which a slow reader's `token` events are dropped. */
const CAPACITY = 256;
/** Most characters of a joined event where events are dropped, so that it is done in small pieces. */
const JOINED = 4096;
/** A reader that stays behind for so long, in ms, is slow; a burst is over sooner. */
const GRACE_MS = 1000;
const END: IteratorResult<AgentEvent, undefined> = { value: undefined, done: true };

/** Of what a running tool printed so many characters wait for the reader: the last. */
const PROGRESS = 64 * 1024;

type ProgressEvent = Extract<AgentEvent, { type: "tool_progress" }>;
type TokenEvent = Extract<AgentEvent, { type: "token" }>;

/**
 * Events between a run and its one reader. The run never waits. What comes after a silence is handed over at once, tokens
 * that follow in the same turn of the event loop at its end, adjacent ones of one message joined: a model or a gateway may
 * answer thousands of tokens before the reader's socket gets a turn. With `drop`, a reader that stays behind for a second
 * with more than 256 events loses the oldest tokens. With `merge` none is lost. What running tools print is joined too;
 * what nobody has read of it is gone with the tool's result, which says it all.
 */
export class EventBuffer implements AsyncIterableIterator<AgentEvent> {
  readonly #overflow: "drop" | "merge";
  /** Most characters of a joined event. */
  readonly #joined: number;
  #events: AgentEvent[] = [];
  /** Those that wait of what running tools printed, by call. */
  readonly #progress = new Map<string, ProgressEvent>();
  #ended = false;
  #closed = false;
  /** The reader waits. */
  #wake: ((result: IteratorResult<AgentEvent, undefined>) => void) | undefined;
  /** The reader had all there was, and gets what follows at the end of this turn of the event loop. */
  #resting = false;
  /** Runs while more than fits is waiting. */
  #grace: NodeJS.Timeout | undefined;
  #slow = false;
  #dropped = 0;

  constructor(overflow: NonNullable<RunInput["overflow"]>) {
    this.#overflow = overflow;
    this.#joined = overflow === "merge" ? Infinity : JOINED;
  }

  /** `token` events that the reader was too slow for. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Takes the event over: tokens that follow may be joined to it. */
  push(event: AgentEvent): void {
    if (this.#over) return;
    if (event.type === "token" && this.#join(event)) return;
    if (event.type === "tool_progress" && this.#joinProgress(event)) return;
    if (event.type === "tool_result") this.#drop(event.callId);
    this.#events.push(event);
    if (this.#overflow === "drop" && this.#events.length > CAPACITY) this.#overflowed();
    // Only tokens wait for what follows them.
    if (event.type !== "token") this.#resting = false;
    if (!this.#resting) this.#notify();
  }

  /** No more events will come. */
  end(): void {
    this.#ended = true;
    this.#inTime();
    this.#notify();
  }

  next(): Promise<IteratorResult<AgentEvent, undefined>> {
    const result = this.#resting && !this.#over ? undefined : this.#take();
    return result ? Promise.resolve(result) : new Promise((resolve) => (this.#wake = resolve));
  }

  /** The reader leaves; the run goes on unheard. */
  return(): Promise<IteratorResult<AgentEvent, undefined>> {
    this.#closed = true;
    this.#events = [];
    this.#progress.clear();
    this.#inTime();
    this.#notify();
    return Promise.resolve(END);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  get #over(): boolean {
    return this.#ended || this.#closed;
  }

  /** The next event, or the end; undefined when there is neither. */
  #take(): IteratorResult<AgentEvent, undefined> | undefined {
    const event = this.#events.shift();
    if (event === undefined) return this.#over ? END : undefined;
    if (event.type === "tool_progress") this.#progress.delete(event.callId);
    if (this.#events.length < CAPACITY) this.#inTime();
    if (this.#events.length === 0) this.#rest();
    return { value: event, done: false };
  }

  #rest(): void {
    if (this.#resting) return;
    this.#resting = true;
    setImmediate(() => {
      this.#resting = false;
      this.#notify();
    });
  }

  #notify(): void {
    const wake = this.#wake;
    const result = wake && this.#take();
    if (!result) return;
    this.#wake = undefined;
    wake?.(result);
  }

  #join(event: TokenEvent): boolean {
    const last = this.#events.at(-1);
    if (last?.type !== "token" || last.messageId !== event.messageId) return false;
    if (last.text !== undefined && event.text !== undefined && last.text.length + event.text.length <= this.#joined)
      last.text += event.text;
    else if (
      last.reasoning !== undefined &&
      event.reasoning !== undefined &&
      last.reasoning.length + event.reasoning.length <= this.#joined
    )
      last.reasoning += event.reasoning;
    else return false;
    return true;
  }

  #joinProgress(event: ProgressEvent): boolean {
    const waiting = this.#progress.get(event.callId);
    if (waiting) waiting.text = endOf(waiting.text + event.text, PROGRESS);
    else this.#progress.set(event.callId, event);
    return waiting !== undefined;
  }

  #drop(callId: string): void {
    const waiting = this.#progress.get(callId);
    if (!waiting) return;
    this.#progress.delete(callId);
    this.#events.splice(this.#events.lastIndexOf(waiting), 1);
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
      }, GRACE_MS).unref();
  }

  #inTime(): void {
    clearTimeout(this.#grace);
    this.#grace = undefined;
    this.#slow = false;
  }

  /** Drop the oldest tokens that are too many, and before them what tools printed. */
  #shed(): void {
    for (const callId of [...this.#progress.keys()]) this.#drop(callId);
    let over = this.#events.length - CAPACITY;
    this.#events = this.#events.filter((event) => {
      if (over <= 0 || event.type !== "token") return true;
      over -= 1;
      this.#dropped += 1;
      return false;
    });
  }
}
