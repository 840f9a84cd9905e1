import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Creates a folder and its parents with mode 0700. Returns the topmost created folder, or undefined if all
 * folders existed. Throws the system's error.
 *
 * `mkdirSync` with `recursive` is not used: `mkdirSync` never returns if the system answers ENOENT, as in
 * /proc.
 */
export function createFolder(path: string): string | undefined {
  const missingFolders: string[] = [];
  // The root of a missing drive is its own parent, which ends the loop.
  for (let ancestor = path; !isFolder(ancestor) && missingFolders[0] !== ancestor; ancestor = dirname(ancestor))
    missingFolders.unshift(ancestor);
  for (const folder of missingFolders) {
    try {
      mkdirSync(folder, { mode: 0o700 });
    } catch (error) {
      // Another process may have created the folder meanwhile.
      if (!isFolder(folder)) throw error;
    }
  }
  return missingFolders[0];
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch (error) {
    // `throwIfNoEntry` is not used: on Node 24 it also hides ENOTDIR, which means that a parent is a file.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}
