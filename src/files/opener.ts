import type { OpenedFile } from "./opened-file.js";
import type { OpenedFolder } from "./opened-folder.js";

/** A resolved path. The file may not exist yet. */
export interface Target {
  /** Real path, without symbolic links. */
  readonly path: string;
  readonly exists: boolean;
  readonly isFolder: boolean;
  /** All paths to the file: the requested path, one more for each followed link, and the real path. */
  readonly traversedPaths: readonly string[];
}

/**
 * Opens paths within the rules, in a way that fits the system. Paths are absolute. All methods reject with `PathError`
 * or with the system's error.
 */
export interface Opener {
  resolve(path: string): Promise<Target>;
  openFile(path: string): Promise<OpenedFile>;
  /** `create`: also creates the folder and its missing parents. */
  openFolder(path: string, create: boolean): Promise<OpenedFolder>;
}
