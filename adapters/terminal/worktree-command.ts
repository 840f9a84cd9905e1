import { ApiError, type ApiWorktree, type ApiWorktreeFile } from "gantry/client";
import { Confirmation, TextOverlay } from "./overlays.js";
import type { TerminalStore } from "./store.js";
import { escapeLine } from "./text.js";

/**
 * `/worktree`: before the first prompt, chooses whether the new session works in a Git worktree. In such a session,
 * copies its changes to the project folder after a confirmation.
 */
export function useWorktree(store: TerminalStore): void {
  const { id, newSessionOptions } = store.conversation;
  if (id !== undefined) return store.attempt(() => confirmApply(store, id));
  newSessionOptions.worktree = newSessionOptions.worktree !== true;
  store.showNotice(
    newSessionOptions.worktree
      ? "The new session will work in a Git worktree, a copy of the last commit. /worktree changes that."
      : "The new session will work in the project folder. /worktree changes that.",
  );
}

async function confirmApply(store: TerminalStore, id: string): Promise<void> {
  const worktree = await store.options.client.sessions.worktree(id);
  if (!worktree) return store.showNotice("This session does not work in a worktree.");
  const files = await apply(store, id, worktree, true);
  if (!files) return;
  if (files.length === 0) return store.showNotice("No changes to copy.");
  const rows = files.map(({ path, change }) => `${change.padEnd(7)}  ${toRelativePath(worktree, path)}`);
  const question = `Copy ${countFiles(files)} to ${worktree.project_dir}?`;
  const copyFiles = async (): Promise<void> => {
    const copiedFiles = await apply(store, id, worktree, false);
    if (copiedFiles) store.showNotice(`Copied ${countFiles(copiedFiles)} to ${escapeLine(worktree.project_dir)}.`);
  };
  store.showOverlay(new Confirmation(question, () => store.attempt(copyFiles), rows));
}

/** Returns the files, or shows the conflicts and returns undefined. */
async function apply(
  store: TerminalStore,
  id: string,
  worktree: ApiWorktree,
  dryRun: boolean,
): Promise<ApiWorktreeFile[] | undefined> {
  try {
    return await store.options.client.sessions.applyWorktree(id, { dryRun });
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "worktree_conflict") throw error;
    const { files = [] } = error.body as { files?: readonly ApiWorktreeFile[] };
    const conflicts = files.filter(({ reason }) => reason !== "");
    const rows = conflicts.map(({ path, reason }) => [toRelativePath(worktree, path), reason] as const);
    store.showOverlay(new TextOverlay("Nothing was copied, because these files conflict", rows));
    return undefined;
  }
}

function countFiles({ length }: readonly ApiWorktreeFile[]): string {
  return length === 1 ? "one file" : `${length} files`;
}

function toRelativePath({ project_dir: folder }: ApiWorktree, path: string): string {
  return path.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : path;
}
