import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { open } from "node:fs/promises";

/** Syncs renames and removals in a folder to disk. Windows cannot open a folder and needs no sync. */
export async function syncFolder(path: string): Promise<void> {
  if (process.platform === "win32") return;
  await using folder = await open(path);
  await folder.sync();
}

/** JSON value of a file; undefined for a missing file. Throws `SyntaxError` if the text is not JSON. */
export function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

const SAFE_NAME_PATTERN = /^[a-z0-9][a-z0-9_-]{0,79}$/;
// Windows opens a device for these names, with any extension.
const DEVICE_NAME_PATTERN = /^(con|prn|aux|nul|com\d|lpt\d)$/;

/**
 * File name that is safe on every file system, including case-insensitive systems: the id, or `~` and a hash of the id.
 */
export function toFileName(id: string): string {
  const isSafe = SAFE_NAME_PATTERN.test(id) && !DEVICE_NAME_PATTERN.test(id);
  return `${isSafe ? id : `~${createHash("sha256").update(JSON.stringify(id)).digest("hex")}`}.json`;
}
