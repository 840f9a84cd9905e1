import { TooManyRunsError } from "../../ports/errors.js";
import type { RunInput } from "../../ports/run.js";

/** A run's share of what all runs may take together. */
export interface RunPlace {
  /** Read attachments when it is this run's turn: few at a time, so that runs do not take each other's room piece by piece. */
  read<T>(work: () => Promise<T>): Promise<T>;
  /** Count bytes of its attachments. Throws `TooManyRunsError` when those of all runs would take too much memory. */
  reserve(bytes: number): void;
  /** It has ended. Safe to call twice. */
  leave(): void;
}

/** Runs that read their attachments at the same time. */
const READERS = 2;

/** How many runs there may be, and how much they may hold. */
export class RunPlaces {
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

  /** Whether another run would be refused. */
  get full(): boolean {
    return this.#active >= this.#runs;
  }

  /** A place in some session's line: as many may wait as may go on. Call what is returned when it waits no more. Throws `TooManyRunsError`. */
  wait(): () => void {
    if (this.#inLine >= this.#runs) throw new TooManyRunsError(1000, "too many runs in line");
    this.#inLine += 1;
    let here = true;
    return () => {
      if (here) this.#inLine -= 1;
      here = false;
    };
  }

  /** Throws `TooManyRunsError`. */
  take(): RunPlace {
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
      leave: () => {
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
      // The place goes to the next, or is free.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#reading -= 1;
    }
  }
}

/** Bytes of attachments that are here already; their data is base64. */
export function attachedBytes({ attachments = [] }: RunInput): number {
  return attachments.reduce((sum, { data }) => sum + Math.floor((data.length * 3) / 4), 0);
}
