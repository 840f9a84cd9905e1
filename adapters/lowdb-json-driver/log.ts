import {
  closeSync,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  statSync,
  writeSync,
} from "node:fs";
import { promisify } from "node:util";

const datasync = promisify(fdatasync);

/**
 * A file of lines that only grows, until another is put in its place; nothing is added but under the store's lock. What
 * the page cache answers is asked for synchronously: that takes microseconds, a turn of the event loop ten times as long.
 */
export class Log {
  /** Bytes that were taken in; 0 to read all of it again with the next look. */
  end = 0;
  /** Length at the last look: longer than `end` where a writer died in the middle of a line. */
  #length = 0;
  #file = -1;
  #ino = 0;
  #added: string[] = [];
  #syncing: Promise<void> | undefined;
  #nextSync: Promise<void> | undefined;

  constructor(
    readonly path: string,
    readonly durable: boolean,
  ) {}

  /** Lines that were added since the last look; all of them when the file is `another` now. Undefined when there is none. */
  read(): { lines: string[]; another: boolean } | undefined {
    const found = statSync(this.path, { throwIfNoEntry: false });
    if (!found) return undefined;
    if (found.ino !== this.#ino) {
      this.close();
      this.#open();
    } else if (found.size === this.end && this.end > 0) {
      this.#length = found.size;
      return { lines: [], another: false };
    }
    const another = this.end === 0 || found.size < this.end;
    if (another) this.end = 0;
    this.#length = fstatSync(this.#file).size;
    const bytes = Buffer.allocUnsafe(Math.max(0, this.#length - this.end));
    const count = readSync(this.#file, bytes, 0, bytes.length, this.end);
    // A line without an end is being written, or its writer died, and nobody was told that it was written.
    const whole = bytes.subarray(0, count).lastIndexOf("\n");
    this.end += whole + 1;
    return { lines: whole < 0 ? [] : bytes.toString("utf8", 0, whole).split("\n"), another };
  }

  /** Add a line with the next `flush`. */
  add(line: string): void {
    this.#added.push(line);
  }

  /** Behind a look in the same turn at the lock: write the lines that were added, all of them, or none and it throws. */
  flush(): void {
    if (this.#added.length === 0) return;
    const bytes = Buffer.from(`${this.#added.join("\n")}\n`);
    this.#added = [];
    if (this.#length > this.end) ftruncateSync(this.#file, this.end);
    try {
      for (let done = 0; done < bytes.length;)
        done += writeSync(this.#file, bytes, done, bytes.length - done, this.end + done);
    } catch (error) {
      // Whole lines among what could be written would be taken for true.
      ftruncateSync(this.#file, this.end);
      throw error;
    }
    this.end += bytes.length;
    this.#length = this.end;
  }

  /** Forget the lines that were added and not written. */
  drop(): void {
    this.#added = [];
  }

  /** Another log was put in place, which says all that is in memory. */
  adopt(): void {
    this.close();
    this.#open();
    this.end = this.#length = fstatSync(this.#file).size;
  }

  /** All that was written is on the disk when it resolves. What is written while the disk is busy shares the next sync. */
  sync(): Promise<void> {
    if (!this.durable) return Promise.resolve();
    if (!this.#syncing) return this.#sync();
    this.#nextSync ??= this.#syncing
      .catch(() => undefined)
      .then(() => {
        this.#nextSync = undefined;
        return this.#sync();
      });
    return this.#nextSync;
  }

  /** The same while everything waits. */
  syncNow(): void {
    if (this.durable) fdatasyncSync(this.#file);
  }

  close(): void {
    if (this.#file >= 0) closeSync(this.#file);
    this.#file = -1;
    this.#ino = 0;
    this.end = 0;
  }

  #open(): void {
    this.#file = openSync(this.path, "r+");
    this.#ino = fstatSync(this.#file).ino;
  }

  #sync(): Promise<void> {
    const file = this.#file;
    const syncing = datasync(file)
      .catch((error: unknown) => {
        // Unless another log took its place meanwhile, which holds all of this one.
        if (file === this.#file) throw error;
      })
      .finally(() => {
        if (this.#syncing === syncing) this.#syncing = undefined;
      });
    this.#syncing = syncing;
    return syncing;
  }
}
