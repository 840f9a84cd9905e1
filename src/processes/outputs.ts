import { readdirSync, rmdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { attempt } from "../base/attempt.js";
import { newId } from "../base/ids.js";

/** Files are removed this long after their last change, in ms. */
const RETENTION_MS = 7 * 24 * 60 * 60 * 1000;
/** Maximum bytes of a session's files, including 64 MiB for the next file. The oldest files are removed first. */
const MAX_SESSION_BYTES = 512 * 1024 * 1024;

/** The folder of a session; its id is encoded for use as a name. */
export function sessionFolder(root: string, sessionId: string): string {
  return join(root, encodeURIComponent(sessionId).replaceAll(".", "%2E"));
}

let sweptRoot: string | undefined;

/**
 * Returns the path for a new output file of a session. Removes old files, and the session's oldest files beyond the
 * limit.
 */
export function newOutputPath(root: string, sessionId: string): string {
  if (sweptRoot !== root) sweep(root);
  sweptRoot = root;
  const folder = sessionFolder(root, sessionId);
  const files = listFiles(folder);
  let bytes = files.reduce((sum, { size }) => sum + size, 64 * 1024 * 1024);
  for (const { path, size } of files) {
    if (bytes <= MAX_SESSION_BYTES) break;
    rmSync(path, { force: true });
    bytes -= size;
  }
  return join(folder, `${newId()}.txt`);
}

/** Removes all output files of a session. */
export function removeOutputs(root: string, sessionId: string): void {
  rmSync(sessionFolder(root, sessionId), { recursive: true, force: true });
}

function sweep(root: string): void {
  for (const name of readNames(root)) {
    const folder = join(root, name);
    for (const { path, changedMs } of listFiles(folder))
      if (Date.now() - changedMs > RETENTION_MS) rmSync(path, { force: true });
    try {
      rmdirSync(folder);
    } catch {
      // The folder is not empty.
    }
  }
}

/** Files with the oldest first: names sort by creation time. */
function listFiles(folder: string): { path: string; size: number; changedMs: number }[] {
  return readNames(folder)
    .sort()
    .flatMap((name) => {
      const path = join(folder, name);
      const stats = statSync(path, { throwIfNoEntry: false });
      return stats?.isFile() ? [{ path, size: stats.size, changedMs: stats.mtimeMs }] : [];
    });
}

function readNames(folder: string): string[] {
  return attempt(() => readdirSync(folder), []);
}
