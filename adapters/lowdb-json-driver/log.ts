import { closeSync, fdatasync, ftruncateSync, openSync, readFileSync } from "node:fs";
import { renameSync, writeFileSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { syncFolder } from "./files.js";

const datasync = promisify(fdatasync);
const NEWLINE = 10;

/**
 * An append-only file of lines; a rewrite replaces all lines. Writes are synchronous: the page cache takes them in
 * microseconds, and a turn of the event loop takes ten times as long.
 */
export class Log {
  /** Size of the complete lines, in bytes. */
  bytes = 0;
  #file: number;
  /** Whether a partial line may follow, left by a dead process or a full disk. */
  #isTorn = true;
  #hasUnsynced = false;
  /** The last started sync, and the sync that waits for its end. */
  #sync: Promise<void> = Promise.resolve();
  #nextSync: Promise<void> | undefined;

  constructor(readonly path: string) {
    closeSync(openSync(path, "a", 0o600));
    this.#file = openSync(path, "r+");
  }

  /** All complete lines. An unterminated last line was never acknowledged. */
  *read(): Generator<string> {
    // A buffer, because a log may exceed the maximum string length.
    const bytes = readFileSync(this.path);
    for (let end = 0; (end = bytes.indexOf(NEWLINE, this.bytes)) >= 0; this.bytes = end + 1)
      yield bytes.toString("utf8", this.bytes, end);
  }

  /** Appends a line. If it throws, the log is unchanged. */
  append(line: string): void {
    const bytes = Buffer.from(`${line}\n`);
    if (this.#isTorn) ftruncateSync(this.#file, this.bytes);
    this.#isTorn = true;
    for (let done = 0; done < bytes.length;)
      done += writeSync(this.#file, bytes, done, bytes.length - done, this.bytes + done);
    this.#isTorn = false;
    this.bytes += bytes.length;
    this.#hasUnsynced = true;
  }

  /** Resolves when all lines are on disk. Lines written during a sync share the next sync. */
  sync(): Promise<void> {
    if (!this.#hasUnsynced) return this.#sync;
    this.#nextSync ??= this.#sync
      .catch(() => undefined)
      .then(() => {
        this.#nextSync = undefined;
        this.#hasUnsynced = false;
        this.#sync = datasync(this.#file).catch((error: unknown) => {
          this.#hasUnsynced = true;
          throw error;
        });
        return this.#sync;
      });
    return this.#nextSync;
  }

  /** Replaces all lines. Resolves when the new lines are on disk. */
  async rewrite(lines: Iterable<string>): Promise<void> {
    let text = "";
    for (const line of lines) text += `${line}\n`;
    writeFileSync(`${this.path}.new`, text, { mode: 0o600, flush: true });
    const file = openSync(`${this.path}.new`, "r+");
    renameSync(`${this.path}.new`, this.path);
    const old = this.#file;
    const syncOfOld = this.#sync.catch(() => undefined);
    this.#file = file;
    this.bytes = Buffer.byteLength(text);
    // Lines added now are on disk when the rename of the new file is.
    this.#sync = syncOfOld.then(() => syncFolder(dirname(this.path)));
    await syncOfOld;
    closeSync(old);
    await this.#sync;
  }

  close(): void {
    closeSync(this.#file);
  }
}
