/** A serialized message with its size and session. */
export interface QueuedMessage {
  readonly text: string;
  /** Size of the text in UTF-8. */
  readonly bytes: number;
  /** Undefined for a message that belongs to no session. */
  readonly sessionId: string | undefined;
}

/** Maximum bytes that a socket has accepted but not written; further messages are queued. */
const MAX_UNWRITTEN_BYTES = 256 * 1024;
/** Maximum number of messages, and of bytes, that are queued for a client that does not read. */
export const MAX_QUEUED_MESSAGES = 1_000;
export const MAX_QUEUED_BYTES = 8 * 1024 * 1024;

const WRITTEN_POLL_INTERVAL_MS = 5;

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

  /** Resolves when the queue is empty and the socket can take more; undefined if both are true now. */
  waitUntilReady(): Promise<void> | undefined {
    if (this.#isClosed || (this.#queue.length === 0 && this.#unwrittenBytes < MAX_UNWRITTEN_BYTES)) return undefined;
    return new Promise((resolve) => this.#readyResolvers.push(resolve));
  }

  /** Resolves when all messages are written, or after the timeout. */
  async waitUntilWritten(timeoutMs: number): Promise<void> {
    const deadlineMs = Date.now() + timeoutMs;
    while (!this.#isClosed && this.#queue.length + this.#unwrittenMessages.size > 0 && Date.now() < deadlineMs) {
      await new Promise((resolve) => setTimeout(resolve, WRITTEN_POLL_INTERVAL_MS));
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

/** Whether a queue exceeds its limits. A single message never exceeds them. */
export function isOverLimit(messageCount: number, byteCount: number): boolean {
  return messageCount > MAX_QUEUED_MESSAGES || (messageCount > 1 && byteCount > MAX_QUEUED_BYTES);
}
