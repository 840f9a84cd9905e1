import { randomUUID } from "node:crypto";
import { chmod, copyFile, open, readFile, rename, unlink } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Adapter } from "lowdb";
import { systemCode, unlessMissing } from "./errors.js";

/** Writes files so that a reader, or a crash, finds the old one or the new one, never a mixture. */
export class Files {
  /** Folder for temporary files; on the file system of all others. */
  readonly temp: string;
  readonly durable: boolean;

  constructor(temp: string, durable: boolean) {
    this.temp = temp;
    this.durable = durable;
  }

  /** Write to a temporary file under a name of its own, on the disk when it resolves; gives its path. */
  async stage(text: string): Promise<string> {
    const path = join(this.temp, `${randomUUID()}.tmp`);
    const file = await open(path, "wx", 0o600);
    try {
      await file.writeFile(text);
      if (this.durable) await file.sync();
    } catch (error) {
      await file.close();
      await unlessMissing(unlink(path));
      throw error;
    }
    await file.close();
    return path;
  }

  async replace(path: string, text: string): Promise<void> {
    const staged = await this.stage(text);
    try {
      await rename(staged, path);
    } catch (error) {
      await unlessMissing(unlink(staged));
      throw error;
    }
    await this.syncFolder(dirname(path));
  }

  /** So that a power cut does not undo a rename. */
  async syncFolder(path: string): Promise<void> {
    if (!this.durable) return;
    let folder: FileHandle;
    try {
      folder = await open(path, "r");
    } catch (error) {
      // Windows has no handle for a folder, and no need of this.
      if (systemCode(error) === "EPERM" || systemCode(error) === "EISDIR") return;
      throw error;
    }
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }

  /** Remove what lies behind a byte. */
  async cut(path: string, end: number): Promise<void> {
    const file = await open(path, "r+");
    try {
      await file.truncate(end);
      if (this.durable) await file.sync();
    } finally {
      await file.close();
    }
  }

  async copy(from: string, to: string): Promise<void> {
    await copyFile(from, to);
    await chmod(to, 0o600);
  }

  /** lowdb's view of one JSON file. */
  adapter<T>(path: string): Adapter<T> {
    return {
      read: async () => {
        const text = await unlessMissing(readFile(path, "utf8"));
        return text === undefined ? null : (JSON.parse(text) as T);
      },
      write: (data) => this.replace(path, JSON.stringify(data)),
    };
  }

  /** Add to the end of a file; what was added is taken back when it cannot be added whole. */
  async append(path: string, text: string, at: number, sync: boolean): Promise<void> {
    const file = await open(path, "a", 0o600);
    try {
      try {
        await file.writeFile(text);
        if (sync && this.durable) await file.datasync();
      } catch (error) {
        await file.truncate(at).catch(() => undefined);
        throw error;
      }
    } finally {
      await file.close();
    }
  }
}

/** Complete lines of an open file from a byte on, and where the next one begins. */
export async function linesOf(file: FileHandle, from: number): Promise<{ lines: string[]; end: number; size: number }> {
  const { size } = await file.stat();
  if (size <= from) return { lines: [], end: Math.min(from, size), size };
  const buffer = Buffer.alloc(size - from);
  const { bytesRead } = await file.read(buffer, 0, buffer.length, from);
  const whole = buffer.subarray(0, bytesRead);
  const last = whole.lastIndexOf(0x0a) + 1;
  const text = whole.toString("utf8", 0, last);
  return { lines: text === "" ? [] : text.slice(0, -1).split("\n"), end: from + last, size };
}

/** The same of a file by its path; undefined when there is none. */
export async function readLines(path: string, from: number): Promise<Awaited<ReturnType<typeof linesOf>> | undefined> {
  const file = await unlessMissing(open(path, "r"));
  if (!file) return undefined;
  try {
    return await linesOf(file, from);
  } finally {
    await file.close();
  }
}
