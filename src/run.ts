import type { AgentEvent, Run, RunInput, RunResult } from "./events.js";
import type { Model } from "./ports/model-provider.js";

/** Undelivered events of one run beyond which `token` events are dropped. */
const CAPACITY = 256;

/**
 * Events between a run and its one reader. The run never waits: what the reader does not take in time is dropped or
 * joined, `token` events alone.
 */
export class EventBuffer implements AsyncIterableIterator<AgentEvent> {
  readonly #overflow: "drop" | "merge";
  #events: AgentEvent[] = [];
  #tokens = 0;
  #ended = false;
  #closed = false;
  #wake: (() => void) | undefined;

  constructor(overflow: NonNullable<RunInput["overflow"]>) {
    this.#overflow = overflow;
  }

  push(event: AgentEvent): void {
    if (this.#ended || this.#closed) return;
    if (event.type === "token") {
      if (this.#overflow === "merge" && this.#join(event)) return;
      if (this.#overflow === "drop" && this.#events.length >= CAPACITY && !this.#dropOldest()) return;
      this.#tokens += 1;
    } else if (this.#overflow === "drop" && this.#events.length >= CAPACITY) this.#dropOldest();
    this.#events.push(event);
    this.#notify();
  }

  /** No more events will come. */
  end(): void {
    this.#ended = true;
    this.#notify();
  }

  async next(): Promise<IteratorResult<AgentEvent, undefined>> {
    for (;;) {
      const event = this.#events.shift();
      if (event !== undefined) {
        if (event.type === "token") this.#tokens -= 1;
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

  #join(event: Extract<AgentEvent, { type: "token" }>): boolean {
    const last = this.#events.at(-1);
    if (last?.type !== "token" || last.messageId !== event.messageId) return false;
    if (event.text !== undefined && last.text !== undefined) {
      this.#events[this.#events.length - 1] = { ...last, text: last.text + event.text };
      return true;
    }
    if (event.reasoning !== undefined && last.reasoning !== undefined) {
      this.#events[this.#events.length - 1] = { ...last, reasoning: last.reasoning + event.reasoning };
      return true;
    }
    return false;
  }

  /** Whether a token event was there to drop. */
  #dropOldest(): boolean {
    if (this.#tokens === 0) return false;
    this.#events.splice(
      this.#events.findIndex((event) => event.type === "token"),
      1,
    );
    this.#tokens -= 1;
    return true;
  }
}

/** A run that is going: its buffer and its result. */
export class ActiveRun implements Run {
  readonly sessionId: string;
  readonly provider: string;
  readonly model: Model;
  readonly result: Promise<RunResult>;
  readonly #buffer: EventBuffer;

  constructor(parts: {
    sessionId: string;
    provider: string;
    model: Model;
    buffer: EventBuffer;
    result: Promise<RunResult>;
  }) {
    this.sessionId = parts.sessionId;
    this.provider = parts.provider;
    this.model = parts.model;
    this.#buffer = parts.buffer;
    this.result = parts.result;
    // Whoever only reads events must not bring the process down by an unhandled rejection.
    this.result.catch(() => undefined);
  }

  [Symbol.asyncIterator](): AsyncIterator<AgentEvent> {
    return this.#buffer;
  }
}
