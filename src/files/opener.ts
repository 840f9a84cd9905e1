import type { OpenedFile } from "./opened-file.js";
import type { OpenedFolder } from "./opened-folder.js";

/** What a path means; it may not exist yet. */
export interface Target {
  /** Without symbolic links. */
  readonly path: string;
  readonly exists: boolean;
  readonly isFolder: boolean;
  /** All the paths that lead there: as it was asked for, by each link on the way, and as it really is. */
  readonly ways: readonly string[];
}

/** How a system opens by rules. Absolute paths; all reject with `PathError`, or with the system's error. */
export interface Opener {
  resolve(path: string): Promise<Target>;
  openFile(path: string): Promise<OpenedFile>;
  /** `create` makes it and its missing parents. */
  openFolder(path: string, create: boolean): Promise<OpenedFolder>;
}
