import { closeSync, fdatasync, openSync, realpathSync } from "node:fs";

/**
 * Syncs the write-ahead log to disk without blocking the event loop, unlike a commit with `synchronous = FULL`. It is
 * equally safe. A completed commit has written its frames to the log in order. A checkpoint syncs the log before it
 * moves frames into the database.
 */
export class LogSync {
  readonly #path: string;
  #file: number | undefined;
  /** Whether the log grew since the last sync started. */
  #hasUnsynced = false;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  /** `path`: the database file, which must be open. */
  constructor(path: string) {
    this.#path = path;
  }

  /** Reports a completed commit of this process. */
  committed(): void {
    this.#hasUnsynced = true;
  }

  /**
   * Resolves when all earlier commits are on disk. One sync runs at a time; callers during a sync share the next one.
   */
  synced(): Promise<void> {
    if (!this.#hasUnsynced) return this.#running ?? Promise.resolve();
    if (!this.#running) return this.#begin();
    return (this.#next ??= this.#running
      .catch(() => undefined)
      .then(() => {
        this.#next = undefined;
        return this.#begin();
      }));
  }

  /** Call when no sync is active. */
  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  #begin(): Promise<void> {
    this.#hasUnsynced = false;
    return (this.#running = this.#sync().finally(() => (this.#running = undefined)));
  }

  async #sync(): Promise<void> {
    try {
      // The log is next to the real file, also if a link leads there. Opened for writing, because Windows syncs only
      // writable files.
      const file = (this.#file ??= openSync(`${realpathSync(this.#path)}-wal`, "r+"));
      await new Promise<void>((resolve, reject) => fdatasync(file, (error) => (error ? reject(error) : resolve())));
    } catch (error) {
      this.#hasUnsynced = true;
      throw error;
    }
  }
}
