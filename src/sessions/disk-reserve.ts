import { rmSync, statfsSync, statSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { StoreError } from "../ports/errors.js";

/**
 * Size of the reserved space, in bytes. A write-ahead log of 4 MiB must fit into the database before the log is free for
 * the delete.
 */
const RESERVE_BYTES = 6 * 1024 * 1024;
/** Free space, in bytes, below which nothing is reserved: the reserve must not fill a disk. */
const MIN_FREE_BYTES = 4 * RESERVE_BYTES;
/** Free space, in bytes, below which a run may not fit: the store counts as full. */
const MIN_RUN_BYTES = 256 * 1024;
/** Free space, in bytes, below which a store must try a change to find out whether it is full. */
const LOW_SPACE_BYTES = 4 * 1024 * 1024;

/**
 * Checks the free space on the disk of a path. Returns true if only an attempt shows whether a change fits. Throws
 * `StoreError` if the disk has no space for a run.
 */
export function isNearlyFull(path: string): boolean {
  const freeBytes = readFreeBytes(path);
  if (freeBytes < MIN_RUN_BYTES)
    throw new StoreError(`session store ${path}: no space left; free some space`, { isFull: true });
  return freeBytes < LOW_SPACE_BYTES;
}

/** Space on the disk of a store that is used only to delete sessions when the disk is full. */
export class DiskReserve {
  readonly #path: string;
  readonly #folder: string;
  #hasReserved = false;

  /** `path`: the file that takes up the space. `folder`: a folder on the same disk. */
  constructor(path: string, folder: string) {
    this.#path = path;
    this.#folder = folder;
  }

  /** Reserves the space, if the disk has enough. Never rejects. */
  async fill(): Promise<void> {
    if (this.#hasReserved || readFreeBytes(this.#folder) < MIN_FREE_BYTES) return;
    this.#hasReserved = true;
    if (statSync(this.#path, { throwIfNoEntry: false })?.size === RESERVE_BYTES) return;
    await writeFile(this.#path, Buffer.alloc(RESERVE_BYTES), { mode: 0o600 }).catch(() => this.release());
  }

  /** Frees the reserved space. */
  release(): void {
    this.#hasReserved = false;
    rmSync(this.#path, { force: true });
  }
}

/** Returns the free space on the disk of a path, in bytes; infinite if it is unknown. */
function readFreeBytes(path: string): number {
  try {
    const { bavail, bsize } = statfsSync(path);
    return bavail * bsize;
  } catch {
    return Infinity;
  }
}
