import { TooManyRunsError } from "../../ports/errors.js";
import type { RunInput } from "../../ports/run.js";

/** A run's share of the agent's capacity. */
export interface RunSlot {
  /**
   * Reads attachments when a reader is free. Few runs read at a time, so that they do not block each other with partly
   * reserved memory.
   */
  read<T>(work: () => Promise<T>): Promise<T>;
  /**
   * Reserves memory for attachments. Throws `TooManyRunsError` if the attachments of all runs would exceed the limit.
   */
  reserve(bytes: number): void;
  /** Releases the slot when the run ends. Idempotent. */
  release(): void;
}

/** Maximum runs that read their attachments at the same time. */
const READERS = 2;

/** Limits the number of runs and the memory of their attachments. */
export class RunLimiter {
  readonly #runs: number;
  readonly #bytes: number;
  #active = 0;
  #inLine = 0;
  #held = 0;
  #reading = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(runs: number, bytes: number) {
    this.#runs = runs;
    this.#bytes = bytes;
  }

  /** Whether a further run would be rejected. */
  get full(): boolean {
    return this.#active >= this.#runs;
  }

  /**
   * Reserves a place for a queued run. The number of queued runs has the same limit as active runs. Call the returned
   * function when the run leaves the queue. Throws `TooManyRunsError`.
   */
  wait(): () => void {
    if (this.#inLine >= this.#runs) throw new TooManyRunsError(1000, "too many runs in line");
    this.#inLine += 1;
    let here = true;
    return () => {
      if (here) this.#inLine -= 1;
      here = false;
    };
  }

  /** Takes a slot. Throws `TooManyRunsError` if none is free. */
  take(): RunSlot {
    if (this.full) throw new TooManyRunsError();
    this.#active += 1;
    let mine = 0;
    let here = true;
    return {
      read: (work) => this.#read(work),
      reserve: (bytes) => {
        if (this.#held + bytes > this.#bytes) throw new TooManyRunsError(1000, "too many attachments at once");
        this.#held += bytes;
        mine += bytes;
      },
      release: () => {
        if (!here) return;
        here = false;
        this.#active -= 1;
        this.#held -= mine;
      },
    };
  }

  async #read<T>(work: () => Promise<T>): Promise<T> {
    if (this.#reading >= READERS) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#reading += 1;
    try {
      return await work();
    } finally {
      // Hand the reader slot to the next run, or free it.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#reading -= 1;
    }
  }
}

/** Bytes of attachments whose data is in the input. The data is base64. */
export function attachedBytes({ attachments = [] }: RunInput): number {
  return attachments.reduce((sum, { data }) => sum + Math.floor((data.length * 3) / 4), 0);
}
