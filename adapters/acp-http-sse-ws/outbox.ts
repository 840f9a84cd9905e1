/** A serialized message with its size and session. */
export interface QueuedMessage {
  readonly text: string;
  readonly bytes: number;
  readonly sessionId: string | undefined;
}

/** Maximum bytes that a socket has accepted but not written; further messages are queued. */
const MAX_UNWRITTEN_BYTES = 256 * 1024;
/** Maximum messages and bytes that are queued for a reader that does not read. */
export const MAX_QUEUED_MESSAGES = 1_000;
export const MAX_QUEUED_BYTES = 8 * 1024 * 1024;

/** Output queue of one stream or socket, with backpressure. */
export class Outbox {
  readonly #sendText: (text: string, done: (error?: Error | null) => void) => void;
  readonly #onOverflow: () => void;
  readonly #unwrittenMessages = new Set<QueuedMessage>();
  #queue: QueuedMessage[] = [];
  #unwrittenBytes = 0;
  #queuedBytes = 0;
  #readyResolvers: (() => void)[] = [];
  #isClosed = false;

  /** `sendText` calls `done` when the text is written. `onOverflow` is called when the queue exceeds its limit. */
  constructor(sendText: (text: string, done: (error?: Error | null) => void) => void, onOverflow: () => void) {
    this.#sendText = sendText;
    this.#onOverflow = onOverflow;
  }

  write(message: QueuedMessage): void {
    if (this.#isClosed) return;
    this.#queue.push(message);
    this.#queuedBytes += message.bytes;
    this.#sendQueued();
    if (isOverLimit(this.#queue.length, this.#queuedBytes)) this.#onOverflow();
  }

  /** Resolves when the queue is empty and the socket can take more; undefined if this is so now. */
  waitUntilReady(): Promise<void> | undefined {
    if (this.#isClosed || (this.#queue.length === 0 && this.#unwrittenBytes < MAX_UNWRITTEN_BYTES)) return undefined;
    return new Promise((resolve) => this.#readyResolvers.push(resolve));
  }

  /** Resolves when everything is written, or after the timeout. */
  async waitUntilWritten(timeoutMs: number): Promise<void> {
    const deadlineMs = Date.now() + timeoutMs;
    while (!this.#isClosed && this.#queue.length + this.#unwrittenMessages.size > 0 && Date.now() < deadlineMs) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** Stops sending and returns the messages that were not written, in order. */
  stop(): QueuedMessage[] {
    if (this.#isClosed) return [];
    this.#isClosed = true;
    const unsentMessages = [...this.#unwrittenMessages, ...this.#queue];
    this.#queue = [];
    this.#unwrittenMessages.clear();
    for (const resolve of this.#readyResolvers.splice(0)) resolve();
    return unsentMessages;
  }

  #sendQueued(): void {
    while (this.#unwrittenBytes < MAX_UNWRITTEN_BYTES) {
      const message = this.#queue.shift();
      if (!message) break;
      this.#queuedBytes -= message.bytes;
      this.#unwrittenBytes += message.bytes;
      this.#unwrittenMessages.add(message);
      this.#sendText(message.text, (error) => {
        // A failed message stays unsent until the stream closes.
        if (error || this.#isClosed) return;
        this.#unwrittenMessages.delete(message);
        this.#unwrittenBytes -= message.bytes;
        this.#sendQueued();
        if (this.#queue.length > 0 || this.#unwrittenBytes >= MAX_UNWRITTEN_BYTES) return;
        for (const resolve of this.#readyResolvers.splice(0)) resolve();
      });
    }
  }
}

/** Whether a queue exceeds its limits. A single message never does. */
export function isOverLimit(messageCount: number, byteCount: number): boolean {
  return messageCount > MAX_QUEUED_MESSAGES || (messageCount > 1 && byteCount > MAX_QUEUED_BYTES);
}
