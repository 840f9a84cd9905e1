import type { BigIntStats } from "node:fs";
import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { PathGuard } from "./path-guard.js";

/** Folders whose file is remembered. */
const FOLDERS = 64;
/** A file that changed less than this ago, in ms, may change again without its times telling. */
const RACY_MS = 2_000;

/**
 * The beginning of a file that every run in a folder wants, remembered for as long as the file is the same. One look at
 * its name tells that; what is new or changed is opened by the guard. No link is followed out of the folder, nor to what
 * is denied.
 */
export class KnownFile {
  readonly #name: string;
  readonly #bytes: number;
  readonly #denied: readonly string[];
  readonly #racyMs: number;
  /** By folder; the one read first goes first. */
  readonly #known = new Map<string, { mark: string; text: string }>();

  /** At most `bytes` of the file are read. */
  constructor(name: string, bytes: number, denied: readonly string[], racyMs = RACY_MS) {
    this.#name = name;
    this.#bytes = bytes;
    this.#denied = denied;
    this.#racyMs = racyMs;
  }

  /** Its text; `""` where there is none, or none that may be read. Never rejects. */
  async textIn(folder: string): Promise<string> {
    const path = join(folder, this.#name);
    try {
      const now = await lstat(path, { bigint: true });
      const known = this.#known.get(folder);
      return known?.mark === markOf(now) ? known.text : await this.#read(folder, path);
    } catch {
      return "";
    }
  }

  async #read(folder: string, path: string): Promise<string> {
    this.#known.delete(folder);
    const guard = await PathGuard.create({ roots: [folder], denied: this.#denied });
    const { handle, stats } = await guard.openFile(path);
    try {
      const buffer = Buffer.alloc(this.#bytes);
      const { bytesRead } = await handle.read(buffer, 0, this.#bytes, 0);
      const text = buffer.toString("utf8", 0, bytesRead).trim();
      if (Date.now() - Number(stats.ctimeMs) > this.#racyMs) this.#keep(folder, { mark: markOf(stats), text });
      return text;
    } finally {
      await handle.close();
    }
  }

  #keep(folder: string, known: { mark: string; text: string }): void {
    const [oldest] = this.#known.keys();
    if (this.#known.size >= FOLDERS && oldest !== undefined) this.#known.delete(oldest);
    this.#known.set(folder, known);
  }
}

/** What another file, and the same one after a change or under one more name, does not have. */
function markOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join(" ");
}
