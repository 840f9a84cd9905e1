import { createHash, randomUUID } from "node:crypto";
import { closeSync, fdatasync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { isRecord } from "gantry/plugin";

const datasync = promisify(fdatasync);

/** Writes files so that a reader, or a crash, finds the old one or the new one, never a mixture. */
export class Files {
  /** `temp`: this driver's own folder for temporary files, on the file system of all others. */
  constructor(
    readonly temp: string,
    readonly durable: boolean,
  ) {}

  replace(path: string, text: string): void {
    const temp = this.#free();
    try {
      writeFileSync(temp, text, { flag: "wx", mode: 0o600, flush: this.durable });
      renameSync(temp, path);
    } catch (error) {
      rmSync(temp, { force: true });
      throw error;
    }
    this.syncFolder(dirname(path));
  }

  /** A temporary file to be renamed; gives its path. It is on the disk when it resolves, and the event loop is free meanwhile. */
  async prepare(text: string): Promise<string> {
    const temp = this.#free();
    try {
      const file = openSync(temp, "wx", 0o600);
      try {
        writeFileSync(file, text);
        if (this.durable) await datasync(file);
      } finally {
        closeSync(file);
      }
    } catch (error) {
      rmSync(temp, { force: true });
      throw error;
    }
    return temp;
  }

  /** A temporary file that may have been renamed. */
  remove(temp: string): void {
    rmSync(temp, { force: true });
  }

  /** So that a power cut does not undo a rename or a removal. Windows has no handle for a folder, and no need of this. */
  syncFolder(path: string): void {
    if (!this.durable || process.platform === "win32") return;
    const folder = openSync(path, "r");
    try {
      fsyncSync(folder);
    } finally {
      closeSync(folder);
    }
  }

  #free(): string {
    return join(this.temp, randomUUID());
  }
}

/** What a file says; undefined where there is none. */
export function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Whether what a call asked for is not there. */
export const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === "ENOENT";

/** The JSON object that a text is; undefined if it is none. */
export function parsed<T>(text = ""): T | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? (value as T) : undefined;
  } catch {
    return undefined;
  }
}

const SAFE = /^[a-z0-9][a-z0-9_-]{0,79}$/;
// Windows opens a device for these, whatever the extension.
const DEVICE = /^(con|prn|aux|nul|com\d|lpt\d)$/;

/** A name that is safe on every file system, also on those that fold case: that of the id, or `~` and its hash. */
export function fileName(id: string): string {
  const safe = SAFE.test(id) && !DEVICE.test(id);
  return `${safe ? id : `~${createHash("sha256").update(JSON.stringify(id)).digest("hex")}`}.json`;
}
