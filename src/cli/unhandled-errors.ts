const EVENTS = ["unhandledRejection", "uncaughtException"] as const;

/** Collects unhandled errors, which would otherwise end the process, until `close` is called. */
export class UnhandledErrors {
  /** Errors that occurred while no `claimNext` was active. */
  readonly unclaimedErrors: Error[] = [];
  #rejectNext: ((error: Error) => void) | undefined;
  readonly #listener = (reason: unknown): void => {
    const error = reason instanceof Error ? reason : new Error(`${String(reason)} was thrown`);
    if (this.#rejectNext) this.#rejectNext(error);
    else this.unclaimedErrors.push(error);
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

  /** Stops collecting. */
  close(): void {
    for (const event of EVENTS) process.off(event, this.#listener);
  }
}
