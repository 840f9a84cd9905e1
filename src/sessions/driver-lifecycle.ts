import { TaskSet } from "../base/task-set.js";
import { GantryError, StoreError } from "../ports/errors.js";

/** Why a store failed; `full` and `unavailable` as in `StoreError`. */
export interface StoreFailure {
  why: string;
  full?: boolean;
  unavailable?: boolean;
}

/** What a driver's life is made of. */
export interface DriverLifeOptions<Opened> {
  /** Where the store is, for messages. */
  where: string;
  /** Ready the store. Called again when the driver is opened again, also after a failure; never twice at once. */
  open: () => Promise<Opened>;
  /** Let go of it all. Called when nothing is under way any more. */
  close: (opened: Opened) => Promise<void> | void;
  /** What to tell of a failure that is not one of the system's own. Left out: its message. */
  explain?: ((error: unknown) => StoreFailure | undefined) | undefined;
}

/** A session driver's life: opened once however often it is asked, closed when nothing is under way, and between the two every failure a `StoreError` that says where and why. */
export class DriverLife<Opened> {
  readonly #options: DriverLifeOptions<Opened>;
  readonly #underWay = new TaskSet();
  #opening: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #opened: { value: Opened } | undefined;

  constructor(options: DriverLifeOptions<Opened>) {
    this.#options = options;
  }

  /** As `SessionDriver.open`. */
  async open(): Promise<void> {
    // Without a turn in between where there is nothing to wait for: a close that comes next must find it.
    if (this.#closing) await this.#closing;
    this.#opening ??= this.#start();
    await this.#opening;
  }

  /** As `SessionDriver.close`. */
  async close(): Promise<void> {
    this.#closing ??= this.#stop().finally(() => (this.#closing = undefined));
    await this.#closing;
  }

  /** Work on the open store, begun at once. Rejects with `StoreError`, also when it is not open; our own errors come as they are. */
  async do<T>(work: (opened: Opened) => Promise<T>): Promise<T> {
    try {
      if (!this.#opened) throw new Error("not open");
      return await this.#underWay.add(work(this.#opened.value));
    } catch (error) {
      throw this.#failure(error);
    }
  }

  async #start(): Promise<void> {
    try {
      this.#opened = { value: await this.#options.open() };
    } catch (error) {
      this.#opening = undefined;
      throw this.#failure(error);
    }
  }

  async #stop(): Promise<void> {
    await this.#opening?.catch(() => undefined);
    const opened = this.#opened;
    // From here on nothing new is taken; what was taken is waited for.
    this.#opened = undefined;
    this.#opening = undefined;
    if (!opened) return;
    await this.#underWay.settled();
    await this.#options.close(opened.value);
  }

  #failure(error: unknown): Error {
    if (error instanceof GantryError) return error;
    const message = error instanceof Error ? error.message : String(error);
    const { why, ...kind } = this.#options.explain?.(error) ?? systemFailure(error) ?? { why: message };
    return new StoreError(`session store ${this.#options.where}: ${why}`, { cause: error, ...kind });
  }
}

/** What the system says of a file on a disk that is not there now: of another host, or pulled out. */
const AWAY: ReadonlySet<string> = new Set([
  "ESTALE",
  "ENOTCONN",
  "ETIMEDOUT",
  "EHOSTDOWN",
  "EHOSTUNREACH",
  "ENODEV",
  "ENXIO",
]);

/** What to do about a disk that is full or a file that cannot be written; undefined for all else. */
function systemFailure(error: unknown): StoreFailure | undefined {
  const { code } = error as { code?: unknown };
  if (typeof code === "string" && AWAY.has(code))
    return { why: `its disk cannot be reached (${code})`, unavailable: true };
  if (code === "ENOSPC" || code === "EDQUOT")
    return { why: `there is no room left; free some and try again (${code})`, full: true };
  if (code === "EACCES" || code === "EPERM" || code === "EROFS")
    return { why: `it cannot be written; check who owns it (${code})` };
  return undefined;
}
