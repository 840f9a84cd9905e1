/** A message on its way, and the session that it belongs to. */
export interface Letter {
  readonly text: string;
  readonly bytes: number;
  readonly sessionId: string | undefined;
}

/** Bytes handed to a socket that it has not taken yet; beyond it messages wait here. */
const IN_FLIGHT = 256 * 1024;
/** What may wait for a reader that does not read. */
export const MAX_LETTERS = 1_000;
export const MAX_BYTES = 8 * 1024 * 1024;

/** A way to a client, one stream or socket: as many as it takes are handed over, the others wait. */
export class Outbox {
  readonly #push: (text: string, done: (error?: Error | null) => void) => void;
  readonly #onOverflow: () => void;
  readonly #flying = new Set<Letter>();
  #queue: Letter[] = [];
  #flyingBytes = 0;
  #queuedBytes = 0;
  #waiting: (() => void)[] = [];
  #closed = false;

  /** `push` hands a text over and calls back when it is taken. `onOverflow`: more waits than is allowed. */
  constructor(push: (text: string, done: (error?: Error | null) => void) => void, onOverflow: () => void) {
    this.#push = push;
    this.#onOverflow = onOverflow;
  }

  write(letter: Letter): void {
    if (this.#closed) return;
    this.#queue.push(letter);
    this.#queuedBytes += letter.bytes;
    this.#pump();
    if (isTooMuch(this.#queue.length, this.#queuedBytes)) this.#onOverflow();
  }

  /** Resolves when nothing waits; undefined when nothing does now. */
  ready(): Promise<void> | undefined {
    if (this.#closed || (this.#queue.length === 0 && this.#flyingBytes < IN_FLIGHT)) return undefined;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Resolves when everything is taken, or after `ms`. */
  async flushed(ms: number): Promise<void> {
    const end = Date.now() + ms;
    while (!this.#closed && this.#queue.length + this.#flying.size > 0 && Date.now() < end) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** Take no more; returns what never got through, in order. */
  empty(): Letter[] {
    if (this.#closed) return [];
    this.#closed = true;
    const unsent = [...this.#flying, ...this.#queue];
    this.#queue = [];
    this.#flying.clear();
    for (const resolve of this.#waiting.splice(0)) resolve();
    return unsent;
  }

  #pump(): void {
    while (this.#flyingBytes < IN_FLIGHT) {
      const letter = this.#queue.shift();
      if (!letter) break;
      this.#queuedBytes -= letter.bytes;
      this.#flyingBytes += letter.bytes;
      this.#flying.add(letter);
      this.#push(letter.text, (error) => {
        // What failed stays among the unsent until the stream says that it is closed.
        if (error || this.#closed) return;
        this.#flying.delete(letter);
        this.#flyingBytes -= letter.bytes;
        this.#pump();
        if (this.#queue.length > 0 || this.#flyingBytes >= IN_FLIGHT) return;
        for (const resolve of this.#waiting.splice(0)) resolve();
      });
    }
  }
}

/** Whether more waits than a client may leave lying. One message alone is never too much. */
export function isTooMuch(letters: number, bytes: number): boolean {
  return letters > MAX_LETTERS || (letters > 1 && bytes > MAX_BYTES);
}
