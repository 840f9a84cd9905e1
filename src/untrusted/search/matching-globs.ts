import { namesOf, PathPattern } from "./glob-match.js";

/** Globs, and paths with `/` as separator. */
export interface GlobsJob {
  globs: readonly string[];
  paths: readonly string[];
}

/** For each glob, whether it matches at least one of the paths. */
export function matchingGlobs({ globs, paths }: GlobsJob): boolean[] {
  return globs.map((glob) => {
    const pattern = new PathPattern(glob);
    return paths.some(
      (path) => pattern.mayMatch(path, path.slice(path.lastIndexOf("/") + 1)) && pattern.matches(namesOf(path)),
    );
  });
}
