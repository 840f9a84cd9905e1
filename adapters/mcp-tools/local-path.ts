import { realpathSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, isAbsolute, relative } from "node:path";

/**
 * A PATH without what a repository could put programs into: folders of the project, and those that are named from wherever
 * somebody stands. A server that a config names must not be one that was cloned. A project that holds the home folder is
 * nobody's repository: there it is the relative ones alone.
 */
export function ownPath(path: string | undefined, projectDir: string): string | undefined {
  const project = real(projectDir);
  const isWide = isWithin(home(), project);
  return path
    ?.split(delimiter)
    .filter(
      (folder) => isAbsolute(folder) && (isWide || !(isWithin(folder, projectDir) || isWithin(real(folder), project))),
    )
    .join(delimiter);
}

function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === "" || (way !== ".." && !/^\.\.[\\/]/.test(way) && !isAbsolute(way));
}

/** Of a user that no list of users has, and no variable, it is the root. */
function home(): string {
  try {
    return real(homedir());
  } catch {
    return "/";
  }
}

function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
