import type { ProjectFileMatches, FileQuery } from "../processes/file-completion.js";

/**
 * Finds files of a folder by a part of their path, best match first. Leaves out files that ignore files or
 * `deniedPaths` exclude. Rejects if the folder cannot be read.
 */
export async function findProjectFiles(query: FileQuery): Promise<ProjectFileMatches> {
  return (await import("../processes/file-completion.js")).completeFiles(query);
}
