import { lastCharacters } from "../../base/last-characters.js";
import type { AgentEvent } from "../../ports/events.js";
import type { RunInput } from "../../ports/run.js";

/** Maximum undelivered events of one run. Above it, a slow reader's `token` events are dropped. */
const MAX_EVENTS = 256;
/** Maximum characters of a joined event with `drop`, so that events are dropped in small units. */
const MAX_JOINED_CHARACTERS = 4096;
/** Time over capacity after which a reader counts as slow, in ms. A burst is shorter. */
const SLOW_READER_MS = 1000;
const END_RESULT: IteratorResult<AgentEvent, undefined> = { value: undefined, done: true };

/** Maximum undelivered characters of a running tool's output. Only the last characters are kept. */
const MAX_PROGRESS_CHARACTERS = 64 * 1024;

type ProgressEvent = Extract<AgentEvent, { type: "tool_progress" }>;
type TokenEvent = Extract<AgentEvent, { type: "token" }>;

/**
 * Events between a run and its only reader. The run never waits for the reader.
 *
 * The first event after a pause is delivered at once. Tokens that follow in the same turn of the event loop are
 * delivered at its end. Adjacent tokens of one message are joined, because thousands of tokens may arrive before the
 * reader's socket gets a turn.
 *
 * With `drop`, a reader that has more than 256 undelivered events for a second loses the oldest tokens. With `merge` no
 * token is lost. Output of running tools is joined too. Unread output is dropped when the tool's result arrives,
 * because the result contains it.
 */
export class EventBuffer implements AsyncIterableIterator<AgentEvent> {
  readonly #overflow: "drop" | "merge";
  readonly #maxJoinedCharacters: number;
  #events: AgentEvent[] = [];
  /** Undelivered output events of running tools, by call id. */
  readonly #progress = new Map<string, ProgressEvent>();
  /** Whether the run has ended. The reader still receives the remaining events. */
  #hasEnded = false;
  /** Whether the reader has stopped. */
  #isClosed = false;
  /** Set while the reader waits. */
  #resolveNext: ((result: IteratorResult<AgentEvent, undefined>) => void) | undefined;
  /**
   * Whether the reader has received all events. Following tokens are then delivered at the end of this turn of the
   * event loop.
   */
  #isIdle = false;
  /** Runs while the buffer is over capacity. */
  #slowTimer: NodeJS.Timeout | undefined;
  /** Whether the buffer has been over capacity for `SLOW_READER_MS`. */
  #isSlow = false;
  #droppedTokens = 0;

  constructor(overflow: NonNullable<RunInput["overflow"]>) {
    this.#overflow = overflow;
    this.#maxJoinedCharacters = overflow === "merge" ? Infinity : MAX_JOINED_CHARACTERS;
  }

  get droppedTokenEvents(): number {
    return this.#droppedTokens;
  }

  /** Takes ownership of the event: following tokens may be joined to it. */
  push(event: AgentEvent): void {
    if (this.#isOver) return;
    if (event.type === "token" && this.#join(event)) return;
    if (event.type === "tool_progress" && this.#joinProgress(event)) return;
    if (event.type === "tool_result") this.#dropProgress(event.callId);
    this.#events.push(event);
    if (this.#overflow === "drop" && this.#events.length > MAX_EVENTS) this.#handleOverflow();
    // Only tokens wait for following events.
    if (event.type !== "token") this.#isIdle = false;
    if (!this.#isIdle) this.#notify();
  }

  end(): void {
    this.#hasEnded = true;
    this.#resetSlow();
    this.#notify();
  }

  next(): Promise<IteratorResult<AgentEvent, undefined>> {
    const result = this.#isIdle && !this.#isOver ? undefined : this.#take();
    return result ? Promise.resolve(result) : new Promise((resolve) => (this.#resolveNext = resolve));
  }

  /** The reader stops; the run continues without a reader. */
  return(): Promise<IteratorResult<AgentEvent, undefined>> {
    this.#isClosed = true;
    this.#events = [];
    this.#progress.clear();
    this.#resetSlow();
    this.#notify();
    return Promise.resolve(END_RESULT);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  get #isOver(): boolean {
    return this.#hasEnded || this.#isClosed;
  }

  /** Takes the next event, or the end of the stream. Returns undefined if neither is available. */
  #take(): IteratorResult<AgentEvent, undefined> | undefined {
    const event = this.#events.shift();
    if (event === undefined) return this.#isOver ? END_RESULT : undefined;
    if (event.type === "tool_progress") this.#progress.delete(event.callId);
    if (this.#events.length < MAX_EVENTS) this.#resetSlow();
    if (this.#events.length === 0) this.#setIdle();
    return { value: event, done: false };
  }

  #setIdle(): void {
    if (this.#isIdle) return;
    this.#isIdle = true;
    setImmediate(() => {
      this.#isIdle = false;
      this.#notify();
    });
  }

  #notify(): void {
    const wake = this.#resolveNext;
    const result = wake && this.#take();
    if (!result) return;
    this.#resolveNext = undefined;
    wake?.(result);
  }

  /** Joins a token event to the newest undelivered event. Returns false if that is not possible. */
  #join(event: TokenEvent): boolean {
    const lastEvent = this.#events.at(-1);
    if (lastEvent?.type !== "token" || lastEvent.messageId !== event.messageId) return false;
    if (
      lastEvent.text !== undefined &&
      event.text !== undefined &&
      lastEvent.text.length + event.text.length <= this.#maxJoinedCharacters
    )
      lastEvent.text += event.text;
    else if (
      lastEvent.reasoning !== undefined &&
      event.reasoning !== undefined &&
      lastEvent.reasoning.length + event.reasoning.length <= this.#maxJoinedCharacters
    )
      lastEvent.reasoning += event.reasoning;
    else return false;
    return true;
  }

  /** Joins output to the undelivered output event of the same call. Returns false if there is none. */
  #joinProgress(event: ProgressEvent): boolean {
    const unreadEvent = this.#progress.get(event.callId);
    if (unreadEvent) unreadEvent.text = lastCharacters(unreadEvent.text + event.text, MAX_PROGRESS_CHARACTERS);
    else this.#progress.set(event.callId, event);
    return unreadEvent !== undefined;
  }

  #dropProgress(callId: string): void {
    const unreadEvent = this.#progress.get(callId);
    if (!unreadEvent) return;
    this.#progress.delete(callId);
    this.#events.splice(this.#events.lastIndexOf(unreadEvent), 1);
  }

  #handleOverflow(): void {
    if (this.#isSlow) this.#dropOldest();
    else
      this.#slowTimer ??= setTimeout(() => {
        // Timers run before sockets in a turn of the event loop. After a busy period the reader gets a chance first.
        setImmediate(() => {
          if (this.#slowTimer === undefined) return;
          this.#isSlow = true;
          this.#dropOldest();
        });
      }, SLOW_READER_MS).unref();
  }

  #resetSlow(): void {
    clearTimeout(this.#slowTimer);
    this.#slowTimer = undefined;
    this.#isSlow = false;
  }

  /** Drops undelivered tool output, then the oldest tokens above capacity. */
  #dropOldest(): void {
    for (const callId of [...this.#progress.keys()]) this.#dropProgress(callId);
    let excessEvents = this.#events.length - MAX_EVENTS;
    this.#events = this.#events.filter((event) => {
      if (excessEvents <= 0 || event.type !== "token") return true;
      excessEvents -= 1;
      this.#droppedTokens += 1;
      return false;
    });
  }
}
