import { realpath, stat } from "node:fs/promises";
import { isAbsolute, relative, resolve, sep } from "node:path";
import { invalidField } from "./fields.js";

/** Which folders a run may work in. Absolute paths. */
export interface ProjectRules {
  /** The served folder: relative paths start there, and it may always be used. */
  projectDir: string;
  /** Others; with all that is in them. */
  roots: readonly string[];
  /** Never, also below. */
  denied: readonly string[];
}

/**
 * The real path of a folder that a client names. Throws the same `HttpError` for what is no folder, what is not there and
 * what is elsewhere, so that nothing is learned of what is elsewhere.
 */
export async function projectFolder(given: string, { projectDir, roots, denied }: ProjectRules): Promise<string> {
  const real = (path: string) => realpath(path).catch(() => undefined);
  const path = given.includes("\0") ? undefined : await real(resolve(projectDir, given));
  const isIn = async (folders: readonly string[]): Promise<boolean> => {
    const known = await Promise.all(folders.map(real));
    return known.some((folder) => folder !== undefined && path !== undefined && isInside(path, folder));
  };
  if (path === undefined || !(await isIn([projectDir, ...roots])) || (await isIn(denied)))
    throw invalidField("project_dir");
  const stats = await stat(path).catch(() => undefined);
  if (!stats?.isDirectory()) throw invalidField("project_dir");
  return path;
}

/** Compared by component: `/a/bc` is not inside `/a/b`. */
function isInside(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === "" || (way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way));
}
