const EVENTS = ["unhandledRejection", "uncaughtException"] as const;

/** Collects the unhandled errors of the process, which would otherwise end it. Call `close` to stop. */
export class UnhandledErrors {
  /** Errors that occurred while nothing waited for the next one. */
  readonly unclaimed: Error[] = [];
  #reject: ((error: Error) => void) | undefined;
  readonly #listener = (reason: unknown): void => {
    const error = reason instanceof Error ? reason : new Error(`${String(reason)} was thrown`);
    if (this.#reject) this.#reject(error);
    else this.unclaimed.push(error);
    this.#reject = undefined;
  };

  constructor() {
    for (const event of EVENTS) process.on(event, this.#listener);
  }

  /** Calls `use` with a promise that rejects with the next unhandled error. */
  async claimNext<T>(use: (nextError: Promise<never>) => Promise<T>): Promise<T> {
    const nextError = new Promise<never>((_resolve, reject) => (this.#reject = reject));
    try {
      return await use(nextError);
    } finally {
      this.#reject = undefined;
    }
  }

  close(): void {
    for (const event of EVENTS) process.off(event, this.#listener);
  }
}
