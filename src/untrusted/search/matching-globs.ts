import { namesOf, PathPattern } from "./glob-match.js";

/** Globs, and paths with `/`. */
export interface GlobsJob {
  globs: readonly string[];
  paths: readonly string[];
}

/** Of each glob, whether one of the paths fits it. */
export function fittingGlobs({ globs, paths }: GlobsJob): boolean[] {
  return globs.map((glob) => {
    const pattern = new PathPattern(glob);
    return paths.some(
      (path) => pattern.fits(path, path.slice(path.lastIndexOf("/") + 1)) && pattern.matches(namesOf(path)),
    );
  });
}
