import { TooManyRunsError } from "./errors.js";
import type { RunInput } from "./events.js";

/** A run's share of what all runs may take together. */
export interface RunPlace {
  /** Count bytes of its attachments. Throws `TooManyRunsError` when those of all runs would take too much memory. */
  reserve(bytes: number): void;
  /** It has ended. Safe to call twice. */
  leave(): void;
}

/** How many runs there may be, and how much they may hold. */
export class RunPlaces {
  readonly #runs: number;
  readonly #bytes: number;
  #active = 0;
  #held = 0;

  constructor(runs: number, bytes: number) {
    this.#runs = runs;
    this.#bytes = bytes;
  }

  /** Throws `TooManyRunsError`. */
  take(): RunPlace {
    if (this.#active >= this.#runs) throw new TooManyRunsError();
    this.#active += 1;
    let mine = 0;
    let here = true;
    return {
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
}

/** Bytes of attachments that are here already; their data is base64. */
export function attachedBytes({ attachments = [] }: RunInput): number {
  return attachments.reduce((sum, { data }) => sum + Math.floor((data.length * 3) / 4), 0);
}
