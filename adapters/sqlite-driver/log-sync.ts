import { closeSync, fdatasync, openSync, realpathSync } from "node:fs";

/**
 * Brings the write-ahead log to the disk, beside the event loop, which a commit with `synchronous = FULL` would stop. It is
 * as safe: a commit that is done has written its frames to the log, in order, and a checkpoint syncs the log before it
 * takes any of them into the database.
 */
export class LogSync {
  readonly #path: string;
  #file: number | undefined;
  /** Whether the log grew since the last sync began. */
  #grown = false;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  /** `path`: of the database, which is open. */
  constructor(path: string) {
    this.#path = path;
  }

  /** A commit of this process is done. */
  committed(): void {
    this.#grown = true;
  }

  /** Resolves when all that was committed until now is on the disk. One sync at a time; who comes meanwhile shares the next. */
  synced(): Promise<void> {
    if (!this.#grown) return this.#running ?? Promise.resolve();
    if (!this.#running) return this.#begin();
    return (this.#next ??= this.#running
      .catch(() => undefined)
      .then(() => {
        this.#next = undefined;
        return this.#begin();
      }));
  }

  /** When nothing is under way any more. */
  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  #begin(): Promise<void> {
    this.#grown = false;
    return (this.#running = this.#sync().finally(() => (this.#running = undefined)));
  }

  async #sync(): Promise<void> {
    try {
      // The log lies beside the file itself, whatever links lead there. Writable: Windows syncs nothing else.
      const file = (this.#file ??= openSync(`${realpathSync(this.#path)}-wal`, "r+"));
      await new Promise<void>((resolve, reject) => fdatasync(file, (error) => (error ? reject(error) : resolve())));
    } catch (error) {
      this.#grown = true;
      throw error;
    }
  }
}
