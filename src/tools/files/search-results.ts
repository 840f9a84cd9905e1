import { join } from "node:path";
import { PathError } from "../../ports/errors.js";
import type { OpenedFile, OpenedFolder, PathGuard } from "../../files/path-guard.js";
import { resolveMatchPath, type SearchScope } from "../../processes/search-scope.js";

/** Entries of one folder that are processed concurrently, down to the level `WIDE_LEVELS`. */
const MAX_OPEN_ENTRIES = 4;
/** Levels with concurrent entries. Deeper folders process one entry at a time, so that few folders are open at once. */
const WIDE_LEVELS = 3;
/** Maximum files that are open at once. */
const MAX_OPEN_FILES = 4;

/** Paths below a folder, as a tree by name. */
type NameTree = Map<string, { path: string | undefined; children: NameTree }>;

/**
 * Opens each file that ripgrep named with the path guard and calls `work`. Skips files that are refused or missing,
 * names that now lead through a link, and files for which `work` rejects with `PathError`.
 */
export async function forEachOpenedFile(
  { guard, scope }: { guard: PathGuard; scope: SearchScope },
  names: Iterable<string>,
  work: (file: OpenedFile, name: string) => Promise<void> | void,
): Promise<void> {
  const nameIterator = names[Symbol.iterator]();
  const runWorker = async (): Promise<void> => {
    for (let result = nameIterator.next(); !result.done; result = nameIterator.next())
      try {
        const path = resolveMatchPath(scope, result.value);
        const file = await guard.openFile(path);
        try {
          if (file.path === path) await work(file, result.value);
        } finally {
          await file.handle.close();
        }
      } catch (error) {
        if (!(error instanceof PathError)) throw error;
      }
  };
  await Promise.all(Array.from({ length: MAX_OPEN_FILES }, runWorker));
}

/**
 * Calls `work` for each path below `base`, given as `./a/b`, with its open folder. Each folder is opened once.
 *
 * Skips paths that are refused or missing, and paths for which `work` rejects with `PathError`.
 */
async function forEachPath(
  guard: PathGuard,
  base: string,
  paths: Iterable<string>,
  work: (folder: OpenedFolder, name: string, path: string) => Promise<void>,
): Promise<void> {
  const visitFolder = async (folder: OpenedFolder, names: NameTree, level: number): Promise<void> => {
    const nameIterator = names.entries();
    const runWorker = async (): Promise<void> => {
      for (const [name, { path, children }] of nameIterator)
        try {
          if (path !== undefined) await work(folder, name, path);
          if (children.size > 0) await visitFolder(await folder.openSubfolder(name), children, level + 1);
        } catch (error) {
          if (!(error instanceof PathError)) throw error;
        }
    };
    try {
      await Promise.all(Array.from({ length: level < WIDE_LEVELS ? MAX_OPEN_ENTRIES : 1 }, runWorker));
    } finally {
      await folder.close();
    }
  };
  await visitFolder(await guard.openFolder(base), toNameTree(paths), 0);
}

/**
 * Returns the paths below `base` that are regular files. Reads each folder once, which is faster than a `stat` of each
 * name.
 */
export async function findRegularFiles(guard: PathGuard, base: string, paths: readonly string[]): Promise<Set<string>> {
  const regularPaths = new Set<string>();
  const filesByFolder = new WeakMap<OpenedFolder, Promise<ReadonlySet<string>>>();
  await forEachPath(guard, base, paths, async (folder, name, path) => {
    if (guard.denies(join(folder.path, name))) return;
    const folderFiles = filesByFolder.get(folder) ?? folder.listFileNames();
    filesByFolder.set(folder, folderFiles);
    if ((await folderFiles).has(name)) regularPaths.add(path);
  });
  return regularPaths;
}

function toNameTree(paths: Iterable<string>): NameTree {
  const root: NameTree = new Map();
  for (const path of paths) {
    let names = root;
    const parts = path.split("/").slice(1);
    for (const [i, part] of parts.entries()) {
      const entry = names.get(part) ?? { path: undefined, children: new Map() };
      names.set(part, entry);
      if (i === parts.length - 1) entry.path = path;
      names = entry.children;
    }
  }
  return root;
}
