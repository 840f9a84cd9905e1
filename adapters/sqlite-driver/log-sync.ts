import { closeSync, fdatasync, openSync, realpathSync } from "node:fs";

/**
 * Syncs the write-ahead log to disk without blocking the event loop, unlike a commit with `synchronous = FULL`. This
 * sync is equally safe: a completed commit has written its frames to the log in order, and a checkpoint syncs the log
 * before it moves frames into the database.
 */
export class LogSync {
  readonly #path: string;
  #file: number | undefined;
  /** Whether the log grew since the last sync started. */
  #hasUnsyncedCommits = false;
  #activeSync: Promise<void> | undefined;
  #nextSync: Promise<void> | undefined;

  /** `path`: the database file, which must be open. */
  constructor(path: string) {
    this.#path = path;
  }

  /** Marks the log as unsynced after a commit of this process. */
  recordCommit(): void {
    this.#hasUnsyncedCommits = true;
  }

  /**
   * Resolves when all earlier commits are on disk. Rejects if the sync fails. One sync runs at a time; callers during a
   * sync share the next sync.
   */
  waitUntilSynced(): Promise<void> {
    if (!this.#hasUnsyncedCommits) return this.#activeSync ?? Promise.resolve();
    if (!this.#activeSync) return this.#startSync();
    return (this.#nextSync ??= this.#activeSync
      .catch(() => undefined)
      .then(() => {
        this.#nextSync = undefined;
        return this.#startSync();
      }));
  }

  /** Call when no sync is active. */
  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  #startSync(): Promise<void> {
    this.#hasUnsyncedCommits = false;
    return (this.#activeSync = this.#sync().finally(() => (this.#activeSync = undefined)));
  }

  async #sync(): Promise<void> {
    try {
      // If `#path` is a symbolic link, the log is next to its target. Windows syncs only files opened for writing.
      const file = (this.#file ??= openSync(`${realpathSync(this.#path)}-wal`, "r+"));
      await new Promise<void>((resolve, reject) => fdatasync(file, (error) => (error ? reject(error) : resolve())));
    } catch (error) {
      this.#hasUnsyncedCommits = true;
      throw error;
    }
  }
}
