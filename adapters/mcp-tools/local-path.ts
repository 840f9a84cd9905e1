import { realpathSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, isAbsolute, relative } from "node:path";

/**
 * Removes from a PATH the folders in which a repository could put programs: folders of the project, and relative
 * folders. A configured server must never run a program from a clone.
 *
 * If the project contains the home folder, the project is not a repository. Then only relative folders are removed.
 * Returns undefined without a PATH.
 */
export function removeProjectFolders(path: string | undefined, projectDir: string): string | undefined {
  const project = resolveRealPath(projectDir);
  const containsHome = isWithin(findHome(), project);
  return path
    ?.split(delimiter)
    .filter(
      (folder) =>
        isAbsolute(folder) &&
        (containsHome || !(isWithin(folder, projectDir) || isWithin(resolveRealPath(folder), project))),
    )
    .join(delimiter);
}

function isWithin(path: string, folder: string): boolean {
  const relativePath = relative(folder, path);
  return (
    relativePath === "" || (relativePath !== ".." && !/^\.\.[\\/]/.test(relativePath) && !isAbsolute(relativePath))
  );
}

/** Home folder, or the root folder if the user has none. */
function findHome(): string {
  try {
    return resolveRealPath(homedir());
  } catch {
    return "/";
  }
}

function resolveRealPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
