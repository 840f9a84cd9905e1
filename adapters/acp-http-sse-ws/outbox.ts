/** A serialized message with its size and session. */
export interface QueuedMessage {
  readonly text: string;
  readonly bytes: number;
  readonly sessionId: string | undefined;
}

/** Maximum bytes that a socket has accepted but not written; further messages are queued. */
const MAX_IN_FLIGHT_BYTES = 256 * 1024;
/** Maximum messages and bytes that are queued for a reader that does not read. */
export const MAX_QUEUED_MESSAGES = 1_000;
export const MAX_QUEUED_BYTES = 8 * 1024 * 1024;

/** Output queue of one stream or socket, with backpressure. */
export class Outbox {
  readonly #push: (text: string, done: (error?: Error | null) => void) => void;
  readonly #onOverflow: () => void;
  readonly #inFlight = new Set<QueuedMessage>();
  #queue: QueuedMessage[] = [];
  #inFlightBytes = 0;
  #queuedBytes = 0;
  #waiting: (() => void)[] = [];
  #closed = false;

  /** `push` sends a text and calls back when it is written. `onOverflow` is called when the queue exceeds its limit. */
  constructor(push: (text: string, done: (error?: Error | null) => void) => void, onOverflow: () => void) {
    this.#push = push;
    this.#onOverflow = onOverflow;
  }

  write(message: QueuedMessage): void {
    if (this.#closed) return;
    this.#queue.push(message);
    this.#queuedBytes += message.bytes;
    this.#pump();
    if (isOverLimit(this.#queue.length, this.#queuedBytes)) this.#onOverflow();
  }

  /** Resolves when the queue is empty; undefined if it is empty now. */
  ready(): Promise<void> | undefined {
    if (this.#closed || (this.#queue.length === 0 && this.#inFlightBytes < MAX_IN_FLIGHT_BYTES)) return undefined;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Resolves when everything is written, or after `ms`. */
  async flushed(ms: number): Promise<void> {
    const end = Date.now() + ms;
    while (!this.#closed && this.#queue.length + this.#inFlight.size > 0 && Date.now() < end) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** Stops sending and returns the messages that were not written, in order. */
  stop(): QueuedMessage[] {
    if (this.#closed) return [];
    this.#closed = true;
    const unsent = [...this.#inFlight, ...this.#queue];
    this.#queue = [];
    this.#inFlight.clear();
    for (const resolve of this.#waiting.splice(0)) resolve();
    return unsent;
  }

  #pump(): void {
    while (this.#inFlightBytes < MAX_IN_FLIGHT_BYTES) {
      const message = this.#queue.shift();
      if (!message) break;
      this.#queuedBytes -= message.bytes;
      this.#inFlightBytes += message.bytes;
      this.#inFlight.add(message);
      this.#push(message.text, (error) => {
        // A failed message stays unsent until the stream closes.
        if (error || this.#closed) return;
        this.#inFlight.delete(message);
        this.#inFlightBytes -= message.bytes;
        this.#pump();
        if (this.#queue.length > 0 || this.#inFlightBytes >= MAX_IN_FLIGHT_BYTES) return;
        for (const resolve of this.#waiting.splice(0)) resolve();
      });
    }
  }
}

/** Whether a queue exceeds its limits. A single message never does. */
export function isOverLimit(messages: number, bytes: number): boolean {
  return messages > MAX_QUEUED_MESSAGES || (messages > 1 && bytes > MAX_QUEUED_BYTES);
}
