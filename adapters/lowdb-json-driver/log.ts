import { closeSync, fdatasync, fstatSync, ftruncateSync, openSync, readSync, statSync, writeSync } from "node:fs";
import { promisify } from "node:util";

const datasync = promisify(fdatasync);

/**
 * A file of lines that only grows, until another is put in its place; nothing is added but under the store's lock. What
 * the page cache answers is asked for synchronously: that takes microseconds, a turn of the event loop ten times as long.
 */
export class Log {
  /** Bytes that were taken in; 0 to read all of it again with the next look. */
  end = 0;
  #file = -1;
  #ino = 0;

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
      this.#file = openSync(this.path, "r+");
      this.#ino = fstatSync(this.#file).ino;
    } else if (found.size === this.end) return { lines: [], another: false };
    const another = this.end === 0 || found.size < this.end;
    if (another) this.end = 0;
    const bytes = Buffer.allocUnsafe(Math.max(0, fstatSync(this.#file).size - this.end));
    const count = readSync(this.#file, bytes, 0, bytes.length, this.end);
    // A line without an end is being written, or its writer died, and nobody was told that it was written.
    const whole = bytes.subarray(0, count).lastIndexOf("\n");
    this.end += whole + 1;
    return { lines: whole < 0 ? [] : bytes.toString("utf8", 0, whole).split("\n"), another };
  }

  /** Add a line, whole or not at all. */
  add(line: string): void {
    const bytes = Buffer.from(`${line}\n`);
    if (fstatSync(this.#file).size > this.end) ftruncateSync(this.#file, this.end);
    for (let done = 0; done < bytes.length;)
      done += writeSync(this.#file, bytes, done, bytes.length - done, this.end + done);
    this.end += bytes.length;
  }

  /** All that was added is on the disk when it resolves. */
  async sync(): Promise<void> {
    const file = this.#file;
    if (!this.durable) return;
    await datasync(file).catch((error: unknown) => {
      // Unless another log took its place meanwhile, which holds all of this one.
      if (file === this.#file) throw error;
    });
  }

  close(): void {
    if (this.#file >= 0) closeSync(this.#file);
    this.#file = -1;
    this.#ino = 0;
    this.end = 0;
  }
}
