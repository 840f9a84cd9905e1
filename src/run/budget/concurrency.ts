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
const MAX_READERS = 2;

/** Limits the number of runs and the memory of their attachments. */
export class RunLimiter {
  readonly #maxRuns: number;
  readonly #maxBytes: number;
  #active = 0;
  #queued = 0;
  #reservedBytes = 0;
  #activeReaders = 0;
  readonly #waitingReaders: (() => void)[] = [];

  constructor(runs: number, bytes: number) {
    this.#maxRuns = runs;
    this.#maxBytes = bytes;
  }

  /** Whether a further run would be rejected. */
  get full(): boolean {
    return this.#active >= this.#maxRuns;
  }

  /**
   * Reserves a place for a queued run. The number of queued runs has the same limit as active runs. Call the returned
   * function when the run leaves the queue. Throws `TooManyRunsError`.
   */
  wait(): () => void {
    if (this.#queued >= this.#maxRuns) throw new TooManyRunsError(1000, "too many queued runs");
    this.#queued += 1;
    let isWaiting = true;
    return () => {
      if (isWaiting) this.#queued -= 1;
      isWaiting = false;
    };
  }

  /** Takes a slot. Throws `TooManyRunsError` if none is free. */
  take(): RunSlot {
    if (this.full) throw new TooManyRunsError();
    this.#active += 1;
    let reservedBytes = 0;
    let isActive = true;
    return {
      read: (work) => this.#read(work),
      reserve: (bytes) => {
        if (this.#reservedBytes + bytes > this.#maxBytes)
          throw new TooManyRunsError(1000, "too many attachments at once");
        this.#reservedBytes += bytes;
        reservedBytes += bytes;
      },
      release: () => {
        if (!isActive) return;
        isActive = false;
        this.#active -= 1;
        this.#reservedBytes -= reservedBytes;
      },
    };
  }

  async #read<T>(work: () => Promise<T>): Promise<T> {
    if (this.#activeReaders >= MAX_READERS) await new Promise<void>((resolve) => this.#waitingReaders.push(resolve));
    else this.#activeReaders += 1;
    try {
      return await work();
    } finally {
      // Hand the reader slot to the next run, or free it.
      const next = this.#waitingReaders.shift();
      if (next) next();
      else this.#activeReaders -= 1;
    }
  }
}

/** Bytes of attachments whose data is in the input. The data is base64. */
export function attachedBytes({ attachments = [] }: RunInput): number {
  return attachments.reduce((sum, { data }) => sum + Math.floor((data.length * 3) / 4), 0);
}
