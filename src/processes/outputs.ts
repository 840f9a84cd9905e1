import { readdirSync, rmdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { attempt } from "../base/attempt.js";
import { newId } from "../base/ids.js";

/** Files that nothing was added to for so long, in ms, are removed. */
const OLD_MS = 7 * 24 * 60 * 60 * 1000;
/** So many bytes a session's files may take together, and one that is to come: the oldest go. */
const SESSION_BYTES = 512 * 1024 * 1024;

/** A session's id as the name of a folder. */
export function folderOf(root: string, sessionId: string): string {
  return join(root, encodeURIComponent(sessionId).replaceAll(".", "%2E"));
}

let swept: string | undefined;

/** Path of a new file for a session's output. What is old, and what is too much of the session, is removed. */
export function newOutput(root: string, sessionId: string): string {
  if (swept !== root) sweep(root);
  swept = root;
  const folder = folderOf(root, sessionId);
  const files = filesOf(folder);
  let bytes = files.reduce((sum, { size }) => sum + size, 64 * 1024 * 1024);
  for (const { path, size } of files) {
    if (bytes <= SESSION_BYTES) break;
    rmSync(path, { force: true });
    bytes -= size;
  }
  return join(folder, `${newId()}.txt`);
}

/** Remove a session's files. */
export function removeOutputs(root: string, sessionId: string): void {
  rmSync(folderOf(root, sessionId), { recursive: true, force: true });
}

function sweep(root: string): void {
  for (const name of namesIn(root)) {
    const folder = join(root, name);
    for (const { path, changed } of filesOf(folder)) if (Date.now() - changed > OLD_MS) rmSync(path, { force: true });
    try {
      rmdirSync(folder);
    } catch {
      // There is something in it.
    }
  }
}

/** Oldest first: their names are in the order in which they were made. */
function filesOf(folder: string): { path: string; size: number; changed: number }[] {
  return namesIn(folder)
    .sort()
    .flatMap((name) => {
      const path = join(folder, name);
      const stats = statSync(path, { throwIfNoEntry: false });
      return stats?.isFile() ? [{ path, size: stats.size, changed: stats.mtimeMs }] : [];
    });
}

function namesIn(folder: string): string[] {
  return attempt(() => readdirSync(folder), []);
}
