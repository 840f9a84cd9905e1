import { readdirSync, rmdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { attempt } from "../base/attempt.js";
import { newId } from "../base/ids.js";

/** Time in ms after the last change of a file, after which the file is removed. */
const RETENTION_MS = 7 * 24 * 60 * 60 * 1000;
/** Maximum bytes of a session's files, including the next file. The oldest files are removed first. */
const MAX_SESSION_BYTES = 512 * 1024 * 1024;
/** Maximum bytes of one output file. */
const MAX_FILE_BYTES = 64 * 1024 * 1024;

/** Returns the folder of a session. The session id is encoded for use as a name. */
export function getSessionFolder(root: string, sessionId: string): string {
  return join(root, encodeURIComponent(sessionId).replaceAll(".", "%2E"));
}

let cleanedRoot: string | undefined;

/**
 * Returns the path for a new output file of a session. Removes old files, and the session's oldest files beyond the
 * limit.
 */
export function createOutputPath(root: string, sessionId: string): string {
  if (cleanedRoot !== root) removeOldFiles(root);
  cleanedRoot = root;
  const folder = getSessionFolder(root, sessionId);
  const files = listFiles(folder);
  let bytes = files.reduce((sum, { size }) => sum + size, MAX_FILE_BYTES);
  for (const { path, size } of files) {
    if (bytes <= MAX_SESSION_BYTES) break;
    rmSync(path, { force: true });
    bytes -= size;
  }
  return join(folder, `${newId()}.txt`);
}

/** Removes all output files of a session. */
export function removeOutputs(root: string, sessionId: string): void {
  rmSync(getSessionFolder(root, sessionId), { recursive: true, force: true });
}

function removeOldFiles(root: string): void {
  for (const name of readNames(root)) {
    const folder = join(root, name);
    for (const { path, changedAtMs } of listFiles(folder))
      if (Date.now() - changedAtMs > RETENTION_MS) rmSync(path, { force: true });
    try {
      rmdirSync(folder);
    } catch {
      // The folder is not empty.
    }
  }
}

/** Lists files, the oldest first: names sort by creation time. */
function listFiles(folder: string): { path: string; size: number; changedAtMs: number }[] {
  return readNames(folder)
    .sort()
    .flatMap((name) => {
      const path = join(folder, name);
      const stats = statSync(path, { throwIfNoEntry: false });
      return stats?.isFile() ? [{ path, size: stats.size, changedAtMs: stats.mtimeMs }] : [];
    });
}

function readNames(folder: string): string[] {
  return attempt(() => readdirSync(folder), []);
}
