import { TaskSet } from "../base/task-set.js";
import { GantryError, StoreError } from "../ports/errors.js";

/** Reason of a store failure. The other fields are as in `StoreError`. */
export interface StoreFailure {
  reason: string;
  isFull?: boolean;
  isUnavailable?: boolean;
  lockHolder?: string;
}

/** Options of `DriverLifecycle`. */
export interface DriverLifecycleOptions<Opened> {
  /** Location of the store, for messages. */
  location: string;
  /** Opens the store. Also called to reopen the driver and after a failure; never concurrently. */
  open: () => Promise<Opened>;
  /** Releases all resources. Called when no work is active. */
  close: (opened: Opened) => Promise<void> | void;
  /**
   * Explains an error that is not a system error. If this function or its result is undefined, the message of the error
   * is used.
   */
  explain?: ((error: unknown) => StoreFailure | undefined) | undefined;
}

/**
 * Lifecycle of a session driver. The store opens once for any number of `open` calls and closes when no work is active.
 * Every failure in between becomes a `StoreError` with the location and the reason.
 */
export class DriverLifecycle<Opened> {
  readonly #options: DriverLifecycleOptions<Opened>;
  readonly #tasks = new TaskSet();
  #openPromise: Promise<void> | undefined;
  #closePromise: Promise<void> | undefined;
  /** The value of the open store; undefined while the store is not open. */
  #openedStore: { value: Opened } | undefined;

  constructor(options: DriverLifecycleOptions<Opened>) {
    this.#options = options;
  }

  /** Like `SessionDriver.open`. */
  async open(): Promise<void> {
    // Awaits only an active close: a `close` call that comes next must find `#openPromise` set.
    if (this.#closePromise) await this.#closePromise;
    this.#openPromise ??= this.#start();
    await this.#openPromise;
  }

  /** Like `SessionDriver.close`. */
  async close(): Promise<void> {
    this.#closePromise ??= this.#stop().finally(() => (this.#closePromise = undefined));
    await this.#closePromise;
  }

  /**
   * Starts work on the open store at once. Rejects with `StoreError`, also if the store is not open; a `GantryError`
   * passes unchanged.
   */
  async run<T>(work: (opened: Opened) => Promise<T>): Promise<T> {
    try {
      if (!this.#openedStore) throw new Error("not open");
      return await this.#tasks.add(work(this.#openedStore.value));
    } catch (error) {
      throw this.#toStoreError(error);
    }
  }

  async #start(): Promise<void> {
    try {
      this.#openedStore = { value: await this.#options.open() };
    } catch (error) {
      this.#openPromise = undefined;
      throw this.#toStoreError(error);
    }
  }

  async #stop(): Promise<void> {
    await this.#openPromise?.catch(() => undefined);
    const openedStore = this.#openedStore;
    // From here on new work is rejected; active work is awaited.
    this.#openedStore = undefined;
    this.#openPromise = undefined;
    if (!openedStore) return;
    await this.#tasks.settled();
    await this.#options.close(openedStore.value);
  }

  #toStoreError(error: unknown): Error {
    if (error instanceof GantryError) return error;
    const message = error instanceof Error ? error.message : String(error);
    const { reason, ...flags } = this.#options.explain?.(error) ?? explainSystemError(error) ?? { reason: message };
    return new StoreError(`session store ${this.#options.location}: ${reason}`, { cause: error, ...flags });
  }
}

/** System error codes for a file on an unavailable disk: on another host, or removed. */
const UNAVAILABLE_CODES: ReadonlySet<string> = new Set([
  "ESTALE",
  "ENOTCONN",
  "ETIMEDOUT",
  "EHOSTDOWN",
  "EHOSTUNREACH",
  "ENODEV",
  "ENXIO",
]);

/** Returns reason and remedy for a full or unavailable disk or an unwritable file; undefined for other errors. */
function explainSystemError(error: unknown): StoreFailure | undefined {
  const { code } = error as { code?: unknown };
  if (typeof code === "string" && UNAVAILABLE_CODES.has(code))
    return { reason: `its disk cannot be reached (${code})`, isUnavailable: true };
  if (code === "ENOSPC" || code === "EDQUOT")
    return { reason: `no space left; free some space and retry (${code})`, isFull: true };
  if (code === "EACCES" || code === "EPERM" || code === "EROFS")
    return { reason: `not writable; check its owner and permissions (${code})` };
  return undefined;
}
