import { realpath, stat } from "node:fs/promises";
import { isAbsolute, relative, resolve, sep } from "node:path";
import { invalidField } from "./fields.js";

/** Rules for the folders in which runs may work. Absolute paths. */
export interface ProjectRules {
  /** The served folder. It is always allowed, and relative paths start there. */
  projectDir: string;
  /** Additional folders that are allowed with everything in them. */
  roots: readonly string[];
  /** Folders that are forbidden with everything in them. */
  denied: readonly string[];
}

/**
 * Returns the real path of a folder that a client names. Throws the same `HttpError` for a file, a missing path and a
 * forbidden path: clients learn nothing about other paths.
 */
export async function resolveProjectFolder(
  requestedPath: string,
  { projectDir, roots, denied }: ProjectRules,
): Promise<string> {
  const real = (path: string) => realpath(path).catch(() => undefined);
  const path = requestedPath.includes("\0") ? undefined : await real(resolve(projectDir, requestedPath));
  const isIn = async (folders: readonly string[]): Promise<boolean> => {
    const realFolders = await Promise.all(folders.map(real));
    return realFolders.some((folder) => folder !== undefined && path !== undefined && isInside(path, folder));
  };
  if (path === undefined || !(await isIn([projectDir, ...roots])) || (await isIn(denied)))
    throw invalidField("project_dir");
  const stats = await stat(path).catch(() => undefined);
  if (!stats?.isDirectory()) throw invalidField("project_dir");
  return path;
}

/** Compares path components: `/a/bc` is not inside `/a/b`. */
function isInside(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === "" || (way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way));
}
