import { closeSync, fdatasync, ftruncateSync, openSync, readFileSync } from "node:fs";
import { renameSync, rmSync, writeFileSync, writeSync } from "node:fs";
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
  /** Size of the complete lines. Set by `read`, and then by each write. */
  bytes = 0;
  #fd: number;
  /** Whether a partial line may follow the complete lines, after a crash or on a full disk. */
  #mayHavePartialLine = true;
  #hasUnsyncedLines = false;
  #lastSync: Promise<void> = Promise.resolve();
  /** The sync that starts after `#lastSync`; undefined if no sync waits. */
  #nextSync: Promise<void> | undefined;

  constructor(readonly path: string) {
    closeSync(openSync(path, "a", 0o600));
    this.#fd = openSync(path, "r+");
  }

  /** All complete lines. An unterminated last line was never acknowledged. */
  *read(): Generator<string> {
    // A buffer, because a log may exceed the maximum string length.
    const buffer = readFileSync(this.path);
    for (let end = 0; (end = buffer.indexOf(NEWLINE, this.bytes)) >= 0; this.bytes = end + 1)
      yield buffer.toString("utf8", this.bytes, end);
  }

  /** Appends a line. If it throws, the log is unchanged. */
  append(line: string): void {
    const buffer = Buffer.from(`${line}\n`);
    if (this.#mayHavePartialLine) ftruncateSync(this.#fd, this.bytes);
    this.#mayHavePartialLine = true;
    for (let offset = 0; offset < buffer.length;)
      offset += writeSync(this.#fd, buffer, offset, buffer.length - offset, this.bytes + offset);
    this.#mayHavePartialLine = false;
    this.bytes += buffer.length;
    this.#hasUnsyncedLines = true;
  }

  /** Resolves when all lines are on disk. Lines written during a sync share the next sync. */
  sync(): Promise<void> {
    if (!this.#hasUnsyncedLines) return this.#lastSync;
    this.#nextSync ??= this.#lastSync
      .catch(() => undefined)
      .then(() => {
        this.#nextSync = undefined;
        this.#hasUnsyncedLines = false;
        this.#lastSync = datasync(this.#fd).catch((error: unknown) => {
          this.#hasUnsyncedLines = true;
          throw error;
        });
        return this.#lastSync;
      });
    return this.#nextSync;
  }

  /** Replaces all lines. Resolves when the new lines are on disk. */
  async rewrite(lines: Iterable<string>): Promise<void> {
    let text = "";
    for (const line of lines) text += `${line}\n`;
    try {
      writeFileSync(`${this.path}.new`, text, { mode: 0o600, flush: true });
    } catch (error) {
      // A partial file would take up the space that is left on a full disk.
      rmSync(`${this.path}.new`, { force: true });
      throw error;
    }
    const newFd = openSync(`${this.path}.new`, "r+");
    renameSync(`${this.path}.new`, this.path);
    const oldFd = this.#fd;
    const oldSync = this.#lastSync.catch(() => undefined);
    this.#fd = newFd;
    this.bytes = Buffer.byteLength(text);
    // A later `sync` must not resolve before the rename is on disk.
    this.#lastSync = oldSync.then(() => syncFolder(dirname(this.path)));
    await oldSync;
    closeSync(oldFd);
    await this.#lastSync;
  }

  close(): void {
    closeSync(this.#fd);
  }
}
