import { setTimeout as sleep } from "node:timers/promises";

/** Bytes of one message. */
export const MESSAGE_BYTES = 8 * 1024 * 1024;

/** Work that was done at a stretch, in ms, before others have their turn. */
const STRETCH_MS = 8;

/** Cuts bytes into lines. */
export class Lines {
  #held: Buffer[] = [];
  #size = 0;

  /** The lines that end in `piece`. Throws when one is longer than a message may be. */
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
    if (this.#size > MESSAGE_BYTES) throw new Error(`it sent a message of more than ${MESSAGE_BYTES / 1024 / 1024} MB`);
    this.#held.push(bytes);
  }
}

/** Keeps whoever talks without end from having all the time there is: after each stretch of work as much is waited. */
export class Turns {
  #began = performance.now();
  #waited = performance.now();

  /** To be awaited between two pieces of work. */
  async next(): Promise<void> {
    const now = performance.now();
    // What came late was waited for.
    if (now - this.#began < STRETCH_MS) return;
    await sleep(now - this.#waited > 2 * STRETCH_MS ? 1 : STRETCH_MS);
    this.#began = this.#waited = performance.now();
  }

  /** Nothing was there to do: the next stretch begins. */
  idle(): void {
    this.#began = performance.now();
  }
}
