import { PathGuard } from "../files/path-guard.js";
import { listFiles } from "../processes/file-list.js";
import { openSearchPlace } from "../processes/search-place.js";

/** More files than a person looks through. */
const MAX_FILES = 50_000;

/** The files of a folder that no ignore file leaves out, as sorted paths from it; what cannot be read is left out. */
export async function projectFiles(folder: string, signal: AbortSignal): Promise<string[]> {
  const guard = await PathGuard.create({ roots: [folder], denied: [] });
  const place = await openSearchPlace(guard, { path: folder, isFolder: true }, { project: folder, all: false });
  try {
    const files: string[] = [];
    await listFiles(place, { signal, args: ["--sort=path"] }, (name) => files.push(name.slice(2)) < MAX_FILES);
    return files;
  } finally {
    await place.close();
  }
}
