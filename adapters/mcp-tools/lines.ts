import { setTimeout as sleep } from "node:timers/promises";

export const MAX_MESSAGE_BYTES = 8 * 1024 * 1024;

const LINE_FEED = 10;

/** Maximum continuous work before other tasks get a turn. */
const MAX_WORK_MS = 8;

/** Splits a stream of chunks into lines; each line is one message. */
export class MessageSplitter {
  #chunks: Buffer[] = [];
  #bytes = 0;

  /** Returns the lines that end in this chunk, without the line feed. Throws if a line exceeds `MAX_MESSAGE_BYTES`. */
  push(chunk: Buffer): Buffer[] {
    const lines: Buffer[] = [];
    let start = 0;
    for (let lineEnd = chunk.indexOf(LINE_FEED); lineEnd !== -1; lineEnd = chunk.indexOf(LINE_FEED, start)) {
      this.#add(chunk.subarray(start, lineEnd));
      lines.push(this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks));
      this.#chunks = [];
      this.#bytes = 0;
      start = lineEnd + 1;
    }
    if (start < chunk.length) this.#add(chunk.subarray(start));
    return lines;
  }

  #add(bytes: Buffer): void {
    this.#bytes += bytes.length;
    if (this.#bytes > MAX_MESSAGE_BYTES)
      throw new Error(`the server sent a message larger than ${MAX_MESSAGE_BYTES / 1024 / 1024} MB`);
    this.#chunks.push(bytes);
  }
}

/**
 * Keeps a server that sends without pause from blocking the process: after each `MAX_WORK_MS` of work, waits as long.
 */
export class WorkThrottle {
  #startedAtMs = performance.now();
  #waitedAtMs = performance.now();

  /** Call between two pieces of work. */
  async yieldIfNeeded(): Promise<void> {
    const nowMs = performance.now();
    if (nowMs - this.#startedAtMs < MAX_WORK_MS) return;
    // If the last wait is long ago, the input itself arrived with pauses: then 1 ms is enough.
    await sleep(nowMs - this.#waitedAtMs > 2 * MAX_WORK_MS ? 1 : MAX_WORK_MS);
    this.#startedAtMs = this.#waitedAtMs = performance.now();
  }

  /** Call if no input was available: the measured work starts again. */
  markIdle(): void {
    this.#startedAtMs = performance.now();
  }
}
