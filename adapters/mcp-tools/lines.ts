import { setTimeout as sleep } from "node:timers/promises";

/** Maximum size of one message, in bytes. */
export const MAX_MESSAGE_BYTES = 8 * 1024 * 1024;

/** Longest continuous work before other tasks get a turn. */
const MAX_STRETCH_MS = 8;

export class MessageSplitter {
  #held: Buffer[] = [];
  #size = 0;

  /** Returns the lines that end in this chunk, without the line feed. Throws if a line exceeds `MESSAGE_BYTES`. */
  push(piece: Buffer): Buffer[] {
    const lines: Buffer[] = [];
    let from = 0;
    for (let at = piece.indexOf(10); at !== -1; at = piece.indexOf(10, from)) {
      this.#hold(piece.subarray(from, at));
      lines.push(this.#held.length === 1 ? this.#held[0]! : Buffer.concat(this.#held));
      this.#held = [];
      this.#size = 0;
      from = at + 1;
    }
    if (from < piece.length) this.#hold(piece.subarray(from));
    return lines;
  }

  #hold(bytes: Buffer): void {
    this.#size += bytes.length;
    if (this.#size > MAX_MESSAGE_BYTES)
      throw new Error(`the server sent a message larger than ${MAX_MESSAGE_BYTES / 1024 / 1024} MB`);
    this.#held.push(bytes);
  }
}

/** Keeps a server that sends without pause from blocking the process: after each stretch of work it waits as long. */
export class WorkThrottle {
  #startedAt = performance.now();
  #waitedAt = performance.now();

  /** Call between two pieces of work. */
  async next(): Promise<void> {
    const now = performance.now();
    // If the last wait is long ago, the input itself arrived with pauses: then 1 ms is enough.
    if (now - this.#startedAt < MAX_STRETCH_MS) return;
    await sleep(now - this.#waitedAt > 2 * MAX_STRETCH_MS ? 1 : MAX_STRETCH_MS);
    this.#startedAt = this.#waitedAt = performance.now();
  }

  /** No input was available: the next stretch begins. */
  idle(): void {
    this.#startedAt = performance.now();
  }
}
