import { splitNames, PathPattern } from "./glob-match.js";

/** Globs, and paths with `/` as separator. */
export interface GlobsJob {
  globs: readonly string[];
  paths: readonly string[];
}

/** Returns for each glob whether the glob matches at least one of the paths. */
export function checkGlobs({ globs, paths }: GlobsJob): boolean[] {
  return globs.map((glob) => {
    const pattern = new PathPattern(glob);
    return paths.some(
      (path) => pattern.mayMatch(path, path.slice(path.lastIndexOf("/") + 1)) && pattern.matches(splitNames(path)),
    );
  });
}
