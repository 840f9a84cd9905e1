import { PathGuard } from "../files/path-guard.js";
import { listFiles } from "../processes/file-list.js";
import { openSearchScope } from "../processes/search-scope.js";

/** Maximum number of files offered to the user. */
const MAX_FILES = 50_000;

/** Returns the files of a folder that are not ignored, as sorted relative paths. Unreadable folders are skipped. */
export async function listProjectFiles(folder: string, signal: AbortSignal): Promise<string[]> {
  const guard = await PathGuard.create({ roots: [folder], deniedPaths: [] });
  const searchScope = await openSearchScope(guard, { path: folder, isFolder: true }, { project: folder, all: false });
  try {
    const files: string[] = [];
    await listFiles(searchScope, { signal, args: ["--sort=path"] }, (name) => files.push(name.slice(2)) < MAX_FILES);
    return files;
  } finally {
    await searchScope.close();
  }
}
