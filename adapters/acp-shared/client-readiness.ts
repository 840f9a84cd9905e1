/** Dependencies of a `ClientReadiness`. */
export interface ClientReadinessDependencies {
  /** Resolves when the client reads the session's updates; undefined if the client reads now. */
  waitForReader(): Promise<void> | undefined;
  /** Resolves when the client can take more updates; undefined if the client can take more now. */
  waitUntilReady(): Promise<void> | undefined;
}

/** Delays updates until the client has an open stream or socket, and room in it. */
export class ClientReadiness {
  readonly #dependencies: ClientReadinessDependencies;
  #isAway = false;

  constructor(dependencies: ClientReadinessDependencies) {
    this.#dependencies = dependencies;
  }

  /** Whether updates wait because the client has no open stream or socket. */
  get isAway(): boolean {
    return this.#isAway;
  }

  /** Resolves when the client can take more updates, or the signal aborts. */
  async wait(signal: AbortSignal): Promise<void> {
    const { waitForReader, waitUntilReady } = this.#dependencies;
    for (let readerWait = waitForReader(); readerWait && !signal.aborted; readerWait = waitForReader()) {
      this.#isAway = true;
      await waitOrAbort(readerWait, signal);
    }
    this.#isAway = false;
    for (let capacityWait = waitUntilReady(); capacityWait && !signal.aborted; capacityWait = waitUntilReady())
      await waitOrAbort(capacityWait, signal);
  }
}

/** Settles like the promise, or resolves when the signal aborts. */
export async function waitOrAbort(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  let onAbort = (): void => undefined;
  const abort = new Promise<void>((resolve) => (onAbort = resolve));
  signal.addEventListener("abort", onAbort, { once: true });
  await Promise.race([promise, abort]).finally(() => signal.removeEventListener("abort", onAbort));
}
