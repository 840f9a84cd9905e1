import type { BigIntStats } from "node:fs";
import type { FileHandle } from "node:fs/promises";

/** An open regular file, checked by what was really opened. Whoever gets it closes `handle`. */
export interface OpenedFile {
  readonly handle: FileHandle;
  /** Without symbolic links. */
  readonly path: string;
  readonly stats: BigIntStats;
}
