import type { Stats } from "node:fs";
import { basename, dirname, join } from "node:path";
import { PathError } from "../ports/errors.js";
import type { OpenedFolder, PathGuard } from "../files/path-guard.js";
import { withFileLock } from "../tools/files/files.js";
import type { StoredFileState, PathChange } from "./journal.js";
import { readFileState } from "../tools/files/record-file.js";
import { withParentFolder, markOf } from "./restore.js";
import { isSame, toStoredState } from "./session-files.js";

/** Maximum paths processed concurrently. Each waits for the disk. */
const MAX_CONCURRENT_PATHS = 16;

/** Services for restoring a path. */
export interface RestoreOptions {
  guard: PathGuard;
  /** Returns the content with this hash. Rejects if the content is no longer stored. */
  contentOf: (hash: string) => Promise<Buffer>;
  /** Id of the change. Names the temporary files, so that they can be found after a crash. */
  change: string;
  /** Marks of paths that were checked before, by path. A path with an unchanged mark is not read again. */
  marks?: ReadonlyMap<string, string>;
}

/** Steps that are complete, and steps that failed. */
export interface RestoreProgress {
  completedSteps: PathChange[];
  failedSteps: PathChange[];
}

/**
 * Changes each path from its `before` state to its `after` state. The changes are on disk when the promise resolves.
 *
 * Updates `progress`. Rejects with the first error, also if a path is no longer in its `before` state.
 */
export async function restoreFiles(
  steps: readonly PathChange[],
  options: RestoreOptions,
  progress: RestoreProgress,
): Promise<void> {
  const applyStep = async (step: PathChange): Promise<void> => {
    try {
      await withFileLock(step.path, () => restorePath(step, options));
      progress.completedSteps.push(step);
    } catch (error) {
      progress.failedSteps.push(step);
      throw error;
    }
  };
  const removals = steps.filter(({ after }) => after.kind === "none");
  const folders = steps.filter(({ after }) => after.kind === "folder");
  // First removes paths, the deepest first. Then creates folders, parents first.
  for (const step of [...removals.reverse(), ...folders]) await applyStep(step);
  const filesAndLinks = steps.filter(({ after }) => after.kind === "file" || after.kind === "link");
  await forEachConcurrently(filesAndLinks, applyStep);
  await forEachConcurrently([...new Set(steps.map(({ path }) => dirname(path)))], async (path) => {
    // A removed folder needs no sync: its parent folder is synced.
    const folder = await options.guard.openFolder(path).catch(() => undefined);
    await folder?.sync();
    await folder?.close();
  });
}

/**
 * Calls `work` for each item, several concurrently. After an error no further item is started. Rejects with the first
 * error once all started items have ended.
 */
export async function forEachConcurrently<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const remainingItems = items.values();
  const errors: unknown[] = [];
  const runWorker = async (): Promise<void> => {
    for (const item of remainingItems) {
      if (errors.length > 0) return;
      await work(item).catch((error: unknown) => void errors.push(error));
    }
  };
  await Promise.all(Array.from({ length: Math.min(MAX_CONCURRENT_PATHS, items.length) }, runWorker));
  if (errors.length > 0) throw errors[0];
}

/** Path of the temporary file that replaces `path`. */
export function temporaryPath(path: string, change: string): string {
  return join(dirname(path), temporaryName(basename(path), change));
}

/** Removes the temporary file of an interrupted undo. */
export async function discardTemporary(guard: PathGuard, path: string, change: string): Promise<void> {
  await withParentFolder(guard, path, false, (folder, name) => folder.discard(temporaryName(name, change))).catch(
    () => undefined,
  );
}

async function restorePath(
  { path, before, after, made }: PathChange,
  { guard, contentOf, change, marks }: RestoreOptions,
): Promise<void> {
  const content = after.kind === "file" ? await contentOf(after.hash) : undefined;
  // Missing parent folders are created only for a path that did not exist.
  const createsFolders = before.kind === "none";
  await withParentFolder(guard, path, createsFolders, async (folder, name) => {
    const stats = await folder.stat(name);
    const mark = markOf(stats);
    // If the mark changed since the check, reads the file again, so that a change by another program is not
    // overwritten.
    if (mark === "" || mark !== marks?.get(path)) {
      const currentState = toStoredState(await readFileState(guard, folder, name));
      if (!isSame(currentState, before)) throw new PathError("invalid", "another program changed it just now");
    }
    if (stats && (after.kind !== "file" || !stats.isFile())) await removeEntry(folder, name, stats);
    if (after.kind === "folder") await folder.createSubfolder(name, after.mode);
    else if (after.kind === "link") await folder.createLink(name, after.target);
    else if (after.kind === "file" && content)
      await replaceFile(folder, name, content, after, temporaryName(name, change));
  });
  if (after.kind === "none") await removeCreatedFolders(guard, path, made);
}

async function replaceFile(
  folder: OpenedFolder,
  name: string,
  content: Buffer,
  { mode, uid, gid }: Extract<StoredFileState, { kind: "file" }>,
  temporaryFile: string,
): Promise<void> {
  await folder.discard(temporaryFile);
  try {
    const handle = await folder.createFile(temporaryFile, 0o600);
    try {
      await handle.writeFile(content);
      const fileStats = await handle.stat();
      if (fileStats.uid !== uid || fileStats.gid !== gid) await handle.chown(uid, gid).catch(() => undefined);
      await handle.chmod(mode);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await folder.rename(temporaryFile, name);
  } catch (error) {
    await folder.discard(temporaryFile);
    throw error;
  }
}

async function removeEntry(folder: OpenedFolder, name: string, stats: Stats): Promise<void> {
  if (!stats.isDirectory()) await folder.unlink(name);
  else if (!(await folder.removeEmpty(name))) throw new PathError("invalid", "it is now a folder that is not empty");
}

/** Removes the folders that were created for a file, as long as they are empty. */
async function removeCreatedFolders(guard: PathGuard, path: string, made: number): Promise<void> {
  for (
    let folderPath = dirname(path), remainingLevels = made;
    remainingLevels > 0 && !guard.containsRoot(folderPath);
    remainingLevels--, folderPath = dirname(folderPath)
  ) {
    const isRemoved = await withParentFolder(guard, folderPath, false, (folder, name) =>
      folder.removeEmpty(name),
    ).catch(() => false);
    if (!isRemoved) return;
  }
}

function temporaryName(name: string, change: string): string {
  // A name has at most 255 bytes. 70 characters take at most 210 bytes, and the additions 18.
  return `.${name.slice(0, 70)}.${change.replaceAll("-", "").slice(-12)}.tmp`;
}
