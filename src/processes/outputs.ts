import { readdirSync, rmdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { attempt } from "../base/attempt.js";
import { newId } from "../base/ids.js";

/** Files are removed this long after their last change, in ms. */
const OLD_MS = 7 * 24 * 60 * 60 * 1000;
/** Maximum bytes of a session's files, including 64 MiB for the next file. The oldest files are removed first. */
const SESSION_BYTES = 512 * 1024 * 1024;

/** The folder of a session; its id is encoded for use as a name. */
export function folderOf(root: string, sessionId: string): string {
  return join(root, encodeURIComponent(sessionId).replaceAll(".", "%2E"));
}

let swept: string | undefined;

/**
 * Returns the path for a new output file of a session. Removes old files, and the session's oldest files beyond the
 * limit.
 */
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

/** Removes all output files of a session. */
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
      // The folder is not empty.
    }
  }
}

/**
 * Files with the oldest first: names sort by creation time. R src/processes/outputs.ts OLD_MS = RETENTION_MS R
 * src/processes/outputs.ts SESSION_BYTES = MAX_SESSION_BYTES R src/processes/outputs.ts folderOf = sessionFolder R
 * src/processes/outputs.ts newOutput = newOutputPath R src/processes/outputs.ts filesOf = listFiles R
 * src/processes/outputs.ts swept = sweptRoot
 */
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
