import { dirname, join } from "node:path";
import { PathError } from "../../ports/errors.js";
import type { FileChange, FileState, RecordedChange } from "../../ports/file-history.js";
import type { OpenedFolder, PathGuard } from "../../files/path-guard.js";
import type { ToolContext } from "../../ports/tool.js";
import { readWhole } from "./read-file.js";

/** Maximum bytes of a file that is recorded. Larger files can be changed, but the change cannot be undone. */
export const MAX_RECORDED_BYTES = 20 * 1024 * 1024;
/**
 * Limits of a folder that is recorded before its deletion: total bytes, entries and depth. A larger folder can be
 * deleted, but not restored.
 */
const MAX_TREE_BYTES = 32 * 1024 * 1024;
const MAX_TREE_ENTRIES = 5_000;
const MAX_TREE_DEPTH = 100;

/** The file history that records changes before they are made. Without `history` nothing is recorded. */
export type HistoryContext = Pick<ToolContext, "history">;

const NOT_RECORDED: RecordedChange = { isRestorable: false, commit: () => undefined };

/**
 * Records the state of a path before it becomes `after`. Every change of a project file must call this function.
 *
 * `folder` is open and contains `name`. `createdFolderCount` is the number of parent folders that were just created. Call `commit` of
 * the result after the change. Never rejects.
 */
export async function recordBefore(
  guard: PathGuard,
  folder: OpenedFolder,
  name: string,
  after: FileState,
  { history }: HistoryContext,
  createdFolderCount = 0,
): Promise<RecordedChange> {
  if (!history) return { isRestorable: true, commit: () => undefined };
  try {
    const before = await readFileState(guard, folder, name);
    return await history.record([{ path: join(folder.path, name), before, after, createdFolders: createdFolderCount }]);
  } catch {
    return NOT_RECORDED;
  }
}

/** Like `recordBefore`, for a folder that is deleted with its contents. Records all of it or nothing. */
export async function recordTree(
  guard: PathGuard,
  folder: OpenedFolder,
  name: string,
  { history }: HistoryContext,
  signal: AbortSignal,
): Promise<RecordedChange> {
  if (!history) return { isRestorable: true, commit: () => undefined };
  try {
    const changes: FileChange[] = [];
    let totalBytes = 0;
    const recordEntry = async (parentFolder: OpenedFolder, entryName: string, depth: number): Promise<void> => {
      signal.throwIfAborted();
      const before = await readFileState(guard, parentFolder, entryName);
      totalBytes += before.kind === "file" ? (before.content?.length ?? Infinity) : 0;
      changes.push({ path: join(parentFolder.path, entryName), before, after: { kind: "none" } });
      if (changes.length > MAX_TREE_ENTRIES || totalBytes > MAX_TREE_BYTES || depth > MAX_TREE_DEPTH)
        throw new TreeTooLargeError();
      if (before.kind !== "folder") return;
      const subfolder = await parentFolder.openSubfolder(entryName);
      try {
        for await (const entry of subfolder.entries()) await recordEntry(subfolder, entry.name, depth + 1);
      } finally {
        await subfolder.close();
      }
    };
    await recordEntry(folder, name, 0);
    return await history.record(changes);
  } catch {
    return NOT_RECORDED;
  }
}

class TreeTooLargeError extends Error {}

/**
 * Reads the current state of a name in an open folder. Rejects with `PathError` for anything but a file, link or
 * folder.
 */
export async function readFileState(guard: PathGuard, folder: OpenedFolder, name: string): Promise<FileState> {
  const stats = await folder.stat(name);
  if (!stats) return { kind: "none" };
  const { mode, uid, gid } = stats;
  if (stats.isSymbolicLink()) return { kind: "link", target: await folder.readLink(name) };
  if (stats.isDirectory()) return { kind: "folder", mode: mode & 0o7777 };
  if (!stats.isFile()) throw new PathError("not_regular", "not a regular file");
  const metadata = { kind: "file", mode: mode & 0o7777, uid, gid } as const;
  if (stats.size > MAX_RECORDED_BYTES) return { ...metadata, content: undefined };
  const file = await guard.openFile(join(folder.path, name));
  try {
    // A file that grows during the read counts as too large.
    const content = await readWhole(file, MAX_RECORDED_BYTES + 1);
    return { ...metadata, content: content.length > MAX_RECORDED_BYTES ? undefined : content };
  } finally {
    await file.handle.close();
  }
}

/** Counts the missing parent folders of a resolved path. */
export async function countMissingParents(guard: PathGuard, path: string): Promise<number> {
  for (let missingCount = 0, folderPath = dirname(path); ; missingCount++, folderPath = dirname(folderPath)) {
    const folder = await guard.openFolder(folderPath).catch((error: unknown) => {
      if (error instanceof PathError && error.reason === "not_found" && dirname(folderPath) !== folderPath)
        return undefined;
      throw error;
    });
    await folder?.close();
    if (folder) return missingCount;
  }
}
