import { join } from "node:path";
import { PathError } from "../../ports/errors.js";
import type { OpenedFile, OpenedFolder, PathGuard } from "../../files/path-guard.js";
import { realMatchPath, type SearchScope } from "../../processes/search-scope.js";

/**
 * Entries of one folder that are processed concurrently. Below the third level only one, so that few folders are open
 * at once.
 */
const ENTRIES_AT_ONCE = 4;
const WIDE_LEVELS = 3;
/** Maximum files that are open at once. */
const FILES_AT_ONCE = 4;

/** Paths below a folder, as a tree by name. */
type Names = Map<string, { path: string | undefined; inside: Names }>;

/**
 * Opens each file that ripgrep named with the path guard and calls `work`. Skips files that are refused or missing,
 * names that now lead through a link, and files for which `work` rejects with `PathError`.
 */
export async function forEachOpenedFile(
  { guard, place }: { guard: PathGuard; place: SearchScope },
  names: Iterable<string>,
  work: (file: OpenedFile, name: string) => Promise<void> | void,
): Promise<void> {
  const next = names[Symbol.iterator]();
  const worker = async (): Promise<void> => {
    for (let result = next.next(); !result.done; result = next.next())
      try {
        const path = realMatchPath(place, result.value);
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
  await Promise.all(Array.from({ length: FILES_AT_ONCE }, worker));
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
  const look = async (folder: OpenedFolder, names: Names, level: number): Promise<void> => {
    const next = names.entries();
    const worker = async (): Promise<void> => {
      for (const [name, { path, inside }] of next)
        try {
          if (path !== undefined) await work(folder, name, path);
          if (inside.size > 0) await look(await folder.folder(name), inside, level + 1);
        } catch (error) {
          if (!(error instanceof PathError)) throw error;
        }
    };
    try {
      await Promise.all(Array.from({ length: level < WIDE_LEVELS ? ENTRIES_AT_ONCE : 1 }, worker));
    } finally {
      await folder.close();
    }
  };
  await look(await guard.openFolder(base), byFirstName(paths), 0);
}

/**
 * Returns the paths below `base` that are regular files. Reads each folder once, which is faster than a `stat` of each
 * name.
 */
export async function regularFiles(guard: PathGuard, base: string, paths: readonly string[]): Promise<Set<string>> {
  const regularPaths = new Set<string>();
  const files = new WeakMap<OpenedFolder, Promise<ReadonlySet<string>>>();
  await forEachPath(guard, base, paths, async (folder, name, path) => {
    if (guard.denies(join(folder.path, name))) return;
    const inFolder = files.get(folder) ?? folder.files();
    files.set(folder, inFolder);
    if ((await inFolder).has(name)) regularPaths.add(path);
  });
  return regularPaths;
}

function byFirstName(paths: Iterable<string>): Names {
  const top: Names = new Map();
  for (const path of paths) {
    let names = top;
    const parts = path.split("/").slice(1);
    for (const [at, part] of parts.entries()) {
      const entry = names.get(part) ?? { path: undefined, inside: new Map() };
      names.set(part, entry);
      if (at === parts.length - 1) entry.path = path;
      names = entry.inside;
    }
  }
  return top;
}
