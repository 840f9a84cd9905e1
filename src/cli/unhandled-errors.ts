const EVENTS = ["unhandledRejection", "uncaughtException"] as const;
/** Broken work can fail again and again; further errors are ignored. */
const MAX_UNCLAIMED_ERRORS = 10;

/** Collects unhandled errors, which would otherwise end the process, until `close` is called. */
export class UnhandledErrors {
  /** Errors that occurred while no `claimNext` was active, with different messages. */
  readonly unclaimedErrors: Error[] = [];
  #rejectNext: ((error: Error) => void) | undefined;
  readonly #listener = (reason: unknown): void => {
    const error = reason instanceof Error ? reason : new Error(`${String(reason)} was thrown`);
    if (this.#rejectNext) this.#rejectNext(error);
    else this.#addUnclaimed(error);
    this.#rejectNext = undefined;
  };

  constructor() {
    for (const event of EVENTS) process.on(event, this.#listener);
  }

  /** Calls `work` with a promise that rejects with the next unhandled error. Settles like `work`. */
  async claimNext<T>(work: (nextError: Promise<never>) => Promise<T>): Promise<T> {
    const nextError = new Promise<never>((_resolve, reject) => (this.#rejectNext = reject));
    try {
      return await work(nextError);
    } finally {
      this.#rejectNext = undefined;
    }
  }

  #addUnclaimed(error: Error): void {
    const isKnown = this.unclaimedErrors.some(({ message }) => message === error.message);
    if (!isKnown && this.unclaimedErrors.length < MAX_UNCLAIMED_ERRORS) this.unclaimedErrors.push(error);
  }

  /** Stops collecting. */
  close(): void {
    for (const event of EVENTS) process.off(event, this.#listener);
  }
}
