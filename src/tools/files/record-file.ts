import { dirname, join } from "node:path";
import { PathError } from "../../ports/errors.js";
import type { FileChange, FileState, Keeping } from "../../ports/file-history.js";
import type { OpenedFolder, PathGuard } from "../../files/path-guard.js";
import type { ToolContext } from "../../ports/tool.js";
import { readWhole } from "./read-file.js";

/** Larger files are changed all the same, and cannot be brought back, in bytes. */
export const MAX_KEPT_BYTES = 20 * 1024 * 1024;
/** A folder that holds more, in all, is deleted all the same, and cannot be brought back. */
const TREE_BYTES = 32 * 1024 * 1024;
const TREE_ENTRIES = 5_000;
const TREE_DEPTH = 100;

/** Who is told of changes before they are made; without `history` nobody is. */
export type Keeper = Pick<ToolContext, "history">;

const NOTHING_KEPT: Keeping = { kept: false, done: () => undefined };

/**
 * Have what a path is kept, before it becomes `after`: for whatever changes a file of a project. `folder` is open and
 * holds `name`; `made`: how many folders were made for it just now. Never rejects. Call `done` when the change is made.
 */
export async function keepBefore(
  guard: PathGuard,
  folder: OpenedFolder,
  name: string,
  after: FileState,
  { history }: Keeper,
  made = 0,
): Promise<Keeping> {
  if (!history) return { kept: true, done: () => undefined };
  try {
    const before = await stateOf(guard, folder, name);
    return await history.keep([{ path: join(folder.path, name), before, after, made }]);
  } catch {
    return NOTHING_KEPT;
  }
}

/** As `keepBefore`, of a folder that goes with all that is in it: all of it is kept, or nothing. */
export async function keepTree(
  guard: PathGuard,
  folder: OpenedFolder,
  name: string,
  { history }: Keeper,
  signal: AbortSignal,
): Promise<Keeping> {
  if (!history) return { kept: true, done: () => undefined };
  try {
    const changes: FileChange[] = [];
    let bytes = 0;
    const walk = async (at: OpenedFolder, own: string, depth: number): Promise<void> => {
      signal.throwIfAborted();
      const before = await stateOf(guard, at, own);
      bytes += before.kind === "file" ? (before.content?.length ?? Infinity) : 0;
      changes.push({ path: join(at.path, own), before, after: { kind: "none" } });
      if (changes.length > TREE_ENTRIES || bytes > TREE_BYTES || depth > TREE_DEPTH) throw new TooMuch();
      if (before.kind !== "folder") return;
      const inner = await at.folder(own);
      try {
        for await (const entry of inner.entries()) await walk(inner, entry.name, depth + 1);
      } finally {
        await inner.close();
      }
    };
    await walk(folder, name, 0);
    return await history.keep(changes);
  } catch {
    return NOTHING_KEPT;
  }
}

class TooMuch extends Error {}

/** What is at a name of an open folder now. Rejects with `PathError` for what is no file, link or folder. */
export async function stateOf(guard: PathGuard, folder: OpenedFolder, name: string): Promise<FileState> {
  const stats = await folder.stat(name);
  if (!stats) return { kind: "none" };
  const { mode, uid, gid } = stats;
  if (stats.isSymbolicLink()) return { kind: "link", target: await folder.readLink(name) };
  if (stats.isDirectory()) return { kind: "folder", mode: mode & 0o7777 };
  if (!stats.isFile()) throw new PathError("not_regular", "not a regular file");
  const whole = { kind: "file", mode: mode & 0o7777, uid, gid } as const;
  if (stats.size > MAX_KEPT_BYTES) return { ...whole, content: undefined };
  const file = await guard.openFile(join(folder.path, name));
  try {
    // What grows meanwhile is too large when it is read.
    const content = await readWhole(file, MAX_KEPT_BYTES + 1);
    return { ...whole, content: content.length > MAX_KEPT_BYTES ? undefined : content };
  } finally {
    await file.handle.close();
  }
}

/** How many of the folders that lead to a resolved path are missing. */
export async function missingAbove(guard: PathGuard, path: string): Promise<number> {
  for (let missing = 0, at = dirname(path); ; missing++, at = dirname(at)) {
    const folder = await guard.openFolder(at).catch((error: unknown) => {
      if (error instanceof PathError && error.reason === "not_found" && dirname(at) !== at) return undefined;
      throw error;
    });
    await folder?.close();
    if (folder) return missing;
  }
}
