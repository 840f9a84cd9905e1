import type { BigIntStats } from "node:fs";
import type { FileHandle } from "node:fs/promises";

/** An open regular file, checked after opening. The caller must close `handle`. */
export interface OpenedFile {
  readonly handle: FileHandle;
  /** Real path, without symbolic links. */
  readonly path: string;
  readonly stats: BigIntStats;
}
