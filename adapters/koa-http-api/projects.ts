import { realpath, stat } from "node:fs/promises";
import { isAbsolute, relative, resolve, sep } from "node:path";
import { createFieldError } from "./body.js";

/** Rules for the folders in which runs may work. Absolute paths. */
export interface ProjectRules {
  /** The served folder: always allowed, and the start of relative paths. */
  projectDir: string;
  /** Additional folders that are allowed with everything in them. */
  roots: readonly string[];
  /** Folders that are forbidden with everything in them. */
  deniedPaths: readonly string[];
}

/**
 * Returns the real path of a folder that a client names. Throws the same `HttpError` for a file, a missing path and a
 * forbidden path: clients learn nothing about other paths.
 */
export async function resolveProjectFolder(
  requestedPath: string,
  { projectDir, roots, deniedPaths }: ProjectRules,
): Promise<string> {
  const toRealPath = (path: string) => realpath(path).catch(() => undefined);
  const path = requestedPath.includes("\0") ? undefined : await toRealPath(resolve(projectDir, requestedPath));
  const isInAny = async (folders: readonly string[]): Promise<boolean> => {
    const realFolders = await Promise.all(folders.map(toRealPath));
    return realFolders.some((folder) => folder !== undefined && path !== undefined && isInside(path, folder));
  };
  if (path === undefined || !(await isInAny([projectDir, ...roots])) || (await isInAny(deniedPaths)))
    throw createFieldError("project_dir");
  const stats = await stat(path).catch(() => undefined);
  if (!stats?.isDirectory()) throw createFieldError("project_dir");
  return path;
}

/** Compares path components: `/a/bc` is not inside `/a/b`. */
function isInside(path: string, folder: string): boolean {
  const relativePath = relative(folder, path);
  return (
    relativePath === "" || (relativePath !== ".." && !relativePath.startsWith(`..${sep}`) && !isAbsolute(relativePath))
  );
}
