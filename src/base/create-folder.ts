import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Creates a folder and its parents with mode 0700. Returns the first folder that it created, or undefined if all
 * existed. Throws the system's error.
 *
 * `mkdirSync` with `recursive` is not used: it never returns if the system answers ENOENT, as in /proc.
 */
export function createFolder(path: string): string | undefined {
  const missing: string[] = [];
  // The root of a missing drive is its own parent, which ends the loop.
  for (let at = path; !isFolder(at) && missing[0] !== at; at = dirname(at)) missing.unshift(at);
  for (const folder of missing) {
    try {
      mkdirSync(folder, { mode: 0o700 });
    } catch (error) {
      // Another process may have created the folder meanwhile.
      if (!isFolder(folder)) throw error;
    }
  }
  return missing[0];
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
