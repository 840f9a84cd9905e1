import type { ProjectFileMatches, FileQuery } from "../processes/file-completion.js";
import type { Git, GitLocation } from "../processes/git.js";

/**
 * Finds files of a folder by a part of their path, best match first. Leaves out files that ignore files or
 * `deniedPaths` exclude. Rejects if the folder cannot be read.
 */
export async function findProjectFiles(query: FileQuery): Promise<ProjectFileMatches> {
  return (await import("../processes/file-completion.js")).completeFiles(query);
}

/**
 * Prepares Git for a repository that is not trusted: no hook, filter or other command from its settings runs. Undefined
 * if the folder's settings cannot be read. Rejects with the system's error if Git cannot start, or with the signal's
 * reason.
 */
export async function openGit(location: GitLocation, signal: AbortSignal): Promise<Git | undefined> {
  return (await import("../processes/git.js")).openGit(location, signal);
}
