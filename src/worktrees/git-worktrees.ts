import { realpath } from "node:fs/promises";
import { isInside } from "../files/names.js";
import type { Worktrees } from "../ports/worktrees.js";
import type { GitWorktreesOptions, WorktreeFolder } from "./worktree-folder.js";

/**
 * Keeps Git worktrees of sessions in a local folder. The implementation is loaded, and the options function called, at
 * the first use.
 *
 * @param folder Absolute path. Created with mode 0700 at the first use. Only this code may write to it.
 */
export function gitWorktrees(
  folder: string,
  options: GitWorktreesOptions | (() => Promise<GitWorktreesOptions>),
): Worktrees {
  let worktreesPromise: Promise<WorktreeFolder> | undefined;
  const loadWorktrees = async (): Promise<WorktreeFolder> => {
    const { WorktreeFolder } = await import("./worktree-folder.js");
    return new WorktreeFolder(folder, typeof options === "function" ? await options() : options);
  };
  const getWorktrees = (): Promise<WorktreeFolder> => (worktreesPromise ??= loadWorktrees());
  // Most sessions work in no worktree: their folder, a real path, decides without the implementation.
  const findOwner = async (path: string) =>
    isInside(path, await realpath(folder).catch(() => folder)) ? getWorktrees() : undefined;
  return {
    create: async (projectDir, isUsed, signal) => (await getWorktrees()).create(projectDir, isUsed, signal),
    find: async (path) => (await findOwner(path))?.find(path),
    apply: async (path, applyOptions) => (await getWorktrees()).apply(path, applyOptions),
    prepareRemoval: async (path, isUsed) => (await findOwner(path))?.prepareRemoval(path, isUsed),
  };
}
